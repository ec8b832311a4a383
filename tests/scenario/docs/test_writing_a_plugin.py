"""docs/writing-a-plugin.md leads to a plugin that a running cluster uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenario.docs.follower import DOCS, follow
from volcanoio.framework.scheduling.sessionview import Table
from volcanoio.framework.scheduling.views import NodeRow, Shape, Task


@pytest.mark.kubectl
async def test_the_guide_leads_to_a_plugin_that_a_running_cluster_uses(tmp_path: Path) -> None:
    await follow("writing-a-plugin.md", tmp_path)


@pytest.mark.parametrize(("word", "type_"), [("shape", Shape), ("node", NodeRow), ("task", Task), ("table", Table)])
def test_the_guide_names_all_that_the_arguments_of_a_plugin_offer(word: str, type_: type[Any]) -> None:
    text = (DOCS / "writing-a-plugin.md").read_text()
    offered = {name for name in dir(type_) if not name.startswith("_")}
    assert offered
    assert {name for name in offered if f"`{word}.{name}" not in text} == set()
