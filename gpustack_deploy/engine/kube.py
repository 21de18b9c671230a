"""The port on a real API server: the only file that imports the Kubernetes client (D15).

The client is transport alone: authentication, TLS, the pool. Answers stay raw. A write is sent
once; what became of one without an answer is unknown (`Unreachable`), and the engine reads again. A
read is repeated a few times within a bounded time.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gpustack_deploy import __version__
from gpustack_deploy.engine import requests
from gpustack_deploy.engine.answers import Lines, cause_of, error_of, is_uid_mismatch
from gpustack_deploy.engine.cluster import NAMESPACE, Change, ClusterMarks, Event, Kind, Listing
from gpustack_deploy.engine.connection import Access, Connection, find_access
from gpustack_deploy.engine.credentials import authority_mark, in_memory
from gpustack_deploy.engine.requests import Request
from gpustack_deploy.model.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    Refused,
    Throttled,
    Unreachable,
)
from gpustack_deploy.model.raw import Json, list_at, mapping_at, text_at

CONNECT_SECONDS: Final = 5.0
# Between two bytes of an answer. A write may wait for webhooks, which have up to half a minute.
READ_SILENCE_SECONDS: Final = 10.0
WRITE_SILENCE_SECONDS: Final = 40.0
# The server sends a bookmark about every minute: a watch silent for longer has lost its server.
WATCH_SILENCE_SECONDS: Final = 100.0
OPEN_SECONDS: Final = 15.0

READ_ATTEMPTS: Final = 4
# After this many seconds a read is given up, so that a dead server is told within 15 s.
READ_SECONDS: Final = 4.0
WRITES_AT_ONCE: Final = 16

# What does not change while a process runs, by server and authority.
_marks: dict[tuple[str, str], ClusterMarks] = {}
_served: dict[tuple[str, str, str], frozenset[str]] = {}


async def open_cluster(connection: Connection) -> "KubeCluster":
    """Return the cluster of that connection; nothing is asked of its API server yet.

    Raises:
        Unreachable: there is no kubeconfig, no such context, or nothing in it can be used.
        Forbidden: the credential plugin gave no credentials.
    """
    access = find_access(connection)
    # Imported when a cluster is needed, so that importing this package stays quick.
    from kubernetes.aio import client as kubernetes_client  # noqa: PLC0415

    configuration = kubernetes_client.Configuration()
    where = f"context {access.context!r}" if access else "the Pod's service account"
    try:
        async with asyncio.timeout(OPEN_SECONDS), in_memory(access) as usable:
            loader = await _load(usable, configuration)
            ca = authority_mark(configuration.ssl_ca_cert)
            configuration.client_session_kwargs = {"trust_env": not _is_local(configuration.host)}
            client = kubernetes_client.ApiClient(configuration)
    except TimeoutError:
        raise Unreachable(
            f"the credential plugin of {where} gave no answer within {OPEN_SECONDS:.0f} s: run it"
            " by hand to see what it waits for, then run again"
        ) from None
    except ClusterError:
        raise
    except Exception as error:  # noqa: BLE001 - of the client, of a plugin, of TLS: all kinds
        # Its text may quote the kubeconfig; its kind says enough.
        raise Unreachable(
            f"{where} cannot be used ({type(error).__name__}): check its certificates and"
            " credentials with `kubectl`, then run again"
        ) from None
    return KubeCluster(client, loader, where=where, ca=ca)


async def _load(access: Access | None, configuration: Any) -> Any:
    """Fill the configuration in; return what can renew a plugin's credentials, else None."""
    from kubernetes.aio import config  # noqa: PLC0415

    if access is None:
        config.load_incluster_config(client_configuration=configuration)
        return None
    loader = await config.load_kube_config_from_dict(
        access.as_kubeconfig(), client_configuration=configuration
    )
    if "exec" not in access.user:
        return None
    if not configuration.api_key and not configuration.cert_file:
        raise Forbidden(
            f"the credential plugin {mapping_at(access.user, 'exec').get('command')!r} of context"
            f" {access.context!r} gave no credentials: log in to that cluster, then run again",
            reason="Unauthorized",
        )
    return loader


class KubeCluster:
    """The `Cluster` port over HTTP; `requests` counts what was sent, by verb and plural."""

    def __init__(self, client: Any, loader: Any, *, where: str, ca: str) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.server: str = client.configuration.host
        self._client = client
        self._loader = loader
        self._where = where
        self._ca = ca
        self._writes = asyncio.Semaphore(WRITES_AT_ONCE)
        client.user_agent = f"gpustack-deploy/{__version__}"
        self._prepare_session()

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        return await self._read(requests.read(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str, *, labels: str = "", name: str = ""
    ) -> Listing:
        answer = await self._read(requests.list_of(kind, namespace, labels=labels, name=name))
        return Listing(
            tuple(list_at(answer, "items")), text_at(answer, "metadata", "resourceVersion")
        )

    async def watch(
        self,
        kind: Kind,
        namespace: str,
        *,
        labels: str = "",
        name: str = "",
        resource_version: str,
        timeout_seconds: int,
    ) -> AsyncIterator[Event]:
        request = requests.watch_of(
            kind,
            namespace,
            labels=labels,
            name=name,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
        )
        silence = min(WATCH_SILENCE_SECONDS, timeout_seconds + READ_SILENCE_SECONDS)
        response = await self._open(request, silence_seconds=silence)
        try:
            if response.status != 200:
                raise self._error(response, await response.read(), request)
            lines = Lines()
            async for chunk in response.content.iter_any():
                for line in lines.feed(chunk):
                    yield self._event(json.loads(line), request)
        except ClusterError:
            raise
        except self._failures as error:
            raise self._silent(request, error) from None
        finally:
            _hang_up(response)

    async def create(
        self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False
    ) -> Json:
        return await self._write(requests.create(kind, namespace, body, dry_run=dry_run))

    async def replace(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        return await self._write(requests.replace(kind, namespace, name, body))

    async def patch(self, kind: Kind, namespace: str, name: str, body: Json, *, uid: str) -> Json:
        return await self._write(requests.patch(kind, namespace, name, body, uid=uid))

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_period_seconds: int | None = None,
    ) -> None:
        await self._write(
            requests.delete(
                kind, namespace, name, uid=uid, grace_period_seconds=grace_period_seconds
            )
        )

    async def serves(self, kind: Kind) -> bool:
        key = (self.server, self._ca, kind.api_version)
        if key not in _served:
            try:
                answer = await self._read(requests.discover(kind))
            except NotFound:
                # Not remembered: the group may be installed while this process runs.
                return False
            _served[key] = requests.served_plurals(answer)
        return kind.plural in _served[key]

    async def marks(self) -> ClusterMarks:
        """Return the cluster's marks; empty is unknown. No answer at all is an error."""
        key = (self.server, self._ca)
        if key not in _marks:
            try:
                found = await self.get(NAMESPACE, "", "kube-system")
            except (Forbidden, Refused, NotFound):
                found = {}
            _marks[key] = ClusterMarks(uid=text_at(found, "metadata", "uid"), ca=self._ca)
        return _marks[key]

    async def close(self) -> None:
        await self._client.close()

    # --- one request ---

    async def _read(self, request: Request) -> Json:
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + READ_SECONDS
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                return await self._exchange(request, silence_seconds=READ_SILENCE_SECONDS)
            except (Unreachable, Throttled) as error:
                pause = _pause(attempt, error)
                if attempt == READ_ATTEMPTS or loop.time() + pause > gives_up_at:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError(request)  # pragma: no cover - the last attempt returns or raises

    async def _write(self, request: Request) -> Json:
        async with self._writes:
            return await self._exchange(request, silence_seconds=WRITE_SILENCE_SECONDS)

    async def _exchange(self, request: Request, *, silence_seconds: float) -> Json:
        response = await self._open(request, silence_seconds=silence_seconds)
        try:
            body = await response.read()
        except self._failures as error:
            raise self._silent(request, error) from None
        finally:
            response.release()
        if not 200 <= response.status < 300:
            raise self._error(response, body, request)
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise Unreachable(
                f"{self.server} answered {request.target} with no JSON object: check that"
                f" {self._where} leads to a Kubernetes API server"
            )
        return answer

    async def _open(self, request: Request, *, silence_seconds: float) -> Any:
        """Send the request and return the response as soon as its headers are there."""
        self.requests[request.verb, request.plural] += 1
        try:
            headers = await self._headers(request)
            sent = await self._client.rest_client.request(
                request.method,
                f"{self.server}{request.url}",
                headers=headers,
                body=None if request.body is None else _plain(request.body),
                _request_timeout=self._timeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds
                ),
            )
        except self._failures as error:
            raise self._silent(request, error) from None
        return sent.response

    async def _headers(self, request: Request) -> dict[str, str]:
        if getattr(self._loader, "exec_plugin_expiry", None) is not None:
            # Runs the plugin again only when what it gave is about to expire.
            await self._loader.load_from_exec_plugin()
            self._client.configuration.api_key["BearerToken"] = self._loader.token
        headers = {
            "Accept": "application/json",
            "Content-Type": request.content_type,
            "User-Agent": self._client.user_agent,
        }
        await self._client.update_params_for_auth(
            headers, [], ["BearerToken"], request.path, request.method, None
        )
        return headers

    def _prepare_session(self) -> None:
        """Open the pool ourselves, to turn off what aiohttp repeats by itself."""
        import aiohttp  # noqa: PLC0415

        self._failures = (aiohttp.ClientError, TimeoutError, OSError)
        self._timeout = aiohttp.ClientTimeout
        rest = self._client.rest_client
        make = getattr(rest, "_create_pool_manager", None)
        if make is not None:
            rest.pool_manager = make()
            # A DELETE or PUT whose connection broke is otherwise sent again, silently.
            if hasattr(rest.pool_manager, "_retry_connection"):
                rest.pool_manager._retry_connection = False  # noqa: SLF001

    # --- what went wrong ---

    def _error(self, response: Any, body: bytes, request: Request) -> ClusterError:
        if request.verb == "patch" and is_uid_mismatch(response.status, body):
            return Conflict(f"{request.target}: another object has that name", reason="Conflict")
        return error_of(
            response.status,
            body,
            retry_after=response.headers.get("Retry-After", ""),
            target=request.target,
            server=f"{self.server} ({self._where})",
        )

    def _silent(self, request: Request, error: BaseException) -> Unreachable:
        return Unreachable(
            f"{self.server} ({self._where}) gave no answer to {request.target}: {cause_of(error)};"
            " a reachable API server is needed: check the address, the network and the cluster,"
            " then run again"
        )

    def _event(self, parsed: Mapping[str, Any], request: Request) -> Event:
        kind, obj = parsed.get("type"), mapping_at(parsed, "object")
        if kind == "ERROR":
            raise error_of(
                int(obj.get("code") or 500), obj, target=request.target, server=self.server
            )
        return Event(Change(str(kind)), obj)


def _is_local(server: str) -> bool:
    """Whether the server is on this machine: no proxy is between us, whatever is configured."""
    host = urlsplit(server).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _hang_up(response: Any) -> None:
    """Drop a stream's connection at once: a polite goodbye over TLS would outlive the loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _pause(attempt: int, error: ClusterError) -> float:
    if isinstance(error, Throttled):
        return error.retry_after_seconds
    return float(0.2 * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311 - a delay


def _plain(value: Any) -> Any:
    """Return the value made of dicts and lists, which is all that the encoder takes."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


__all__ = ["Connection", "KubeCluster", "open_cluster"]
