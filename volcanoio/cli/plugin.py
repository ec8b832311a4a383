"""`volcanoio plugin`: create a scheduler plugin from a template, and check plugins."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click

from volcanoio.cli.terminal import PATH, CommandError, ExitCode, UsageError
from volcanoio.model.packaged import config_path

if TYPE_CHECKING:
    from volcanoio.plugincheck.report import Report
    from volcanoio.runtime.loading.mounted_files import MountedClass

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@click.group(short_help="Create and check scheduler plugins.")
def plugin() -> None:
    """Create and check scheduler plugins."""


@plugin.command("new", short_help="Write a small working plugin and its test.")
@click.argument("name")
@click.option("--dir", "directory", type=PATH, default=Path(), help="Directory for the two files.")
def new(name: str, directory: Path) -> int:
    """Write a working scheduler plugin NAME and its test. Existing files are not overwritten."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f'"{name}" is not a valid name for a plugin; use small letters, digits and single dashes, such as my-plugin'
        )
    module = name.replace("-", "_")
    if taken := _taken(name, module):
        raise UsageError(f"{taken}; choose another name")
    words = {
        "name": name,
        "module": module,
        "cls": "".join(part.capitalize() for part in name.split("-")),
        "title": name.replace("-", " ").capitalize(),
    }
    files = {f"{module}.py": "plugin.py.txt", f"test_{module}.py": "plugin_test.py.txt"}
    for file in files:
        if (directory / file).exists():
            raise UsageError(f"{directory / file} exists already; choose another name, or --dir")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, template in files.items():
            text = Template(config_path("templates", template).read_text(encoding="utf-8")).substitute(words)
            (directory / file).write_text(text, encoding="utf-8")
            print(directory / file)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; choose another --dir") from None
    print(f"next: volcanoio plugin test {directory / f'{module}.py'}", file=sys.stderr)
    return ExitCode.OK


def _taken(name: str, module: str) -> str:
    """Return what already uses the name of a new plugin or of its module; "" if it is free."""
    from volcanoio.framework import entrypoints
    from volcanoio.runtime.loading.registry import PluginError, discover

    try:
        origin = discover().origins(entrypoints.SCHEDULER_PLUGINS).get(name)
    except PluginError as error:
        raise CommandError(str(error)) from None
    if origin:
        return f'there is a scheduler plugin "{name}" already ({origin})'
    if keyword.iskeyword(module):
        return f'"{name}" is a word of Python'
    if module in sys.stdlib_module_names:  # its test could not import it, and other code would import it by mistake
        return f'"{name}" is a module of Python'
    return ""


@plugin.command("test", short_help="Check the plugins of a file on random clusters; exit code 1 on findings.")
@click.argument("file", type=PATH)
@click.option("--conf", type=PATH, help="Configuration with the plugin, its arguments and other plugins.")
def test(file: Path, conf: Path | None) -> int:
    """Check the scheduler plugins and actions in FILE on random clusters.

    Their answers are requested before, during and after placements that are undone; cached answers are compared with
    new ones, scalar with vector forms, and one run with another. The exit code is 1 if there is any problem.
    """
    from volcanoio.engine.scheduling.config.configuration import ConfigurationError
    from volcanoio.model.documents import read_text
    from volcanoio.runtime.loading.mounted_files import MountError
    from volcanoio.runtime.loading.registry import PluginError

    if not file.exists() or file.is_dir():
        problem = "is a directory" if file.is_dir() else "there is no such file"
        raise UsageError(f"{file}: {problem}; give the path of a plugin's file; volcanoio plugin new NAME writes one")
    try:
        text = None if conf is None else read_text(conf)
        reports = [_checked(file, found, text) for found in _classes(file)]
    except ConfigurationError as error:
        where = str(conf) if conf else f"{file} without arguments"
        msg = f"{where}: {error}; give arguments with --conf" if conf is None else f"{where}: {error}"
        raise UsageError(msg) from None
    except (MountError, PluginError) as error:
        raise CommandError(str(error), ExitCode.JOB_FAILED) from None
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; give the path of a YAML file") from None
    for report in reports:
        print("\n".join(report.lines()))
    wrong = sum(bool(report.problems) for report in reports)
    print(f"{wrong} of {len(reports)} with findings" if wrong else "no findings", file=sys.stderr)
    return ExitCode.JOB_FAILED if wrong else ExitCode.OK


def _checked(file: Path, found: MountedClass, configuration: str | None) -> Report:
    """Return the report on one class; a plugin's decisions are compared with those of another process."""
    from volcanoio.framework import entrypoints
    from volcanoio.plugincheck.check import TWICE, digest_in_subprocess, digest_of_file
    from volcanoio.testing import check

    report = check(found.cls, configuration=configuration)
    if found.group == entrypoints.SCHEDULER_PLUGINS and not report.problems:
        own = digest_of_file(file, report.name, configuration)
        if own != digest_in_subprocess(file, report.name, configuration):
            text = "another process decides differently; do not use hash(), the order of sets or the environment"
            report.add(TWICE, text)
    return report


def _classes(file: Path) -> list[MountedClass]:
    from volcanoio.framework import entrypoints
    from volcanoio.runtime.loading.mounted_files import classes_of

    return list(classes_of(file, (entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS)))
