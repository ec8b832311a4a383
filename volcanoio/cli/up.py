"""`volcanoio up`: one process, until a signal ends it."""

from __future__ import annotations

import getpass
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from volcanoio.cli.errors import CommandError, ExitCode
from volcanoio.cli.hints import typed
from volcanoio.cli.serving import ending_signals, set_up_logs
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions, OptionError

_RUN_WARNING = (
    "warning: --run: pods run their commands as processes of user {user} on this machine, with its files and its "
    "network; whoever may create pods here may do what {user} may. Apply only manifests you trust."
)


def options_from(data: Path | None, memory: bool, port: int, verbose: int, given: dict[str, Any]) -> LocalOptions:
    """The options of a local cluster, or a CommandError that says which is wrong. Sets up logs on stderr."""
    set_up_logs(verbose)
    try:
        return LocalOptions.parse(data=data, memory=memory, port=port, **given)
    except OptionError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None


@asynccontextmanager
async def started(options: LocalOptions) -> AsyncIterator[LocalCluster]:
    """A running cluster; raises CommandError for options that cannot be used."""
    cluster = LocalCluster(options)
    try:
        await cluster.__aenter__()
    except OptionError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    async with AsyncExitStack() as stack:
        stack.push_async_exit(cluster)
        yield cluster


def run_up(*, data: Path, memory: bool, port: int, verbose: int, **given: Any) -> int:
    """Start the cluster, print the ready line, and wait for SIGINT, SIGTERM or SIGHUP."""
    options = options_from(data, memory, port, verbose, given)
    if options.run:
        print(_RUN_WARNING.format(user=getpass.getuser()), file=sys.stderr)
    return anyio.run(_up, options)


async def _up(options: LocalOptions) -> int:
    with anyio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
        async with started(options) as cluster:
            print(f"ready server={cluster.server} kubeconfig={cluster.kubeconfig}", flush=True)
            _hint(cluster.kubeconfig)
            async for _ in signals:
                with suppress(OSError):  # the terminal may be gone
                    print("stopping", file=sys.stderr)
                break
    return ExitCode.OK


def _hint(kubeconfig: Path) -> None:
    if sys.stderr.isatty():
        vcctl = typed("vcctl")
        print(
            f"\nIn another terminal:\n  export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}\n"
            f"  {vcctl} job run -N hello -r 3 -m 3\n  {vcctl} job list\nCtrl-C stops.",
            file=sys.stderr,
        )
