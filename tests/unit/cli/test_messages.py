"""Messages name options that the command at hand has, and are plain English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import volcanoio_plugins
import volcanoio_policies

import volcanoio
from volcanoio.cli.componentflags import FLAGS
from volcanoio.cli.main import volcanoio as root

PACKAGE = Path(volcanoio.__file__).parent
ALL_CODE = (PACKAGE, *(Path(package.__path__[0]) for package in (volcanoio_plugins, volcanoio_policies)))
UNCLEAR = re.compile(r"\bknown are\b|\bmend(s|ed|ing)?\b|\b(has|have) waited\b|take it away\b", re.IGNORECASE)
"""Phrases that have a plain form: "valid values", "fix", "has been waiting for", "remove it"."""
COMMANDS = {
    "compose/simulate": "simulate", "compose/whatif": "simulate", "compose/hollow": "hollow-nodes",
    "compose/webhooks": "webhooks", "compose/live": "why", "compose/installation": "install",
}  # fmt: skip
"""Files, by the beginnings of their paths, that belong to a command other than `up`."""


OF_KUBECTL = {"compose/live/running_scheduler.py": {"--context"}}
"""Options of kubectl that files pass on to it."""


def options_at(path: str) -> set[str]:
    """The options of the command to which a file belongs, and those of the components, which share modules."""
    command = next((name for start, name in COMMANDS.items() if path.startswith(start)), "up")
    declared = root.commands[command].params
    given = {name for parameter in declared for name in (*parameter.opts, *parameter.secondary_opts)}
    given |= OF_KUBECTL.get(path, set())
    return given | {f"--{flag.name}" for flag in FLAGS}


def literals(path: Path) -> Iterator[str]:
    """The texts in a file that are not docstrings; {} stands for what an f-string inserts."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@pytest.mark.parametrize("room", ["engine", "runtime", "compose", "localcluster"])
def test_options_in_messages_exist(room: str) -> None:
    unknown = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        has = options_at(str(path.relative_to(PACKAGE)))
        ours = [text for text in literals(path) if not text.startswith("kubectl ")]
        named = {name for text in ours for name in re.findall(r"(?<!\S)--[a-z][a-z-]+", text)}
        unknown += [f"{path.relative_to(PACKAGE)}: {name}" for name in sorted(named - has)]
    assert unknown == []


def test_messages_are_plain_english() -> None:
    files = [path for package in ALL_CODE for path in sorted(package.rglob("*.py"))]
    assert len(files) > 500
    assert [f"{path}: {text}" for path in files for text in literals(path) if UNCLEAR.search(text)] == []
