"""The adapter against a scripted server: what it sends, how often, and what it makes of answers."""

import json
from collections.abc import Awaitable
from types import MappingProxyType

import pytest

from gpustack_deploy.engine import kube
from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, WORKLOAD, Change, Event
from gpustack_deploy.engine.kube import KubeCluster
from gpustack_deploy.model.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Refused,
    Throttled,
    Unreachable,
)
from tests.fakes.stub_server import (
    HANG_UP,
    SILENCE,
    TOKEN,
    Reply,
    Sent,
    StubServer,
    always,
    run_on_stub,
    status_reply,
)

pytestmark = pytest.mark.check

STORED = {"metadata": {"name": "a", "uid": "u1", "resourceVersion": "7"}}


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "_marks", {})
    monkeypatch.setattr(kube, "_served", {})
    monkeypatch.setattr(kube, "_pause", lambda attempt, error: 0.01)


_pause = kube._pause


def test_a_read_pauses_longer_each_time_and_as_long_as_the_server_asks() -> None:
    error = Unreachable("gone")
    assert max(_pause(1, error) for _ in range(50)) < min(_pause(3, error) for _ in range(50))
    assert _pause(1, Throttled("later", retry_after_seconds=3)) == 3


def test_a_delete_carries_its_uid_and_is_sent_with_a_content_type() -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        await cluster.delete(POD, "ml", "a", uid="u1", grace_period_seconds=0)
        (sent,) = stub.sent
        assert (sent.method, sent.path) == ("DELETE", "/api/v1/namespaces/ml/pods/a")
        assert sent.headers["content-type"] == "application/json"
        assert sent.headers["authorization"] == f"Bearer {TOKEN}"
        assert sent.json == {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1"},
            "propagationPolicy": "Background",
            "gracePeriodSeconds": 0,
        }
        assert cluster.requests == {("delete", "pods"): 1}

    run_on_stub(always(Reply(json={"kind": "Status", "status": "Success"})), use)


def write(cluster: KubeCluster, method: str) -> Awaitable[object]:
    match method:
        case "DELETE":
            return cluster.delete(CONFIG_MAP, "ml", "a", uid="u1")
        case "PUT":
            return cluster.replace(CONFIG_MAP, "ml", "a", STORED)
        case "PATCH":
            return cluster.patch(CONFIG_MAP, "ml", "a", {}, uid="u1")
        case _:
            return cluster.create(CONFIG_MAP, "ml", STORED)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "POST"])
def test_a_write_without_an_answer_is_sent_once_and_is_unknown(method: str) -> None:
    """Also on a connection that was used before, where aiohttp repeats what it calls idempotent."""

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        await cluster.get(CONFIG_MAP, "ml", "a")
        with pytest.raises(Unreachable, match=r"gave no answer to .* the connection broke"):
            await write(cluster, method)
        assert len(stub.of(method)) == 1

    run_on_stub(lambda sent: Reply(json=STORED) if sent.method == "GET" else HANG_UP, use)


def test_a_read_without_an_answer_is_repeated() -> None:
    answers = iter([HANG_UP, status_reply(500, "etcd leader changed"), Reply(json=STORED)])

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        assert await cluster.get(POD, "ml", "a") == STORED
        assert len(stub.sent) == 3
        assert cluster.requests["get", "pods"] == 3

    run_on_stub(lambda sent: next(answers), use)


def test_a_throttled_read_comes_back_and_a_throttled_write_says_so() -> None:
    answers = iter(
        [
            status_reply(429, "too many requests", retryAfterSeconds=3),
            Reply(json=STORED),
            Reply(429, "slow down", headers={"Retry-After": "7"}),
        ]
    )

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        await cluster.get(POD, "ml", "a")
        with pytest.raises(Throttled) as caught:
            await cluster.create(POD, "ml", STORED)
        assert caught.value.retry_after_seconds == 7
        assert len(stub.of("POST")) == 1

    run_on_stub(lambda sent: next(answers), use)


def test_a_list_has_items_and_the_version_to_watch_from() -> None:
    answer = {"metadata": {"resourceVersion": "12"}, "items": [STORED]}

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        listing = await cluster.list(POD, "ml", name="a")
        assert (listing.items, listing.resource_version) == ((STORED,), "12")
        assert stub.sent[0].path == ("/api/v1/namespaces/ml/pods?fieldSelector=metadata.name%3Da")

    run_on_stub(always(Reply(json=answer)), use)


def test_a_read_is_given_up_after_a_few_attempts() -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(Unreachable, match="etcd is down"):
            await cluster.list(POD, "ml")
        assert len(stub.sent) == kube.READ_ATTEMPTS

    run_on_stub(always(status_reply(500, "etcd is down")), use)


def test_a_silent_server_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "READ_SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(kube, "READ_ATTEMPTS", 2)

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(Unreachable, match="it stayed silent"):
            await cluster.get(POD, "ml", "a")

    run_on_stub(always(SILENCE), use)


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (status_reply(404, 'pods "a" not found', reason="NotFound"), NotFound, 'pods "a" not f'),
        (status_reply(409, "x exists", reason="AlreadyExists"), Conflict, "x exists"),
        (status_reply(410, "too old resource version"), Expired, "too old"),
        (
            status_reply(403, 'User "u" cannot create resource "pods" in API group ""'),
            Forbidden,
            "cannot create resource",
        ),
        (status_reply(403, "violates PodSecurity"), Refused, "violates PodSecurity"),
        (status_reply(401, "Unauthorized"), Forbidden, "does not accept the credentials"),
        (status_reply(422, "spec.x: Invalid value"), Refused, "Invalid value"),
        (status_reply(400, "strict decoding error"), Refused, "strict decoding"),
        (
            status_reply(500, 'failed calling webhook "mpod.kb.io"', reason="InternalError"),
            Unreachable,
            "failed calling webhook",
        ),
        (status_reply(503, "overloaded", retryAfterSeconds=2), Throttled, "overloaded"),
        (Reply(503, "a proxy's page"), Unreachable, "HTTP 503"),
        (Reply(200, ["no object"]), Unreachable, "no JSON object"),
    ],
)
def test_each_answer_becomes_its_error(
    reply: Reply, error: type[ClusterError], message: str
) -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(error, match=message) as caught:
            await cluster.create(POD, "ml", STORED)
        assert type(caught.value) is error

    run_on_stub(always(reply), use)


def test_a_patch_of_another_object_of_that_name_is_a_conflict() -> None:
    reply = status_reply(
        422, "metadata.uid: Invalid value", causes=[{"field": "metadata.uid", "message": "x"}]
    )

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(Conflict):
            await cluster.patch(POD, "ml", "a", {"metadata": {"labels": {"x": None}}}, uid="u9")
        (sent,) = stub.sent
        assert sent.headers["content-type"] == "application/merge-patch+json"
        assert sent.json == {"metadata": {"labels": {"x": None}, "uid": "u9"}}

    run_on_stub(always(reply), use)


def test_no_message_shows_what_a_proxy_or_a_header_said() -> None:
    def echo(sent: Sent) -> Reply:
        return Reply(502, {"you sent": dict(sent.headers)})

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(Unreachable) as caught:
            await cluster.create(POD, "ml", STORED)
        assert TOKEN in json.dumps(dict(stub.sent[0].headers))
        assert TOKEN not in str(caught.value)
        assert TOKEN not in repr(caught.value.__context__)

    run_on_stub(echo, use)


def test_a_watch_yields_events_however_its_lines_are_cut() -> None:
    big = {"type": "MODIFIED", "object": {"metadata": {"name": "a"}, "data": "x" * 400_000}}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    stream = b"".join(json.dumps(each).encode() + b"\n" for each in (big, bookmark))
    chunks = tuple(stream[at : at + 65_537] for at in range(0, len(stream), 65_537))

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        events = [
            event
            async for event in cluster.watch(
                POD, "ml", labels="a=b", resource_version="5", timeout_seconds=30
            )
        ]
        assert events == [
            Event(Change.MODIFIED, big["object"]),  # type: ignore[arg-type]
            Event(Change.BOOKMARK, bookmark["object"]),  # type: ignore[arg-type]
        ]
        assert stub.sent[0].path == (
            "/api/v1/namespaces/ml/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5"
            "&timeoutSeconds=30&labelSelector=a%3Db"
        )

    run_on_stub(always(Reply(chunks=chunks)), use)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (
            Reply(chunks=(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n',)),
            Expired,
        ),
        (status_reply(410, "too old resource version"), Expired),
        (Reply(chunks=(b'{"type":"ADDED","ob',), breaks=True), Unreachable),
        (status_reply(403, "cannot watch resource"), Forbidden),
    ],
)
def test_a_watch_that_fails_says_how(reply: Reply, error: type[ClusterError]) -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(error):
            async for _ in cluster.watch(POD, "ml", resource_version="5", timeout_seconds=5):
                pass

    run_on_stub(always(reply), use)


def test_discovery_is_read_once_and_an_absent_group_again() -> None:
    answers = iter(
        [
            status_reply(404, "the server could not find the requested resource"),
            Reply(json={"resources": [{"name": "workloads"}, {"name": "workloads/status"}]}),
        ]
    )

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        assert not await cluster.serves(WORKLOAD)
        assert await cluster.serves(WORKLOAD)
        assert await cluster.serves(WORKLOAD)
        assert [sent.path for sent in stub.sent] == ["/apis/kueue.x-k8s.io/v1beta2"] * 2

    run_on_stub(lambda sent: next(answers), use)


def test_marks_are_read_once_and_unknown_where_they_may_not_be_read() -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        assert (await cluster.marks()).uid == ""
        await cluster.marks()
        assert [sent.path for sent in stub.sent] == ["/api/v1/namespaces/kube-system"]

    run_on_stub(always(status_reply(403, 'cannot get resource "namespaces"')), use)


def test_marks_of_a_server_without_an_answer_are_an_error() -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(Unreachable):
            await cluster.marks()

    run_on_stub(always(HANG_UP), use)


def test_an_answer_that_breaks_off_is_unknown() -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        with pytest.raises(Unreachable, match="the connection broke"):
            await cluster.create(POD, "ml", STORED)
        assert len(stub.sent) == 1

    run_on_stub(always(Reply(chunks=(b'{"metadata"',), breaks=True)), use)


def test_any_mapping_can_be_a_body() -> None:
    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        frozen = MappingProxyType({"labels": MappingProxyType({"a": "b"}), "list": ("x",)})
        await cluster.create(POD, "ml", {"metadata": frozen})
        assert stub.sent[0].json["metadata"] == {"labels": {"a": "b"}, "list": ["x"]}

    run_on_stub(always(Reply(json=STORED)), use)
