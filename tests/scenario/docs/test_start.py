"""docs/start.md: every command of it works, in order, with the output that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.docs.follower import follow


@pytest.mark.kubectl
async def test_the_first_five_minutes(tmp_path: Path) -> None:
    await follow("start.md", tmp_path)
