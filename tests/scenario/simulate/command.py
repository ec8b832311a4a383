"""Running `volcanoio simulate`, or another command that reads a state, in a test: manifests in, its output out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from volcanoio.cli.main import volcanoio
from volcanoio.model.base import Manifest

NOW = "2026-01-02T00:00:00Z"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """What it printed with -o json."""
        assert self.code == 0, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found


class Simulate:
    """Runs the command on files of a directory."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str], command: str = "simulate") -> None:
        self.directory = directory
        self._capsys = capsys
        self._command = command

    def file(self, name: str, content: str) -> Path:
        """A file of that content."""
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    def run(self, *arguments: str | Path) -> Ended:
        """The command with these arguments."""
        with pytest.raises(SystemExit) as end:
            volcanoio.main([self._command, *map(str, arguments)], prog_name="volcanoio")
        captured = self._capsys.readouterr()
        code = end.value.code
        return Ended(code if isinstance(code, int) else 0, captured.out, captured.err)

    def state(self, *objects: Manifest, conf: str | None = None, flags: tuple[str, ...] = ()) -> dict[str, Any]:
        """The JSON for a state of these objects."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        arguments: list[str | Path] = ["-f", self.file("state.json", json.dumps(listed)), "-o", "json", "--now", NOW]
        if conf is not None:
            arguments += ["--conf", self.file("scheduler.conf", conf)]
        return self.run(*arguments, *flags).json
