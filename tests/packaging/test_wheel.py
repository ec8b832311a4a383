"""What `pip install volcanoio` gives: three packages, the shipped configuration, and a demo that runs anywhere."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
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
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    demo = [str(tmp_path / "env" / "bin" / "volcanoio"), "demo"]
    done = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gangs completed" in done.stdout
