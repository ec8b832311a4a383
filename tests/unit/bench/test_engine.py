"""The engine's figures can be taken, and what they count is right."""

from __future__ import annotations

import json

import pytest

from bench.engine import main


@pytest.mark.parametrize(("pods", "gang", "budget"), [("120", "8", "0.25"), ("60", "1", "0"), ("64", "32", "0.25")])
def test_a_small_backlog_is_placed_and_checked(
    pods: str, gang: str, budget: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--nodes", "20", "--pods", pods, "--gang", gang, "--budget", budget]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["placed"] == int(pods)
    assert figures["violations"] == 0
    assert figures["gangs_unplaced"] == 0
    assert figures["machine"]["cores"] >= 1
