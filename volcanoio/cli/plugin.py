"""`volcanoio plugin`: begin a scheduler plugin, and check one."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click

from volcanoio.cli.errors import CommandError, ExitCode
from volcanoio.model.packaged import config_path

if TYPE_CHECKING:
    from volcanoio.runtime.mounted import Found
    from volcanoio.runtime.plugincheck.report import Report

_PATH = click.Path(path_type=Path, readable=False)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@click.group(short_help="Begin and check scheduler plugins.")
def plugin() -> None:
    """Begin and check scheduler plugins."""


@plugin.command("new", short_help="Write a small plugin that works, and its test.")
@click.argument("name")
@click.option("--dir", "directory", type=_PATH, default=Path(), help="Where to write it; the current directory.")
def new(name: str, directory: Path) -> int:
    """Write a scheduler plugin NAME that works, and its test. Nothing is overwritten."""
    if _NAME.fullmatch(name) is None:
        msg = f'"{name}" is no name for a plugin; use small letters, digits and single dashes, such as my-plugin'
        raise CommandError(msg, ExitCode.USAGE)
    module = name.replace("-", "_")
    words = {
        "name": name,
        "module": module,
        "cls": "".join(part.capitalize() for part in name.split("-")),
        "title": name.replace("-", " ").capitalize(),
    }
    files = {f"{module}.py": "plugin.py.txt", f"test_{module}.py": "plugin_test.py.txt"}
    for file in files:
        if (directory / file).exists():
            msg = f"{directory / file} is there already; choose another name, or --dir"
            raise CommandError(msg, ExitCode.USAGE)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, template in files.items():
            text = Template(config_path("templates", template).read_text(encoding="utf-8")).substitute(words)
            (directory / file).write_text(text, encoding="utf-8")
            print(directory / file)
    except OSError as error:
        msg = f"{error.filename}: {error.strerror}; choose another --dir"
        raise CommandError(msg, ExitCode.USAGE) from None
    print(f"next: volcanoio plugin test {directory / f'{module}.py'}", file=sys.stderr)
    return ExitCode.OK


@plugin.command("test", short_help="Check the plugins of a file on random clusters; exit code 1 on findings.")
@click.argument("file", type=_PATH)
@click.option("--conf", type=_PATH, help="A configuration that names the plugin, its arguments and those beside it.")
def test(file: Path, conf: Path | None) -> int:
    """Check the scheduler plugins and actions in FILE on random clusters.

    What they answer is asked before, during and after placements that are undone; kept answers are compared with fresh
    ones, scalar with vector forms, one run with another. The exit code is 1 when anything is wrong.
    """
    from volcanoio.engine.scheduling.configuration import ConfigurationError
    from volcanoio.runtime.loading import PluginError
    from volcanoio.runtime.mounted import MountError

    try:
        text = None if conf is None else conf.read_text(encoding="utf-8")
        reports = [_checked(file, found, text) for found in _classes(file)]
    except ConfigurationError as error:
        where = str(conf) if conf else f"{file} without arguments"
        msg = f"{where}: {error}; give arguments with --conf" if conf is None else f"{where}: {error}"
        raise CommandError(msg, ExitCode.USAGE) from None
    except (MountError, PluginError) as error:
        raise CommandError(str(error), ExitCode.JOB_FAILED) from None
    except OSError as error:
        msg = f"{error.filename}: {error.strerror}; give the path of a YAML file"
        raise CommandError(msg, ExitCode.USAGE) from None
    for report in reports:
        print("\n".join(report.lines()))
    wrong = sum(bool(report.problems) for report in reports)
    print(f"{wrong} of {len(reports)} with findings" if wrong else "no findings", file=sys.stderr)
    return ExitCode.JOB_FAILED if wrong else ExitCode.OK


def _checked(file: Path, found: Found, configuration: str | None) -> Report:
    """The report on one class; a plugin's decisions are compared with those of another process."""
    from volcanoio.framework import groups
    from volcanoio.runtime.plugincheck import elsewhere
    from volcanoio.runtime.plugincheck.check import TWICE
    from volcanoio.testing import check

    report = check(found.cls, configuration=configuration)
    if found.group == groups.SCHEDULER_PLUGINS and not report.problems:
        own = elsewhere.here(file, report.name, configuration)
        if own != elsewhere.there(file, report.name, configuration):
            text = "another process decides otherwise; use no hash, no order of sets, nothing of the environment"
            report.add(TWICE, text)
    return report


def _classes(file: Path) -> list[Found]:
    from volcanoio.framework import groups
    from volcanoio.runtime.mounted import classes_of

    return list(classes_of(file, (groups.SCHEDULER_PLUGINS, groups.ACTIONS)))
