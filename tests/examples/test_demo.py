"""What `make demo` runs: its plan, its end, and its main path on a sandbox."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import demo
import pytest
import yaml
from walkthrough.walk import Mismatch

from gpustack_deploy.sandbox import Sandbox
from scripts.under_trap import Trap, set_trap
from tests.house.tree import ROOT

DEMO = ROOT / "examples" / "prefill-decode" / "demo.py"
PLAN = "from walkthrough.plan import planned_lines; print(*planned_lines({'h200': 32}), sep='\\n')"


@pytest.mark.check
def test_the_plan_needs_nothing_that_is_built() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAN],
        cwd=DEMO.parent,
        env={"PATH": "", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "providers"), "."])},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    begin = lines.index(" 3  decode: 1 -> 2 members a replica")
    replaced = "remove 1 member; remove the Workload; create 2 members of 4 GPUs, admitted anew by"
    assert [
        "      prefill  no change",
        f"      decode   r1: {replaced} h200",
        f"      decode   r0: {replaced} h200",
    ] == lines[begin + 1 : begin + 4]
    assert "      prefill  r2: remove 1 member; remove the Workload" in lines
    assert not [line for line in lines if "held" in line]


@pytest.mark.check
def test_a_mismatch_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Target:
        def __enter__(self) -> None:
            return None

        def __exit__(self, *_: object) -> None:
            return None

    def walk(*_: Any, **__: Any) -> None:
        raise Mismatch("queue: decode r0 is in ['h200'], wanted a100")

    monkeypatch.setattr(demo, "_target", lambda *_: Target())
    monkeypatch.setattr(demo, "planned_lines", lambda _: [])
    monkeypatch.setattr(demo, "walk", walk)
    monkeypatch.delenv("GPUSTACK_CLUSTER", raising=False)
    assert 1 == demo.main([])
    first, *_, verdict, last = capsys.readouterr().out.splitlines()
    assert "The demo FAILED" in verdict
    for line in (first, last):
        assert "no container ran" in line
        assert "are real" in line


@pytest.mark.core
@pytest.mark.timeout(400)
def test_the_main_path_touches_no_cluster_and_no_login_of_the_person_who_runs_it(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Create, resources, size, up again, destroy: each verified by the demo itself."""
    trap = Trap()
    try:
        done = subprocess.run(
            [sys.executable, DEMO, "--sandbox", sandbox.name, "--edits", "3"],
            env={
                **set_trap(trap.url, tmp_path),
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "providers")]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        trap.close()
    assert 0 == done.returncode, done.stdout + done.stderr
    assert 0 == trap.connections
    assert "ok  the API server's log has no write" in done.stdout
    assert "ok  no Pod, Workload, Service or record is left" in done.stdout
    assert Sandbox.find(sandbox.name) is not None


KUBECTL = """#!{python}
import json, sys
from gpustack_deploy.sandbox import SandboxApi
_, context, verb, raw, path = sys.argv[1:]
assert ("get", "--raw") == (verb, raw)
print(json.dumps(SandboxApi({kubeconfig!r}).get(path)))
"""


@pytest.mark.ci
@pytest.mark.timeout(400)
def test_a_cluster_that_is_named_is_used_after_its_name_is_printed(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    kubeconfig = sandbox.kubeconfig.read_text()
    context = yaml.safe_load(kubeconfig)["current-context"]
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.format(python=sys.executable, kubeconfig=str(sandbox.kubeconfig)))
    kubectl.chmod(0o755)
    sandbox.add_namespace("named-cluster")
    done = subprocess.run(
        [sys.executable, DEMO, "--edits", "2", "--namespace", "named-cluster"],
        env={
            **os.environ,
            "GPUSTACK_CLUSTER": context,
            "KUBECONFIG": str(sandbox.kubeconfig),
            "PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "providers")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    first, *_, last = done.stdout.splitlines()
    assert f"context {context!r}" in first
    assert f"context {context!r}" in last
    assert "no container ran" not in done.stdout
    assert "ok  no Pod, Workload, Service or record is left" in done.stdout
