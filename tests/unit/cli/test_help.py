"""Help texts are whole and fit a terminal of 80 columns."""

from __future__ import annotations

import contextlib
import re

import click
import pytest

from volcanoio import __version__
from volcanoio.cli.main import volcanoio
from volcanoio.cli.vcctl import vcctl


def _commands(command: click.Command, context: click.Context) -> list[tuple[click.Command, click.Context]]:
    found = [(command, context)]
    for name, below in getattr(command, "commands", {}).items():
        found += _commands(below, click.Context(below, info_name=name, parent=context))
    return found


_ALL = [
    pytest.param(*found, id=found[1].command_path)
    for found in _commands(volcanoio, click.Context(volcanoio, info_name="volcanoio", terminal_width=80))
]


@pytest.mark.parametrize(("command", "context"), _ALL)
def test_no_description_in_a_list_of_commands_is_cut(command: click.Command, context: click.Context) -> None:
    text = command.get_help(context)
    assert "..." not in re.sub(r"(?<=[A-Z\]])\.\.\.", "", text)  # JOB... may be repeated
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("command", "context"), _ALL)
def test_each_option_is_described(command: click.Command, context: click.Context) -> None:
    assert command.help
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.name


def test_the_version_is_printed_by_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        volcanoio.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"volcanoio {__version__}\n"


@pytest.mark.parametrize(
    ("root", "words"), [(volcanoio, []), (volcanoio, ["up"]), (vcctl, []), (vcctl, ["job"]), (vcctl, ["job", "run"])]
)
def test_the_help_command_prints_the_same_as_the_option(
    root: click.Group, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def reported(arguments: list[str]) -> str:
        with contextlib.suppress(SystemExit):
            root.main(arguments)
        return capsys.readouterr().out

    option = reported([*words, "--help"])
    assert "Usage:" in option
    assert reported(["help", *words]) == option


def test_help_for_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        vcctl.main(["help", "job", "lst"])
    assert ended.value.code == 255
    assert "No such command 'lst'. Did you mean 'list'?" in capsys.readouterr().out
