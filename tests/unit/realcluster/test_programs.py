"""Where a real control plane's programs are looked for, and what is said where they or Go are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.realcluster import binaries, build
from tests.realcluster.controlplane import control_plane
from tests.realcluster.processes import FailedStartError


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of our own, and nothing in the environment that names programs."""
    monkeypatch.delenv(binaries.ASSETS, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def programs(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = directory / name
        path.write_text("#!/bin/sh\necho go1.20.3\n")
        path.chmod(0o755)
    return directory


def test_named_programs_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs(binaries.cache(), *binaries.PROGRAMS)
    assert binaries.find().directory == binaries.cache()
    own = programs(tmp_path / "own", *binaries.PROGRAMS)
    monkeypatch.setenv(binaries.ASSETS, str(own))
    assert binaries.find().path("etcd") == str(own / "etcd")


def test_the_cache_is_of_one_version(tmp_path: Path) -> None:
    assert binaries.cache() == tmp_path / "cache" / "volcanoio" / "real-apiserver" / binaries.VERSION / "bin"
    assert binaries.VERSION.startswith("v1.36.")


def test_missing_names_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(binaries.NoBinariesError, match="make real-apiserver"):
        binaries.find()
    monkeypatch.setenv(binaries.ASSETS, str(programs(tmp_path / "envtest", "etcd", "kube-apiserver")))
    with pytest.raises(binaries.NoBinariesError, match="has no kube-controller-manager"):
        binaries.find()


def test_existing_programs_are_not_built(capsys: pytest.CaptureFixture[str]) -> None:
    programs(binaries.cache(), *binaries.PROGRAMS)
    assert build.main() == 0
    assert "is there" in capsys.readouterr().out


def test_missing_go_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.main() == 1
    assert "needs Go 1.26.0 or newer, and there is no `go` on PATH" in capsys.readouterr().err
    programs(tmp_path, "go")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert build.main() == 1
    assert "says: go1.20.3" in capsys.readouterr().err


def test_a_directory_that_is_used_is_left_alone(tmp_path: Path) -> None:
    used = programs(tmp_path / "used", "etcd")
    with pytest.raises(FailedStartError, match="is not empty"), control_plane(binaries.Binaries(used), used):
        pass


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    directory = programs(tmp_path / "programs", *binaries.PROGRAMS)
    started = control_plane(binaries.Binaries(directory), tmp_path / "plane")
    with pytest.raises(FailedStartError, match=r"etcd ended with exit code 0:\ngo1\.20\.3"), started:
        pass
