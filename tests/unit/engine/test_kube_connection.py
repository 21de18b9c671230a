"""Which kubeconfig and context are used, and the one sentence where none can be."""

import asyncio
import base64
import json
import os
from pathlib import Path

import pytest

from gpustack_deploy.engine import connection
from gpustack_deploy.engine.connection import Access, Connection, find_access
from gpustack_deploy.engine.credentials import authority_mark, in_memory
from gpustack_deploy.model.errors import Unreachable

pytestmark = pytest.mark.check

SECRET = "not-to-be-seen-anywhere"


def config(*names: str, current: str = "", server: str = "https://{}.invalid") -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": current,
            "clusters": [
                {
                    "name": name,
                    "cluster": {"server": server.format(name), "certificate-authority": "ca.crt"},
                }
                for name in names
            ],
            "users": [{"name": name, "user": {"token": SECRET}} for name in names],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name}} for name in names
            ],
        }
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG")
    return tmp_path


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def found(given: Connection) -> Access:
    access = find_access(given)
    assert access is not None
    return access


def test_the_given_path_comes_first_then_the_variable_then_the_home_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / ".kube/config", config("home", current="home"))
    assert found(Connection()).context == "home"
    monkeypatch.setenv("KUBECONFIG", write(home / "variable", config("var", current="var")))
    assert found(Connection()).context == "var"
    given = write(home / "given", config("given", current="given"))
    assert found(Connection(kubeconfig=given)).context == "given"


def test_content_is_taken_as_it_is() -> None:
    access = found(Connection(kubeconfig=config("a", "b", current="a"), context="b"))
    assert (access.context, access.server) == ("b", "https://b.invalid")
    assert access.user == {"token": SECRET}


def test_files_of_the_variable_are_merged_and_the_first_wins(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(home / "one/config", config("a", current="a"))
    second = write(home / "two/config", config("a", "b", current="b", server="https://other"))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([first, str(home / "none"), second]))
    assert found(Connection()).server == "https://a.invalid"
    other = found(Connection(context="b"))
    assert other.server == "https://other"
    assert other.cluster["certificate-authority"] == str(home / "two/ca.crt")


def test_a_pod_uses_its_own_account(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connection.SERVICE_HOST_VARIABLE, "10.0.0.1")
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT_TOKEN", Path(write(home / "token", SECRET)))
    assert find_access(Connection()) is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Connection(), "KUBECONFIG is not set, .* does not exist and this is no Pod"),
        (Connection(kubeconfig="/none/such"), "gpustack:kubeconfig names /none/such, which does"),
        (
            Connection(kubeconfig=config("a", "b", current="a"), context="c"),
            r"context 'c' is not in the kubeconfig given as content \(it has: a, b\)",
        ),
        (Connection(kubeconfig=config("a")), "names no current context .it has: a"),
        (Connection(kubeconfig=config("a", current="a", server="")), "which has no server there"),
        (Connection(kubeconfig=f"apiVersion: v1\ntoken: '{SECRET}"), "content is no YAML"),
        (Connection(kubeconfig="apiVersion"), "is no kubeconfig"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(given: Connection, sentence: str) -> None:
    with pytest.raises(Unreachable, match=sentence) as caught:
        find_access(given)
    assert "then run again" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_named_file_that_is_missing_is_not_replaced_by_the_one_at_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / ".kube/config", config("home", current="home"))
    monkeypatch.setenv("KUBECONFIG", str(home / "missing"))
    with pytest.raises(Unreachable, match=r"KUBECONFIG names .*missing, which does not exist"):
        find_access(Connection())


def test_nothing_secret_is_shown() -> None:
    content = config("a", current="a")
    given = Connection(kubeconfig=content)
    assert SECRET not in repr(given)
    assert SECRET not in repr(found(given))


def test_the_authority_counts_and_not_how_its_file_is_written(home: Path) -> None:
    one = "-----BEGIN CERTIFICATE-----\nMIIB\nAAAA\n-----END CERTIFICATE-----\n"
    two = "subject=x\n-----BEGIN CERTIFICATE-----\nMIIBAAAA\n-----END CERTIFICATE-----"
    marks = {authority_mark(write(home / name, text)) for name, text in (("a", one), ("b", two))}
    assert len(marks) == 1
    assert len(marks.pop()) == 64
    assert authority_mark(None) == authority_mark(str(home / "missing")) == ""


def test_a_context_cannot_be_asked_of_a_pods_own_account(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(connection.SERVICE_HOST_VARIABLE, "10.0.0.1")
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT_TOKEN", Path(write(home / "token", SECRET)))
    with pytest.raises(Unreachable, match="context 'a' is asked for and there is no kubeconfig"):
        find_access(Connection(context="a"))


def test_a_file_that_cannot_be_read_is_named(home: Path) -> None:
    binary = home / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Unreachable, match=r"kubeconfig .*binary cannot be read \(it is no text\)"):
        find_access(Connection(kubeconfig=str(binary)))
    with pytest.raises(Unreachable, match="is no YAML: set"):
        find_access(Connection(kubeconfig=write(home / "control", "a: \x01")))


def test_entries_of_another_shape_are_passed_over_and_a_plugin_beside_the_file_is_found(
    home: Path,
) -> None:
    parsed = json.loads(config("a", current="a"))
    parsed["contexts"] += ["text", {"name": "b"}]
    parsed["users"][0]["user"] = {"exec": {"command": "./bin/plugin"}}
    given = Connection(kubeconfig=write(home / "config", json.dumps(parsed)))
    assert found(given).user["exec"]["command"] == str(home / "./bin/plugin")


def given_as_content() -> Access:
    encoded = base64.b64encode(b"certificate").decode()
    return Access(
        context="a",
        cluster={"server": "https://a.invalid", "certificate-authority-data": encoded},
        user={"client-key-data": encoded, "token": SECRET},
    )


def content_of(path: str) -> bytes | None:
    return Path(path).read_bytes() if Path(path).exists() else None


def test_content_is_a_file_in_memory_while_it_is_used_and_nowhere_after() -> None:
    async def scenario() -> None:
        async with in_memory(given_as_content()) as usable:
            assert usable is not None
            paths = [usable.cluster["certificate-authority"], usable.user["client-key"]]
            assert [content_of(path) for path in paths] == [b"certificate"] * 2
            assert all(path.startswith("/proc/self/fd/") for path in paths)
            assert "client-key-data" not in usable.user
        assert [content_of(path) for path in paths] == [None, None]

    asyncio.run(scenario())


def test_content_stays_where_the_system_has_no_files_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    access = given_as_content()

    async def scenario() -> None:
        async with in_memory(access) as usable:
            assert usable is access

    asyncio.run(scenario())
