"""`volcanoio config`: what is said about configurations of the scheduler before they are used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from volcanoio.cli.errors import CommandError, ExitCode
from volcanoio.engine.scheduling.configmaps import KEY, excerpts
from volcanoio.engine.scheduling.lint import Finding, Severity, lint

_PATH = click.Path(path_type=Path, readable=False, allow_dash=True)


@click.group(short_help="Check configurations of the scheduler.")
def config() -> None:
    """Check configurations of the scheduler."""


@config.command("lint", short_help="Find what is wrong in a configuration; exit code 1 on errors.")
@click.argument("files", type=_PATH, nargs=-1, required=True, metavar="FILES")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or machines.",
)
@click.option("--plugins-dir", type=_PATH, multiple=True, help="Directory of scheduler plugins and actions.")
@click.option("--ignore-unavailable-plugins", is_flag=True, help="Warn of plugins that are not available yet.")
def lint_command(files: tuple[Path, ...], output: str, plugins_dir: tuple[Path, ...], **given: bool) -> int:
    """Find what is wrong in FILES (- is stdin): Volcano's scheduler configuration, or a ConfigMap that holds one.

    Unknown keys, plugins, actions and arguments, wrong types, plugins that contradict each other, and what has no
    effect. The exit code is 1 when there are errors, 0 when there are warnings at most.
    """
    from volcanoio.framework import groups
    from volcanoio.runtime.loading import PluginError, discover
    from volcanoio.runtime.mounted import MountError

    try:
        registry = discover(plugins_dirs=plugins_dir)
        known: dict[str, Any] = {
            "plugins": registry.factories(groups.SCHEDULER_PLUGINS),
            "actions": registry.factories(groups.ACTIONS),
            "ignore_unavailable": given["ignore_unavailable_plugins"],
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
