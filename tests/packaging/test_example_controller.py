"""plugins/examples/ray-cluster as a third party would use it: built, installed beside volcanoio, found, tested."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "plugins" / "examples" / "ray-cluster"
MODULE = EXAMPLE / "src" / "volcanoio_raycluster.py"


def test_it_is_installed_and_its_own_tests_pass(tmp_path: Path) -> None:
    """Its tests start clusters without naming it: its entry point alone makes it run there."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    install = [sys.executable, "-m", "pip", "install", *quiet, "--target", str(tmp_path), str(EXAMPLE)]
    subprocess.run(install, check=True, capture_output=True, timeout=100)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE)]
    done = subprocess.run(command, cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_it_fits_a_page() -> None:
    assert len(MODULE.read_text().splitlines()) <= 100
