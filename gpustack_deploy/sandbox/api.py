"""A small client of the sandbox's API server: plain HTTPS and JSON, the standard library only.

It is independent of the product's own client on purpose: what tests and the demo verify, they
verify with this one.
"""

import base64
import http.client
import json
import ssl
import tempfile
import urllib.parse
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
YAML = "application/yaml"

_TIMEOUT_SECONDS = 30.0


class ApiError(Exception):
    """The API server refused a request: the status code and the Status body it answered with."""

    def __init__(self, method: str, path: str, code: int, status: Json) -> None:
        self.method = method
        self.path = path
        self.code = code
        self.status = status
        super().__init__(f"{method} {path}: {code} {status.get('message', '')}".rstrip())

    @property
    def reason(self) -> str:
        """The machine-readable reason, such as `NotFound` or `AlreadyExists`."""
        return str(self.status.get("reason", ""))


class SandboxApi:
    """Requests to one API server with the identity of a kubeconfig's current context.

    Paths are the API's own, such as `/api/v1/namespaces/default/pods/m0`, and may carry a query.
    """

    def __init__(self, kubeconfig: str | Path) -> None:
        self._server, self._tls = _read_kubeconfig(Path(kubeconfig))

    def get(self, path: str) -> Json:
        """The object at the path; `ApiError` with code 404 when there is none."""
        return self.request("GET", path)

    def find(self, path: str) -> Json | None:
        """The object at the path, or None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == http.client.NOT_FOUND:
                return None
            raise

    def list(self, path: str) -> list[Json]:
        """All items of a collection, however many pages the server makes of it."""
        items: list[Json] = []
        token = ""
        while True:
            glue = "&" if "?" in path else "?"
            page = self.get(f"{path}{glue}continue={urllib.parse.quote(token)}" if token else path)
            items.extend(page.get("items") or [])
            token = page.get("metadata", {}).get("continue") or ""
            if not token:
                return items

    def create(self, path: str, body: Mapping[str, Any] | bytes) -> Json:
        """POSTs into a collection and returns the created object; bytes are sent as YAML."""
        if isinstance(body, bytes):
            return self.request("POST", path, body, content_type=YAML)
        return self.request("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """PUTs an object (or its status) and returns it as it is now."""
        return self.request("PUT", path, body)

    def patch(
        self,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        content_type: str = MERGE_PATCH,
    ) -> Json:
        """Patches an object and returns it as it is now; a list is sent as a JSON patch."""
        if not isinstance(body, Mapping):
            content_type = JSON_PATCH
        return self.request("PATCH", path, body, content_type=content_type)

    def apply(self, path: str, body: Mapping[str, Any], *, field_manager: str) -> Json:
        """Applies an object on the server side, taking over fields of other managers."""
        query = urllib.parse.urlencode({"fieldManager": field_manager, "force": "true"})
        return self.request("PATCH", f"{path}?{query}", body, content_type=APPLY_PATCH)

    def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> Json:
        """Deletes an object, or one with this UID only; returns the server's answer."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        return self.request("DELETE", path, options)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes | None = None,
        *,
        content_type: str = "application/json",
    ) -> Json:
        """Sends one request and returns the decoded answer; anything but 2xx raises `ApiError`."""
        code, text = self.raw(method, path, body, content_type=content_type)
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            answer = {"message": text.decode(errors="replace").strip()}
        if not isinstance(answer, dict):
            answer = {"value": answer}
        if not 200 <= code < 300:
            raise ApiError(method, path, code, answer)
        return answer

    def raw(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes | None = None,
        *,
        content_type: str = "application/json",
    ) -> tuple[int, bytes]:
        """Sends one request and returns the status code and the answer as it came."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Accept": "application/json", "User-Agent": "gpustack-deploy-sandbox"}
        if sent is not None:
            headers["Content-Type"] = content_type
        connection = http.client.HTTPSConnection(
            self._server, context=self._tls, timeout=_TIMEOUT_SECONDS
        )
        with closing(connection):
            connection.request(method, path, body=sent, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()


def _read_kubeconfig(path: Path) -> tuple[str, ssl.SSLContext]:
    """The server's address and a TLS context with the current context's client certificate."""
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as chain:
        chain.write(base64.b64decode(user["client-certificate-data"]))
        chain.write(base64.b64decode(user["client-key-data"]))
        chain.flush()
        tls.load_cert_chain(chain.name)
    return urllib.parse.urlsplit(cluster["server"]).netloc, tls


def _named(entries: Sequence[Json], name: str) -> Json:
    return next(entry for entry in entries if entry["name"] == name)
