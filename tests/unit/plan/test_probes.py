import os
import subprocess
from typing import Any

import pytest

from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.probes import has_readiness, render_probes
from tests.declarations import raw_role, role

pytestmark = pytest.mark.check

HTTP = {"http": {"path": "/up", "port": 81}}
EXEC = {"exec": {"command": ["test", "-f", "/up"]}}
LEADER_ONLY = ["sh", "-c", '[ "$GPUSTACK_MEMBER_INDEX" = 0 ] || exit 0; exec "$@"', "sh"]


def handler(name: str = "readinessProbe", **fields: Any) -> Any:
    probe = render_probes(role(**fields)).get(name)
    return None if probe is None else probe.get("httpGet") or probe.get("exec")


@pytest.mark.parametrize("name", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_a_managed_member_alone_is_asked_over_http(name: str) -> None:
    want = {"path": "/health", "port": 9000, "scheme": "HTTPS"}
    assert want == handler(name, extraArgs=["--port", "9000", "--ssl-keyfile", "/k"])


@pytest.mark.parametrize(
    ("seconds", "failures"), [(1, 1), (10, 1), (11, 2), (600, 60), (3600, 360)]
)
def test_the_startup_time_is_rounded_up_to_probe_periods(seconds: int, failures: int) -> None:
    probes = render_probes(role(startupTimeoutSeconds=seconds))
    assert failures == probes["startupProbe"]["failureThreshold"]


@pytest.mark.parametrize("name", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_of_several_managed_members_only_the_leader_is_asked(name: str) -> None:
    command = handler(name, size=2)["command"]
    assert [*LEADER_ONLY, "python3", "-c"] == command[:6]
    assert "http://127.0.0.1:8000/health" == command[-1]


def test_every_member_of_an_external_data_parallel_group_is_asked() -> None:
    command = handler(size=2, extraArgs=["--data-parallel-external-lb"])["command"]
    assert ["python3", "-c"] == command[:2]


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["x"]},
        {"extraArgs": ["--host", "127.0.0.1"]},
        {"extraArgs": ["--ssl-keyfile", "/k", "--ssl-cert-reqs", "2"]},
        {"ports": [{"port": 80, "protocol": "SCTP"}]},
    ],
)
def test_nothing_is_asked_where_no_answer_can_be_expected(fields: dict[str, Any]) -> None:
    assert {} == render_probes(role(**fields))
    assert not has_readiness(role(**fields))


def test_a_readiness_that_says_nothing_asks_nothing() -> None:
    unjudged = RoleDeclaration.model_validate(raw_role(command=["serve"], readiness={}))
    assert {} == render_probes(unjudged)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"readiness": HTTP}, {"path": "/up", "port": 81, "scheme": "HTTP"}),
        ({"readiness": EXEC}, {"command": ["test", "-f", "/up"]}),
        ({"readiness": EXEC, "size": 2}, {"command": [*LEADER_ONLY, "test", "-f", "/up"]}),
    ],
)
def test_a_take_over_member_is_asked_as_it_says(fields: dict[str, Any], want: Any) -> None:
    declared = role(command=["serve"], **fields)
    assert ["readinessProbe"] == list(render_probes(declared))
    assert want == handler(command=["serve"], **fields)
    assert has_readiness(declared)


def test_a_take_over_leader_is_asked_over_http_from_inside() -> None:
    command = handler(command=["serve"], readiness=HTTP, size=2)["command"]
    assert [*LEADER_ONLY, "python3", "-c"] == command[:6]
    assert "http://127.0.0.1:81/up" == command[-1]


@pytest.mark.parametrize(("index", "want"), [("0", 1), ("1", 0), ("12", 0)])
def test_the_probe_succeeds_at_once_on_followers_only(index: str, want: int) -> None:
    command = handler(command=["serve"], readiness={"exec": {"command": ["false"]}}, size=2)
    done = subprocess.run(
        command["command"],
        check=False,
        timeout=30,
        env={"PATH": os.environ["PATH"], "GPUSTACK_MEMBER_INDEX": index},
    )
    assert want == done.returncode


def test_the_probe_fails_while_nothing_listens() -> None:
    command = handler(size=2, extraArgs=["--port", "1"])["command"]
    done = subprocess.run(
        command,
        check=False,
        timeout=30,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "GPUSTACK_MEMBER_INDEX": "0"},
    )
    assert 1 == done.returncode
