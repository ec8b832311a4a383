"""What vcctl's commands share: Volcano's logging flags, the flags of a cluster, and how a command fails."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import click

FAILURE = 255


def _log_flags() -> list[click.Parameter]:
    """Volcano's logging flags: scripts pass them everywhere, and there is no log here that they could change."""
    return [
        click.Option(names, expose_value=False, hidden=True)
        for names in (["--v", "-v"], ["--vmodule"], ["--log-flush-frequency"])
    ]


class Command(click.Command):
    """A command that takes Volcano's logging flags."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _log_flags()


class Group(click.Group):
    """A group that takes Volcano's logging flags, and whose commands fail as Volcano's do."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _log_flags()

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As click's, with Volcano's exit codes and what fails on stdout."""
        kwargs["standalone_mode"] = False
        try:
            return super().main(*args, **kwargs)
        except click.exceptions.Exit as stop:
            sys.exit(stop.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            print(error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            print(f"Error: {error.format_message()}")
            if isinstance(error, click.UsageError) and error.ctx is not None:
                print(f"Run '{error.ctx.command_path} --help' for usage.")
            sys.exit(FAILURE)
        except click.Abort:
            sys.exit(130)


def cluster_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags that say which cluster."""
    for flag in (
        click.option(
            "--kubeconfig", "-k", type=click.Path(path_type=Path, readable=False), help="Path of the kubeconfig."
        ),
        click.option("--master", "-s", default="", help="Address of the API server, overriding the kubeconfig."),
    ):
        command = flag(command)
    return command


def run_with_client(
    path: str, kubeconfig: Path | None, master: str, body: Callable[..., Awaitable[None]], *args: Any
) -> None:
    """Run a command's body with a client; what fails is told on stdout as `Failed to <path>`, with exit code 255."""
    from volcanoio.cli.connection import connected
    from volcanoio.cli.errors import CommandError, sole_error

    async def call() -> None:
        async with connected(kubeconfig, master) as client:
            await body(client, *args)

    try:
        anyio.run(call)
    except (CommandError, BaseExceptionGroup) as error:
        told = sole_error(error)
        if not isinstance(told, CommandError):
            raise
        print(f"Failed to {path}: {told}")
        sys.exit(FAILURE)
