"""What `pip install volcanoio` gives: three packages, the shipped configuration, and a demo that runs anywhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def copied_by_the_image(source: Path) -> None:
    """Copy what the first stage of the Containerfile copies, and nothing else."""
    stage = (ROOT / "Containerfile").read_text().split("\nFROM ")[1]
    allowed = [line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")]
    for line in stage.splitlines():
        if line.startswith("COPY "):
            *paths, target = line.removeprefix("COPY ").split()
            for path in paths:
                assert path.partition("/")[0] in allowed, f".containerignore leaves {path} out"
                if (ROOT / path).is_dir():
                    shutil.copytree(ROOT / path, source / target, symlinks=True)
                else:
                    shutil.copy(ROOT / path, source / target)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what the image is built from."""
    out, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    copied_by_the_image(source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_three_packages_and_their_data(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in files if ".dist-info" not in name} == {
        "volcanoio",
        "volcanoio_plugins",
        "volcanoio_policies",
    }
    held = set(files)
    for shipped in (path for path in (ROOT / "config").rglob("*") if path.is_file()):  # links of the chart are followed
        assert f"volcanoio/_data/{shipped.relative_to(ROOT).as_posix()}" in held
    assert "volcanoio/py.typed" in held
    assert "volcanoio_plugins/py.typed" in held


@pytest.mark.timeout(480)
def test_the_wheel_runs_the_demo_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env")
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "env"), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-compile", str(wheel)]  # most modules of dependencies are not imported
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    demo = [str(tmp_path / "env" / "bin" / "volcanoio"), "demo"]
    done = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gangs completed" in done.stdout
