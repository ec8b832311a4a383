"""docs/scheduler-configuration.md says what is so, and the configurations we ship have no findings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scenario.scheduling.harness import actions, plugins
from volcanoio.engine.scheduling.config.configuration import SWITCH_DEFAULTS
from volcanoio.engine.scheduling.config.lint import lint
from volcanoio.framework.scheduling.points import SWITCHES
from volcanoio.model.packaged import config_path

PAGE = (Path(__file__).parents[3] / "docs" / "scheduler-configuration.md").read_text()
FILES = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def found(text: str) -> list[str]:
    return [str(finding) for finding in lint(text, plugins=plugins(), actions=actions())]


def test_the_example_has_no_findings() -> None:
    assert found(FILES["complete.conf"]) == []


def test_lint_prints_the_output_on_the_page() -> None:
    shown = re.findall(r"^wrong\.conf:(.*)$", PAGE, re.MULTILINE)
    assert found(FILES["wrong.conf"]) == shown


def test_every_switch_is_on_the_page() -> None:
    table = PAGE[PAGE.index("## Switches") : PAGE.index("## Arguments")]
    assert set(re.findall(r"\benabled?[A-Z]\w+", table)) == set(SWITCH_DEFAULTS)
    idle = next(line for line in table.splitlines() if "accepted" in line)
    assert set(re.findall(r"\benabled?[A-Z]\w+", idle)) == set(SWITCH_DEFAULTS) - set(SWITCHES) - {"enableHierarchy"}


@pytest.mark.parametrize("path", sorted(config_path("scheduler").glob("*.conf")), ids=lambda path: path.name)
def test_shipped_configurations_have_no_findings(path: Path) -> None:
    assert found(path.read_text()) == []
