"""plugins/examples/team-quota as a third party would use it: built, installed beside volcanoio, found, tested."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "plugins" / "examples" / "team-quota"
CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: team-quota
    arguments: {team-quota.limits: {ann: 4, bob: lots}}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has the example installed."""
    target = tmp_path_factory.mktemp("installed")
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *quiet, "--target", str(target), str(EXAMPLE)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    return {**os.environ, "PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1"}


def test_its_own_tests_pass(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE)]
    done = subprocess.run(command, cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_it_is_found_by_its_entry_point(environment: dict[str, str], tmp_path: Path) -> None:
    conf = tmp_path / "c.conf"
    conf.write_text(CONFIGURATION)
    command = [sys.executable, "-m", "volcanoio", "config", "lint", str(conf)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"{conf}:6:17: error: team-quota: the limit of bob: ")
