"""The command, per test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.simulate.command import Simulate


@pytest.fixture
def why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Simulate:
    """`volcanoio why` in a directory of its own."""
    return Simulate(tmp_path, capsys, "why")
