"""A scripted HTTP server: records what a client really sends and answers, hangs or hangs up."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from gpustack_deploy.engine.kube import Connection, KubeCluster, open_cluster


@dataclass(frozen=True)
class Sent:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """One answer: JSON, or raw chunks that are sent one by one; `breaks` hangs up after them."""

    status: int = 200
    json: Any = None
    chunks: tuple[bytes, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    breaks: bool = False


# The credential of every connection to a stub: no message may show it.
TOKEN: Final = "not-to-be-seen-anywhere"

HANG_UP = Reply(status=0)
SILENCE = Reply(status=-1)

Answerer = Callable[[Sent], Reply]


def status_reply(code: int, message: str, *, reason: str = "", **details: Any) -> Reply:
    """Return the API server's form of an error."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return Reply(code, {**body, "message": message, "reason": reason, "details": details})


@dataclass
class StubServer:
    """The requests so far, and the address to use as a kubeconfig's server."""

    address: str
    sent: list[Sent] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def of(self, method: str) -> list[Sent]:
        return [each for each in self.sent if each.method == method]

    def kubeconfig(self, *, user: Mapping[str, Any] | None = None) -> str:
        """Return a kubeconfig's content that leads here."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "stub",
                "clusters": [{"name": "stub", "cluster": {"server": self.address}}],
                "users": [{"name": "stub", "user": dict(user or {})}],
                "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
            }
        )


@asynccontextmanager
async def stub_server(answer: Answerer, *, delay_seconds: float = 0) -> AsyncIterator[StubServer]:
    """Serve on a free port of this machine until the block ends."""
    stub = StubServer("")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            tasks.add(task)
        try:
            while await _exchange(stub, answer, delay_seconds, reader, writer):
                pass
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stub.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _exchange(
    stub: StubServer,
    answer: Answerer,
    delay_seconds: float,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> bool:
    """Serve one request; return whether the connection stays open."""
    sent = await _receive(reader)
    if sent is None:
        return False
    stub.sent.append(sent)
    stub.at_once += 1
    stub.most_at_once = max(stub.most_at_once, stub.at_once)
    await asyncio.sleep(delay_seconds)
    stub.at_once -= 1
    reply = answer(sent)
    if reply == HANG_UP:
        return False
    if reply == SILENCE:
        await asyncio.Event().wait()
    head = [f"HTTP/1.1 {reply.status} Whatever", "Content-Type: application/json"]
    head += [f"{key}: {value}" for key, value in reply.headers.items()]
    if reply.chunks:
        head.append("Transfer-Encoding: chunked")
        writer.write("\r\n".join([*head, "", ""]).encode())
        for chunk in reply.chunks:
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        if reply.breaks:
            return False
        writer.write(b"0\r\n\r\n")
    else:
        body = json.dumps(reply.json).encode()
        head.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
    await writer.drain()
    return True


async def _receive(reader: asyncio.StreamReader) -> Sent | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        key.lower(): value.strip()
        for key, _, value in (line.partition(":") for line in rest if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Sent(method, path, headers, body)


def run_on_stub(
    answer: Answerer, use: Callable[[KubeCluster, StubServer], Awaitable[None]]
) -> None:
    """Serve the answers and let the test use a cluster connected to them."""

    async def scenario() -> None:
        async with stub_server(answer) as stub:
            content = stub.kubeconfig(user={"token": TOKEN})
            cluster = await open_cluster(Connection(kubeconfig=content))
            try:
                await use(cluster, stub)
            finally:
                await cluster.close()

    asyncio.run(scenario())


def always(reply: Reply) -> Answerer:
    return lambda sent: reply
