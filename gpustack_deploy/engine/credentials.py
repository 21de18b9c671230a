"""Certificates and keys given as content: handed to TLS without a file on any disk (D16)."""

import base64
import hashlib
import os
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpustack_deploy.engine.connection import Access

# Content and file variants of what TLS reads from files.
_CONTENT_KEYS: Final = {
    "certificate-authority-data": "certificate-authority",
    "client-certificate-data": "client-certificate",
    "client-key-data": "client-key",
}

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)


@asynccontextmanager
async def in_memory(access: Access | None) -> AsyncIterator[Access | None]:
    """Yield the access with content replaced by files that exist in memory only, until the end.

    Where the system has no such files the content stays, and the client writes it to private
    temporary files of its own.
    """
    if access is None or not hasattr(os, "memfd_create"):
        yield access
        return
    open_files: list[int] = []

    def held(section: Any) -> dict[str, Any]:
        kept = dict(section)
        for content_key, file_key in _CONTENT_KEYS.items():
            content = kept.pop(content_key, None)
            if content:
                descriptor = os.memfd_create("gpustack-deploy", os.MFD_CLOEXEC)
                open_files.append(descriptor)
                os.write(descriptor, base64.b64decode(content))
                kept[file_key] = f"/proc/self/fd/{descriptor}"
        return kept

    try:
        yield replace(access, cluster=held(access.cluster), user=held(access.user))
    finally:
        for descriptor in open_files:
            os.close(descriptor)


def authority_mark(ca_file: str | None) -> str:
    """Return the SHA-256 of the authority's certificates in that file, however it is written.

    Empty when none is configured or the file cannot be read: unknown, never different.
    """
    if not ca_file:
        return ""
    try:
        text = Path(ca_file).read_text(encoding="ascii", errors="ignore")
        certificates = sorted(map(ssl.PEM_cert_to_DER_cert, _CERTIFICATE.findall(text)))
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(b"".join(certificates)).hexdigest() if certificates else ""
