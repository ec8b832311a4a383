"""docs/writing-a-policy.md leads to a policy that a running cluster uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.docs.follower import follow


@pytest.mark.kubectl
async def test_the_guide_leads_to_a_policy_that_a_running_cluster_uses(tmp_path: Path) -> None:
    await follow("writing-a-policy.md", tmp_path)
