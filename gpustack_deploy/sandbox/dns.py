"""Names of Services and members resolved for real: CoreDNS, and a question to it."""

import contextlib
import secrets
import socket
import struct

from gpustack_deploy.sandbox.errors import SandboxError
from gpustack_deploy.sandbox.layout import Layout
from gpustack_deploy.sandbox.ports import LOOPBACK

_DOMAIN = "cluster.local"
_A_RECORD, _INTERNET = 1, 1
_NO_SUCH_NAME = 3


def corefile(layout: Layout) -> str:
    """CoreDNS's configuration: the cluster's names, no forwarding, nothing cached."""
    return f"""{_DOMAIN}:{layout.ports["coredns"]} {{
    bind {LOOPBACK}
    errors
    ready {LOOPBACK}:{layout.ports["coredns-ready"]}
    kubernetes {_DOMAIN} {{
        kubeconfig {layout.kubeconfig_of("coredns")}
        ttl 0
    }}
}}
"""


def resolve(name: str, port: int, *, seconds: float = 5.0) -> list[str]:
    """The IPv4 addresses that the name server on this port gives, sorted; none for no such name."""
    identity = secrets.randbits(16)
    labels = name.rstrip(".").split(".")
    question = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    sent = struct.pack(">HHHHHH", identity, 0x0100, 1, 0, 0, 0) + question
    sent += struct.pack(">HH", _A_RECORD, _INTERNET)
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asked:
        asked.settimeout(seconds)
        asked.sendto(sent, (LOOPBACK, port))
        answer = asked.recv(4096)
    return _addresses(answer, identity, start=len(sent), name=name)


def _addresses(answer: bytes, identity: int, *, start: int, name: str) -> list[str]:
    answered, flags, _, count, _, _ = struct.unpack(">HHHHHH", answer[:12])
    code = flags & 0xF
    if answered != identity or code not in {0, _NO_SUCH_NAME}:
        raise SandboxError(f"The sandbox's name server answered {name} with code {code}.")
    found: list[str] = []
    position = start
    for _ in range(count):
        position = _after_name(answer, position)
        kind, _, _, length = struct.unpack(">HHIH", answer[position : position + 10])
        position += 10
        if kind == _A_RECORD:
            found.append(socket.inet_ntoa(answer[position : position + length]))
        position += length
    return sorted(found)


def _after_name(answer: bytes, position: int) -> int:
    """The position after a name that ends with a zero byte or points elsewhere."""
    while answer[position] != 0:
        if answer[position] & 0xC0:
            return position + 2
        position += answer[position] + 1
    return position + 1
