"""docs/writing-a-controller.md leads to a controller that runs in a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.docs.follower import follow


@pytest.mark.kubectl
async def test_the_guide_leads_to_a_controller_that_a_running_cluster_uses(tmp_path: Path) -> None:
    await follow("writing-a-controller.md", tmp_path)
