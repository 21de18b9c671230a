"""The set of roles: what `delete` refuses, and what the running command says of itself."""

from pathlib import Path

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP
from gpustack_deploy.model.errors import RefusedChange
from pulumi_gpustack import _command, _siblings
from pulumi_gpustack._command import Command, read_command
from pulumi_gpustack.role_provider import RoleProvider
from tests.fakes import MemoryCluster
from tests.pulumi.declarations import pair, role

pytestmark = pytest.mark.check

WHERE = {"context": "", "namespace": "ml", "deployment": "chat"}


def run_as(
    monkeypatch: pytest.MonkeyPatch, *, goes_on: bool = False, is_destroy: bool = False
) -> None:
    command = Command(is_destroy=is_destroy, continues_on_error=goes_on, parallel=16)
    monkeypatch.setattr(_siblings, "running_command", lambda: command)


def test_a_role_of_a_deployment_that_left_the_program_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_as(monkeypatch)
    _siblings.refuse_drop("server", **WHERE)


def test_a_role_that_is_declared_may_go_to_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, goes_on=True)
    _siblings.remember({"server": "Server"}, **WHERE)
    _siblings.refuse_drop("server", **WHERE)


def test_a_role_that_its_deployment_is_declared_without_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_as(monkeypatch)
    _siblings.remember({"serving": "Server"}, **WHERE)
    with pytest.raises(RefusedChange, match="role server left the program"):
        _siblings.refuse_drop("server", **WHERE)
    _siblings.refuse_drop("server", **{**WHERE, "context": "another"})
    _siblings.refuse_drop("server", **{**WHERE, "deployment": "another"})


def test_a_run_that_goes_on_after_errors_deletes_no_role_it_did_not_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_as(monkeypatch, goes_on=True)
    with pytest.raises(RefusedChange, match="without `--continue-on-error`"):
        _siblings.refuse_drop("server", **WHERE)


def test_a_run_in_which_a_role_awaits_goes_on_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch)
    _siblings.note_awaiting()
    with pytest.raises(RefusedChange):
        _siblings.refuse_drop("server", **WHERE)


def test_a_destroy_deletes_every_role(monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, goes_on=True, is_destroy=True)
    _siblings.refuse_drop("server", **WHERE)


def test_check_is_what_tells_delete(
    cluster: MemoryCluster, provider: RoleProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(monkeypatch)
    inputs = provider.check({}, role()).inputs
    outputs = provider.create({**inputs, "__provider": "pickled"}).outs or {}
    before = dict(cluster.requests)
    provider.check({}, role(role="serving", roleKinds={"serving": "Server"}, frontRole="serving"))
    with pytest.raises(RefusedChange):
        provider.delete("ml/chat/server", outputs)
    assert before["create", "pods"] == cluster.requests["create", "pods"]
    assert 0 == cluster.requests["delete", "pods"]


def test_destroying_a_pair_one_after_the_other_is_not_an_edit_of_the_set(
    cluster: MemoryCluster, provider: RoleProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(monkeypatch, is_destroy=True)
    made = {}
    for name in ("prefill", "decode"):
        inputs = provider.check({}, pair(name)).inputs
        made[name] = provider.create({**inputs, "__provider": "pickled"}).outs or {}
    _siblings.forget()
    for name, outputs in made.items():
        provider.delete(f"ml/chat/{name}", outputs)
    assert [] == cluster.objects(CONFIG_MAP)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], (False, False)),
        (["up", "--yes"], (False, False)),
        (["up", "--continue-on-error"], (False, True)),
        (["up", "--continue-on-error=false"], (False, False)),
        (["-C", "stacks", "destroy", "--continue-on-error=true"], (True, True)),
        (["down"], (True, False)),
        (["up", "--target", "destroy"], (False, False)),
    ],
)
def test_the_command_line_is_read(arguments: list[str], want: tuple[bool, bool]) -> None:
    command = read_command(arguments, dict[str, str]().get)
    assert want == (command.is_destroy, command.continues_on_error)


@pytest.mark.parametrize(
    ("arguments", "variables", "want"),
    [
        (["up", "--parallel", "3"], {}, 3),
        (["up", "--parallel=3"], {"PULUMI_PARALLEL": "9"}, 3),
        (["up", "-p", "3"], {}, 3),
        (["up", "-p3"], {}, 3),
        (["up", "--plan", "x"], {"PULUMI_PARALLEL": "9"}, 9),
    ],
)
def test_how_much_runs_at_once_is_read(
    arguments: list[str], variables: dict[str, str], want: int
) -> None:
    assert want == read_command(arguments, variables.get).parallel


def test_the_environment_says_the_same() -> None:
    assert read_command([], {"PULUMI_CONTINUE_ON_ERROR": "true"}.get).continues_on_error
    assert read_command([], dict[str, str]().get).parallel >= 4


def test_the_nearest_pulumi_above_is_found(tmp_path: Path) -> None:
    for number, parent, line in (
        (30, 20, "python\0-m\0pulumi.dynamic"),
        (20, 10, "/bin/sh\0launcher"),
        (10, 1, "/opt/bin/pulumi\0up\0--yes"),
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "cmdline").write_text(line)
        (folder / "status").write_text(f"Name:\tx\nPPid:\t{parent}\n")
    assert ["up", "--yes"] == _command._arguments(tmp_path / "30")
    assert [] == _command._arguments(tmp_path / "99")
