import concurrent.futures
import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpustack_deploy.cli import sandbox as cli
from gpustack_deploy.sandbox import SandboxError, dns, files, folders, processes
from gpustack_deploy.sandbox.cache import cache_dir, sandbox_dir
from gpustack_deploy.sandbox.components import COMPONENTS, command_of, environment_of
from gpustack_deploy.sandbox.environment import environment, shell_lines
from gpustack_deploy.sandbox.layout import PORTS, Layout
from gpustack_deploy.sandbox.ports import free_ports
from gpustack_deploy.sandbox.processes import Process, is_alive, stop, this_process
from gpustack_deploy.sandbox.state import State, read_state, write_state
from gpustack_deploy.sandbox.waiting import wait_for

pytestmark = pytest.mark.check


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("GPUSTACK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GPUSTACK_SANDBOX_DIR", raising=False)
    return Layout(sandbox_dir("s"), dict(zip(PORTS, range(20000, 20100), strict=False)))


def a_state(**changes: object) -> State:
    state = State("s", {"etcd": 20001}, {"etcd": "v1"}, {"etcd": Process(1, 2)}, Process(3, 4))
    return replace(state, **changes)  # type: ignore[arg-type]


def started(tmp_path: Path) -> Process:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    return processes.start(command, environment=os.environ, log=tmp_path / "log")


def test_the_cache_is_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUSTACK_SANDBOX_DIR", raising=False)
    monkeypatch.setenv("GPUSTACK_CACHE_DIR", "/c")
    assert Path("/c") == cache_dir()
    assert Path("/c/sandboxes/x") == sandbox_dir("x")
    monkeypatch.setenv("GPUSTACK_SANDBOX_DIR", "/s")
    assert (Path("/s"), Path("/c/sandboxes/x")) == (sandbox_dir(), sandbox_dir("x"))
    monkeypatch.delenv("GPUSTACK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert Path("/x/gpustack-deploy") == cache_dir()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert Path("/h/.cache/gpustack-deploy") == cache_dir()


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    for state in (a_state(), a_state(owner=None, ready=True, audit_log=True)):
        write_state(tmp_path, state)
        assert state == read_state(tmp_path)
    assert read_state(tmp_path / "absent") is None


def test_a_component_is_set_and_removed_in_the_state() -> None:
    state = a_state().with_process("kwok", Process(5, 6))
    assert {"etcd", "kwok"} == set(state.processes)
    assert {"kwok"} == set(state.with_process("etcd", None).processes)


def test_a_process_is_ended_and_known_to_be_gone(tmp_path: Path) -> None:
    process = started(tmp_path)
    assert is_alive(process)
    stop([process])
    assert not is_alive(process)
    stop([process])


def test_a_recycled_process_id_is_left_alone(tmp_path: Path) -> None:
    process = started(tmp_path)
    stop([replace(process, started=process.started + 1)])
    assert is_alive(process)
    stop([process])


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    script = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); "
    command = [sys.executable, "-c", script + "time.sleep(60)"]
    process = processes.start(command, environment=os.environ, log=tmp_path / "log")
    wait_for(lambda: (tmp_path / "log").read_text() or None, what="the process to listen")
    stop([process])
    assert not is_alive(process)


def test_ports_are_free_different_and_not_those_of_another_sandbox() -> None:
    first = free_ports(8)
    second = free_ports(8, taken=frozenset(first))
    assert len({*first, *second}) == 16


def test_a_sandbox_whose_owner_is_gone_is_an_orphan(layout: Layout) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    for name, owner in (
        ("gone", Process(child.pid, 1)),
        ("mine", this_process()),
        ("kept", None),
    ):
        folder = sandbox_dir(name)
        folder.mkdir(parents=True)
        write_state(folder, a_state(name=name, owner=owner))
    assert [sandbox_dir("gone")] == folders.orphans()
    assert frozenset({20001}) == folders.taken_ports()


def test_the_lock_of_a_removed_sandbox_leaves_no_file(layout: Layout) -> None:
    with folders.locked(layout.folder):
        layout.folder.mkdir()
    assert [".s.lock", "s"] == sorted(file.name for file in layout.folder.parent.iterdir())
    with folders.locked(layout.folder):
        folders.remove(layout.folder)
    assert [] == list(layout.folder.parent.iterdir())


def test_a_folder_of_something_else_is_never_removed(layout: Layout) -> None:
    layout.folder.mkdir(parents=True)
    (layout.folder / "thesis.txt").write_text("precious")
    with pytest.raises(SandboxError, match="is not a sandbox's folder and is left alone"):
        folders.remove(layout.folder)
    assert (layout.folder / "thesis.txt").exists()


def test_a_name_is_asked_for_and_its_addresses_are_read() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def answer() -> None:
            asked, whence = server.recvfrom(512)
            header = asked[:2] + struct.pack(">HHHHH", 0x8500, 1, 2, 0, 0)
            records = b"".join(
                b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
                for address in ("10.0.0.2", "10.0.0.1")
            )
            server.sendto(header + asked[12:] + records, whence)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            answered = pool.submit(answer)
            got = dns.resolve("a.b", server.getsockname()[1])
            answered.result()
    assert got == ["10.0.0.1", "10.0.0.2"]


def test_an_environment_for_the_sandbox_has_no_login_and_no_other_cluster(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "of-a-real-cluster")
    for name in ("PULUMI_ACCESS_TOKEN", "PULUMI_STACK", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.setenv(name, "real")
    got = environment(layout)
    assert str(layout.kubeconfig) == got["KUBECONFIG"]
    assert got["PULUMI_BACKEND_URL"].startswith(f"file://{layout.folder}")
    assert {"real", "of-a-real-cluster"}.isdisjoint(got.values())
    front = got["PATH"].split(os.pathsep)[:2]
    assert [str(Path(sys.executable).parent), str(layout.programs)] == front


def test_the_shell_lines_give_a_shell_the_same(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "real")
    script = "\n".join([*shell_lines(layout), "env"])
    shell = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    got = dict(line.split("=", 1) for line in shell.stdout.splitlines() if "=" in line)
    want = environment(layout)
    names = ("KUBECONFIG", "PULUMI_HOME", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_PYTHON_CMD")
    assert {name: want[name] for name in names} == {name: got[name] for name in names}
    assert "PULUMI_ACCESS_TOKEN" not in got


def test_components_hear_on_loopback_only_and_know_nothing_of_the_user(layout: Layout) -> None:
    for component in COMPONENTS:
        command = " ".join(command_of(component, layout, audit_log=True))
        assert "0.0.0.0" not in command
    assert str(layout.folder) == environment_of(layout)["HOME"]
    assert "KUBECONFIG" not in environment_of(layout)
    with pytest.raises(ValueError, match="nothing"):
        command_of("nothing", layout)


def test_no_stage_touches_a_finalizer() -> None:
    stages = [yaml.safe_load(file.read_text()) for file in files.STAGES_DIR.glob("*.yaml")]
    assert len(stages) >= 7
    for stage in stages:
        assert "finalizers" not in stage["spec"]["next"]
        assert "finalizers" not in str(stage["spec"]["next"])


def test_waiting_ends_with_the_name_of_what_never_came() -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="for a miracle"):
        wait_for(lambda: None, what="a miracle", seconds=0.01, interval=0.001)
    assert time.monotonic() - begun < 5
    answers = iter([None, 0])
    assert wait_for(lambda: next(answers), what="zero", interval=0) == 0


@pytest.mark.parametrize("command", ["env", "status"])
def test_a_command_on_an_absent_sandbox_is_one_sentence(
    layout: Layout, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert cli.main([command, "--name", "s"]) == 1
    want = "No sandbox 's' is running: start it with `gpustack-deploy sandbox up`."
    assert want in capsys.readouterr().err


def test_ending_an_absent_sandbox_is_no_error(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["down", "--name", "s"]) == 0
    assert "No sandbox 's' was running." in capsys.readouterr().out


def test_a_wrong_nodes_file_is_refused_before_anything_is_built(
    layout: Layout, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("pools: [{name: h200}]\n")
    assert cli.main(["up", "--name", "s", "--nodes", str(file)]) == 1
    assert f"{file}: $.pools[0]: 'nodes' is a required property" in capsys.readouterr().err
    assert not cache_dir().exists()


def test_the_cache_is_not_cleaned_under_a_running_sandbox(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["clean-cache"]) == 0
    layout.folder.mkdir(parents=True)
    write_state(layout.folder, a_state())
    assert cli.main(["clean-cache"]) == 1
    assert "Sandbox s still uses the cache" in capsys.readouterr().err
