import os
import stat
from pathlib import Path

import pytest

from gpustack_deploy.sandbox import machine
from gpustack_deploy.sandbox.build import announce, build, expected_minutes
from gpustack_deploy.sandbox.errors import (
    BuildFailed,
    MissingTool,
    NotEnoughSpace,
    SandboxError,
)
from gpustack_deploy.sandbox.parts import PARTS, is_built, parts_for

pytestmark = pytest.mark.check

# Stands in for the Go toolchain: notes each call, "downloads" a module folder, "builds" a file.
FAKE_GO = """#!/bin/sh
echo "$*" >> "{log}"
case "$1 $2" in
  "env GOVERSION") echo "{version}" ;;
  "mod download") echo '{{"Dir": "{module}"}}' ;;
  "mod edit") ;;
  build*)
    while [ "$1" != -o ]; do shift; done
    case "$2" in */{failing}) echo "no luck" >&2; exit 1 ;; esac
    echo binary > "$2" ;;
esac
"""


class FakeGo:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls"
        self.module = folder / "module"
        for file in (
            "cmd/kueue/main.go",
            "config/components/crd/bases/a.yaml",
            "config/components/webhook/manifests.yaml",
            "python/cmd/pulumi-language-python-exec",
            "python/dist/pulumi-resource-pulumi-python",
        ):
            target = self.module / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text('metricsCertPath := "/etc/kueue/metrics/certs"\n')
        self.become()

    def become(self, *, version: str = "go1.26.8", failing: str = "nothing") -> None:
        program = self.folder / "bin" / "go"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            FAKE_GO.format(log=self.log, version=version, module=self.module, failing=failing)
        )
        program.chmod(0o755)

    def built(self) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [
            Path(line.split(" -o ")[1].split()[0]).name for line in lines if line[:5] == "build"
        ]


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    fake = FakeGo(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("GPUSTACK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(machine, "_PULUMI", ("pulumi-of-nobody",))
    return fake


def test_every_part_is_built_once_in_table_order(go: FakeGo) -> None:
    said: list[str] = []
    build(say=said.append)
    want = [part.name for part in parts_for(frozenset()) if part.package]
    assert want == go.built()
    assert all(is_built(part) for part in parts_for(frozenset()))
    build(say=said.append)
    assert want == go.built()


def test_an_interrupted_build_goes_on_with_the_part_it_was_at(go: FakeGo) -> None:
    go.become(failing="kueue")
    with pytest.raises(BuildFailed, match=r"kueue v0\.17\.0 did not build.*no luck"):
        build(say=lambda _: None)
    assert not is_built(next(part for part in PARTS if part.name == "kueue"))
    before = go.built()
    go.become()
    build(say=lambda _: None)
    after = go.built()[len(before) :]
    assert after[0] == "kueue"
    assert "kube-apiserver" not in after


def test_it_says_what_is_built_how_long_it_takes_and_what_is_left(go: FakeGo) -> None:
    said: list[str] = []
    build(say=said.append)
    text = "\n".join(said)
    assert "kube-apiserver v1.35.4" in text
    assert f"minutes on {os.cpu_count()} cores" in text
    assert "GB are free" in text
    assert "[1/11] certs ... (about" in text
    assert "[11/11] pulumi-language-python done in" in text


def test_the_build_cache_is_removed_after_a_good_build_only(go: FakeGo, tmp_path: Path) -> None:
    scratch = tmp_path / "cache" / "build"
    go.become(failing="kwok")
    with pytest.raises(BuildFailed):
        build(say=lambda _: None)
    assert (scratch / "go-cache").is_dir()
    go.become()
    build(say=lambda _: None)
    assert not scratch.exists()


def test_kueue_is_built_from_a_copy_whose_path_is_settable(
    go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    build(say=lambda _: None)
    patched = tmp_path / "cache/build/patched/sigs.k8s.io_kueue/cmd/kueue/main.go"
    assert 'os.Getenv("KUEUE_METRICS_CERT_DIR")' in patched.read_text()
    assert "/etc/kueue" in (go.module / "cmd/kueue/main.go").read_text()


def test_a_dependency_without_the_line_to_change_is_refused(go: FakeGo) -> None:
    (go.module / "cmd/kueue/main.go").write_text("something else")
    with pytest.raises(BuildFailed, match="does not hold the one line"):
        build(say=lambda _: None)


def test_programs_of_the_machine_are_not_built(
    go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver"):
        (assets / name).write_text("")
        (assets / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    build(say=lambda _: None)
    assert not {"etcd", "kube-apiserver"} & set(go.built())


def test_pulumi_of_a_sandbox_does_not_count_as_the_machines(
    go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_PULUMI", ("pulumi",))
    for folder in (tmp_path / "cache" / "sandboxes" / "x" / "bin", tmp_path / "installed"):
        folder.mkdir(parents=True)
        (folder / "pulumi").write_text("")
        (folder / "pulumi").chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        want = folder.name == "installed"
        assert want == ("pulumi" in machine.parts_on_machine())


def test_a_machine_without_go_is_told_what_to_install(
    go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(MissingTool, match=r"Go is not on PATH.*install Go 1\.26"):
        build(say=lambda _: None)


@pytest.mark.parametrize("version", ["go1.25.9", "go1.9"])
def test_an_older_go_is_told_what_to_install(go: FakeGo, version: str) -> None:
    go.become(version=version)
    with pytest.raises(MissingTool, match=rf"is {version}, older.*install Go 1\.26"):
        build(say=lambda _: None)


def test_go_is_not_asked_for_when_nothing_has_to_be_built(
    go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(say=lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    build(say=lambda _: None)


def test_too_little_space_is_refused_before_anything_is_built(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 2 * 1024**3})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(
        NotEnoughSpace, match=r"needs \d+\.\d GB free .* and 2\.0 GB are: free some"
    ):
        build(say=lambda _: None)
    assert go.built() == []


@pytest.mark.parametrize(
    ("option", "words"),
    [("node", "cannot build 'node' yet"), ("nodes", "no optional part 'nodes'; it has: dns")],
)
def test_an_option_that_cannot_be_built_is_one_sentence(option: str, words: str) -> None:
    with pytest.raises(SandboxError, match=words):
        build([option], say=lambda _: None)


def test_more_cores_take_less_time_and_never_none() -> None:
    parts = parts_for(frozenset())
    assert expected_minutes(parts, 2) == pytest.approx(2 * expected_minutes(parts, 4))
    assert expected_minutes(parts[:1], 64) == 1.0
    assert expected_minutes(parts, 64) == expected_minutes(parts, 8)


def test_the_announcement_can_be_made_without_building(go: FakeGo) -> None:
    said: list[str] = []
    announce(parts_for(frozenset()), said.append)
    assert len(said) == 3
    assert go.built() == []
