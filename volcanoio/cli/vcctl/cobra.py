"""Commands of click that print help and errors as Volcano's, which are written with the Go library cobra.

The help has cobra's sections, and options as pflag lists them: sorted by name, with the type of the value and the
default. Sources: spf13/cobra command.go (usage template), spf13/pflag flag.go (FlagUsages); Volcano's own tests compare
the whole text of `vcctl --help` (test/e2e/vcctl). Errors are printed on stdout as `Failed to <command>: <reason>`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import anyio
import click

from volcanoio.cli.terminal import PATH, CommandError, ExitCode, drop_output, sole_error

FAILURE = 255
"""Exit code of a command that failed: Go's `os.Exit(-1)`."""
INT32 = click.types.IntParamType()
INT32.name = "int32"
_TYPES = {"integer": "int", "int32": "int32", "boolean": ""}
"""Names of types in click and in pflag, where all others are strings."""
_PADDING = 11
"""Smallest width of the names in a list of commands."""
_OURS = ("-A",)
"""Accepted, but not in the help: Volcano does not have it."""


def logging_options(*, listed: bool) -> list[click.Parameter]:
    """Return Volcano's logging flags, which scripts pass to every command; they have no effect.

    `listed` is whether the help names those of klog; --log-flush-frequency is always named.
    """
    level = click.Option(
        ["--v", "-v"], metavar="Level", expose_value=False, hidden=not listed, help="number for the log level verbosity"
    )
    modules = click.Option(
        ["--vmodule"],
        metavar="moduleSpec",
        expose_value=False,
        hidden=not listed,
        help="comma-separated list of pattern=N settings for file-filtered logging (only works for the default text "
        "log format)",
    )
    frequency = click.Option(
        ["--log-flush-frequency"],
        metavar="duration",
        default="5s",
        expose_value=False,
        help="Maximum number of seconds between log flushes",
    )
    return [frequency, level, modules]


def _options(command: click.Command) -> list[click.Option]:
    """Return the options that the help lists, without those for logging."""
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden and each.expose_value]


def _usage(option: click.Option) -> tuple[str, str, str]:
    """Return an option's name, its head (`-n, --name string`) and its description with the default."""
    name = next(each for each in option.opts if each.startswith("--"))
    short = next((each for each in option.opts if not each.startswith("--") and each not in _OURS), "")
    kind = option.metavar or _TYPES.get(option.type.name, "string")
    head = f"  {short}, {name}" if short else f"      {name}"
    default = option.default if isinstance(option.default, (str, int)) else None
    text = option.help or ""
    if default:
        text += f" (default {json.dumps(default) if kind == 'string' else default})"
    return name, f"{head} {kind}".rstrip(), text


def _listing(usages: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    width = max(len(head) for _, head, _ in usages) + 3
    for _, head, text in sorted(usages):
        yield f"{head:<{width}}{text}"


def help_text(command: click.Command, context: click.Context) -> str:
    """Return the text of --help, without the last line break."""
    path, name = context.command_path, context.info_name or command.name
    subcommands = command.commands if isinstance(command, click.Group) else {}
    lines = [*([command.help.strip(), ""] if command.help else []), "Usage:"]
    lines.append(f"  {path} [command]" if subcommands else f"  {path} [flags]")
    if command.epilog:
        lines += ["", "Examples:", command.epilog]
    if subcommands:
        width = max(_PADDING, *map(len, subcommands)) + 1
        lines += ["", "Available Commands:"]
        lines += [f"  {each:<{width}}{subcommands[each].short_help}" for each in sorted(subcommands)]
    own = [("--help", "  -h, --help", f"help for {name}"), *map(_usage, _options(command))]
    global_flags = [
        _usage(each) for each in command.params if isinstance(each, click.Option) and each.metavar and not each.hidden
    ]
    at_root = context.parent is None
    lines += ["", "Flags:", *_listing([*own, *global_flags] if at_root else own)]
    if not at_root:
        lines += ["", "Global Flags:", *_listing(global_flags)]
    if subcommands:
        lines += ["", f'Use "{path} [command] --help" for more information about a command.']
    return "\n".join(lines)


class Command(click.Command):
    """A command of vcctl, or a tool of its own: it accepts Volcano's logging flags."""

    of_klog = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.short_help = self.short_help or self.help
        self.params += logging_options(listed=self.of_klog)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help in cobra's form."""
        return help_text(self, ctx)


class Group(click.Group):
    """A group of vcctl, whose commands fail like Volcano's."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.short_help = self.short_help or self.help
        self.params += logging_options(listed=True)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help in cobra's form."""
        return help_text(self, ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as click does, with errors on stdout and exit code 255."""
        return run_program(super().main, args, kwargs, usage_error=lambda text: (f"Error: {text}", FAILURE))


class Tool(Command):
    """A program of one command."""

    of_klog = False

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as click does; an unusable flag is printed on stdout with exit code 254."""
        failed = f"Failed to execute {self.name}: "
        return run_program(super().main, args, kwargs, usage_error=lambda text: (failed + text, FAILURE - 1))


def run_program(
    main: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    usage_error: Callable[[str], tuple[str, int]],
) -> Any:
    """Run click's `main`; `usage_error` returns the line and the exit code for flags that cannot be used."""
    try:
        return main(*args, **{**kwargs, "standalone_mode": False})
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        sys.exit(0)
    except click.ClickException as error:
        line, code = usage_error(error.format_message())
        print(line)
        if isinstance(error, click.UsageError) and error.ctx is not None:
            print(f"Run '{error.ctx.command_path} --help' for usage.")
        sys.exit(code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(ExitCode.INTERRUPTED)
    except (OSError, BaseExceptionGroup) as error:
        if not drop_output(sole_error(error), Path(sys.argv[0]).name):
            raise
        sys.exit(FAILURE)


def on_cluster(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Add the flags that select a cluster to a command, and run it with a client.

    Failures are printed as `Failed to <command>: <reason>`, such as `Failed to list job: …`, with exit code 255.
    """

    @click.option("--master", "-s", default="", help="the address of apiserver")
    @click.option("--kubeconfig", "-k", type=PATH, help="(optional) absolute path to the kubeconfig file")
    @wraps(body)
    def run(kubeconfig: Path | None, master: str, **given: Any) -> None:
        from volcanoio.cli.connection import connected

        async def call() -> None:
            async with connected(kubeconfig, master) as client:
                await body(client, **given)

        try:
            anyio.run(call)
        except (CommandError, BaseExceptionGroup) as error:
            if not isinstance(cause := sole_error(error), CommandError):
                raise
            words = ["Failed to", *reversed(click.get_current_context().command_path.split()[1:])]
            print(f"{' '.join(words)}: {cause}")
            sys.exit(FAILURE)

    return run


def format_row(widths: Sequence[int], cells: Sequence[object]) -> str:
    """Return left-aligned cells, padded to the end of the row as Go's `%-8s` does; longer ones shift the others."""
    return "".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True))


def note(text: str) -> None:
    """Print a remark that Volcano does not make to stderr: stdout has only what Volcano prints."""
    print(text, file=sys.stderr)
