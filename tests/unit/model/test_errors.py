"""The error ladder: abstract rungs, what each carries, and sentences that stand alone."""

import pytest

from gpustack_deploy.model import errors
from gpustack_deploy.model.errors import (
    AdmissionAwaited,
    AdmissionRefused,
    ClusterError,
    Conflict,
    ForeignObject,
    GpustackDeployError,
    InvalidSpec,
    KueueNotManaging,
    LockHeld,
    NotFound,
    OtherWriter,
    RecordUnreadable,
    RefusedChange,
    ReplacementHeld,
    Throttled,
    Unreachable,
    WrongCluster,
)

pytestmark = pytest.mark.check


@pytest.mark.parametrize("rung", [GpustackDeployError, ClusterError])
def test_a_base_is_never_raised_itself(rung: type[Exception]) -> None:
    with pytest.raises(TypeError, match=f"{rung.__name__} is abstract"):
        rung("text")


def test_every_error_of_the_package_is_on_the_ladder() -> None:
    found = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, Exception)
    ]
    assert [] == [each for each in found if not issubclass(each, GpustackDeployError)]


@pytest.mark.parametrize("rung", [NotFound, Conflict, Throttled, Unreachable])
def test_what_the_server_answered_is_a_cluster_error(rung: type[ClusterError]) -> None:
    assert isinstance(rung("the server's own sentence"), ClusterError)
    assert "the server's own sentence" == str(rung("the server's own sentence"))


def test_the_servers_reason_is_kept() -> None:
    assert "AlreadyExists" == Conflict("exists", reason="AlreadyExists").reason
    assert "" == Conflict("exists").reason
    assert 7.0 == Throttled("later", retry_after_seconds=7.0).retry_after_seconds


def test_an_error_carries_what_stands_only_once_it_is_known() -> None:
    assert InvalidSpec("a", "b").state is None


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(
            InvalidSpec("roles[0].size", "0 is too small"),
            "roles[0].size: 0 is too small",
            id="a path",
        ),
        pytest.param(InvalidSpec("", "no mapping"), "no mapping", id="no path"),
        pytest.param(RefusedChange("kind", "is identity"), "kind: is identity", id="identity"),
        pytest.param(
            ReplacementHeld("NotReady", "decode", 1, "why"), "decode r1: NotReady: why", id="held"
        ),
        pytest.param(
            AdmissionAwaited("NotAdmitted", "decode", None, "why"),
            "decode: NotAdmitted: why",
            id="held without an ordinal",
        ),
    ],
)
def test_a_sentence_says_where_and_why(error: GpustackDeployError, want: str) -> None:
    assert want == str(error)


@pytest.mark.parametrize(
    ("error", "found", "needed"),
    [
        pytest.param(
            ForeignObject("Service", "chat", "u9"), "Service chat (uid u9)", "rename", id="foreign"
        ),
        pytest.param(
            ForeignObject("ConfigMap", "chat", "u9", "no label"), "(no label)", "rename", id="why"
        ),
        pytest.param(
            LockHeld("decode", "process 7"), "another run (process 7)", "`pulumi up`", id="lock"
        ),
        pytest.param(
            AdmissionRefused("decode", "must not run as root"),
            "must not run as root",
            "`pulumi up`",
            id="policy",
        ),
        pytest.param(
            KueueNotManaging("ml", "no gate"), "namespace ml: no gate", "install Kueue", id="kueue"
        ),
        pytest.param(
            RecordUnreadable("chat-decode", "it is no JSON"),
            "ConfigMap chat-decode",
            "restore it",
            id="record",
        ),
        pytest.param(
            OtherWriter("decode", "acme/a/prod"), "written by acme/a/prod", "remove it", id="writer"
        ),
        pytest.param(
            WrongCluster("u1", "u2"), "leads to cluster u2", "`gpustack:context`", id="cluster"
        ),
    ],
)
def test_a_message_says_what_was_found_and_what_to_do_next(
    error: GpustackDeployError, found: str, needed: str
) -> None:
    assert found in str(error)
    assert needed in str(error)
    assert "\n" not in str(error)
