"""The READMEs and the page about `up` name files, options and defaults that are there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.scenario.docs.follower import DOCS
from tests.scenario.scheduling.harness import group, node, pod, queue
from volcanoio.cli.main import volcanoio

ROOT = DOCS.parent
READMES = [pytest.param(ROOT / name, id=name) for name in ("README.md", "README.zh-CN.md")]
OPTION = re.compile(r"`(--[a-z-]+)[^`]*`")


def commands(readme: Path, program: str) -> list[str]:
    """The commands of a README that begin with these words."""
    return re.findall(rf"^\$ ({program} .*)$", readme.read_text(), re.MULTILINE)


@pytest.mark.parametrize("readme", READMES)
def test_simulate_and_lint_run_as_they_stand(readme: Path, tmp_path: Path) -> None:
    (tmp_path / "config").symlink_to(ROOT / "config")
    state = [queue("default"), node("n1"), group("g", 1), pod("p", "g", cpu="1")]
    (tmp_path / "state.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": state}))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    found = commands(readme, "volcanoio simulate") + commands(readme, "volcanoio config lint")
    assert len(found) == 2
    for command in found:
        done = subprocess.run(
            command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)


@pytest.mark.parametrize("readme", READMES)
def test_files_that_commands_name_exist(readme: Path) -> None:
    named = re.findall(r"^\$ .*?(config/\S+)", readme.read_text(), re.MULTILINE)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_table_of_options_has_the_defaults_of_up() -> None:
    options = {name: each for each in volcanoio.commands["up"].params for name in each.opts}
    rows = re.findall(r"^\| (`--.*?) \| (.*?) \| .* \|$", (DOCS / "up.md").read_text(), re.MULTILINE)
    assert len(rows) > 10
    for names, default in rows:
        for name in OPTION.findall(names):
            option = options[name]
            assert isinstance(option, click.Option)
            if option.show_default and len(OPTION.findall(names)) == 1:
                assert default.strip("`") == shown(option.default), name


def shown(default: object) -> str:
    """Return a default as a user writes it."""
    if isinstance(default, tuple):
        return ",".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)
