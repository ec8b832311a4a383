"""Runs `volcanoio config lint`: files in, what is wrong in them out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.cli.errors import CommandError, ExitCode
from volcanoio.engine.scheduling.configmaps import KEY, excerpts
from volcanoio.engine.scheduling.lint import Finding, Severity, lint
from volcanoio.framework import groups
from volcanoio.runtime.loading import PluginError, discover
from volcanoio.runtime.mounted import MountError


def run_lint(files: Sequence[Path], output: str, plugins_dir: Sequence[Path], *, ignore_unavailable: bool) -> int:
    """Print what is found in files; the exit code says whether there are errors. Raises CommandError."""
    try:
        registry = discover(plugins_dirs=plugins_dir)
        known: dict[str, Any] = {
            "plugins": registry.factories(groups.SCHEDULER_PLUGINS),
            "actions": registry.factories(groups.ACTIONS),
            "ignore_unavailable": ignore_unavailable,
        }
    except (PluginError, MountError) as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    found = [(str(file), finding) for file in files for finding in findings(_text(file), known)]
    if output == "json":
        print(
            msgspec.json.format(
                msgspec.json.encode([{"file": file, **each._asdict()} for file, each in found])
            ).decode()
        )
    else:
        for file, each in found:
            print(f"{file}:{each}")
    errors = sum(each.severity is Severity.ERROR for _, each in found)
    print(f"{_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}", file=sys.stderr)
    return ExitCode.JOB_FAILED if errors else ExitCode.OK


def findings(text: str, known: Mapping[str, Any]) -> list[Finding]:
    """What is found in a file's text: a configuration, or a manifest with ConfigMaps that hold some."""
    inside = excerpts(text)
    if inside is None:
        return list(lint(text, **known))
    if not inside:
        return [Finding(Severity.ERROR, 1, 1, f"no ConfigMap here has a key {KEY}", "give a file that holds one")]
    return [
        each._replace(line=place.line, column=place.column)
        for excerpt in inside
        for each in lint(excerpt.text, **known)
        for place in [excerpt.place(each.line, each.column)]
    ]


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"{file}: {error.strerror}; give the path of a YAML file"
        raise CommandError(msg, ExitCode.USAGE) from None
    except UnicodeDecodeError:
        msg = f"{file}: not UTF-8 text; give a YAML file"
        raise CommandError(msg, ExitCode.USAGE) from None


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
