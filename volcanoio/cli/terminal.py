"""Exit codes, command errors, types of paths, text tables and the `help` command.

Shared by `volcanoio` and `vcctl`. A command that fails raises `CommandError`, whose message is one line: what failed,
why, and what to do. Only click and the standard library are imported, so that `--help` stays fast.
"""

import errno
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path, readable=False)
"""Type of a path that click does not check: the command's own error messages are more precise."""
INPUT = click.Path(path_type=Path, readable=False, allow_dash=True)
"""Type of a path, or - for stdin."""


class ExitCode(IntEnum):
    """Exit codes of `volcanoio`; `vcctl` keeps Volcano's 255."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    REJECTED = 3
    TIMEOUT = 4
    UNREACHABLE = 5
    INTERRUPTED = 130
    """After Ctrl-C, as of shells."""


class CommandError(Exception):
    """The command cannot continue. The message contains the cause and the next step."""

    def __init__(self, message: str, code: int = ExitCode.JOB_FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """An option, argument or file that cannot be used."""

    def __init__(self, message: object) -> None:
        super().__init__(str(message), ExitCode.USAGE)


def unknown_name(word: str, name: str, known: Iterable[str], place: str = "") -> UsageError:
    """Return the error for an object that does not exist, with close names; `place` is such as `in namespace a`."""
    names = sorted(known)
    close = get_close_matches(name, names, n=3)
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    elif names:
        hint = f"there are: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
    else:
        hint = "there are none"
    return UsageError(f'there is no {word} "{name}"{f" {place}" if place else ""}; {hint}')


def sole_error(error: BaseException) -> BaseException:
    """Return the only error inside task groups; the group itself if there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EPIPE)
"""Errors of writing to stdout: the disk is full, the terminal or the reader is gone."""


def drop_output(error: BaseException, program: str) -> bool:
    """Return whether an error is that stdout cannot be written; if so, discard further output and report it."""
    if not isinstance(error, OSError) or error.errno not in _UNWRITABLE:
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # buffered output cannot be written either
    if error.errno != errno.EPIPE:  # EPIPE: the reader has ended, as in `| head`
        print(f"{program}: cannot write the output: {error.strerror}; send it elsewhere", file=sys.stderr)
    return True


class ReportsErrors(click.Command):
    """A command or group whose `main` prints CommandErrors as one line on stderr and sets the exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line and exit."""
        kwargs["standalone_mode"] = False
        program = kwargs.get("prog_name") or "volcanoio"
        try:
            code = super().main(*args, **kwargs)
        except click.exceptions.Exit as stop:
            sys.exit(stop.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(ExitCode.USAGE)
        except (click.Abort, KeyboardInterrupt):
            print("stopped", file=sys.stderr)
            sys.exit(ExitCode.INTERRUPTED)
        except (CommandError, OSError, BaseExceptionGroup) as error:
            if isinstance(problem := sole_error(error), CommandError):
                print(f"{program}: {problem}", file=sys.stderr)
                sys.exit(problem.code)
            if not drop_output(problem, program):
                raise
            sys.exit(ExitCode.JOB_FAILED)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


def replace_unencodable() -> None:
    """Replace characters missing in the terminal's encoding by question marks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def columns(widths: Sequence[int], header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return left-aligned columns of fixed width; longer cells shift the rest to the right."""
    return "\n".join(
        "".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )


def fitted_columns(header: Sequence[str], rows: Sequence[Sequence[object]], gap: int) -> str:
    """Return left-aligned columns as wide as their longest cell, `gap` blanks apart."""
    widths = [max(len(str(cell)) for cell in column) + gap for column in zip(header, *rows, strict=True)]
    return columns(widths, header, rows)


def runnable_command(command: str) -> str:
    """Return `command` if it is on the PATH, else the path of the one in our interpreter's directory."""
    beside = Path(sys.executable).parent / command
    if shutil.which(command) or not beside.exists():
        return command
    relative = os.path.relpath(beside)
    return str(beside) if relative.startswith("..") else relative


@click.command("help", short_help="Show the help of a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, as its option --help does; without one, the list of all commands."""
    assert context.parent is not None
    shown = context.parent
    for word in words:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"{shown.command_path} has no commands; see: {shown.command_path} --help", context)
        name, command, _ = shown.command.resolve_command(shown, [word])
        assert command is not None  # otherwise resolve_command raised
        shown = click.Context(command, info_name=name, parent=shown)
    print(shown.get_help())
