"""`volcanoio hollow-nodes`: simulated nodes for a cluster of somebody's, until a signal ends them."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio

from volcanoio.cli.connection import connected, explained
from volcanoio.cli.errors import CommandError, ExitCode
from volcanoio.cli.serving import ending_signals, set_up_logs
from volcanoio.compose.hollow import HollowOptions, MissingRightsError, check_rights, hollow_fleet
from volcanoio.compose.options import OptionError
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.nodes.fleet import NodeFleet


def run_hollow_nodes(kubeconfig: Path | None, options: HollowOptions, verbose: int) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP; raises CommandError."""
    set_up_logs(verbose)
    return anyio.run(_serve, kubeconfig, options)


async def _serve(kubeconfig: Path | None, options: HollowOptions) -> int:
    with anyio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
        async with connected(kubeconfig) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(_run, client.transport, options, tasks.cancel_scope)
            async for _ in signals:
                with suppress(OSError):  # the terminal may be gone
                    print("stopping; the nodes stay, and turn NotReady", file=sys.stderr)
                break
            tasks.cancel_scope.cancel()
    return ExitCode.OK


async def _run(transport: Transport, options: HollowOptions, scope: anyio.CancelScope) -> None:
    fleet = await _permitted(transport, options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fleet.run)
        await fleet.registered.wait()
        print(f"ready nodes={options.count}", flush=True)
        if not options.count:  # those of an earlier run are removed, and there is nobody to serve
            scope.cancel()


async def _permitted(transport: Transport, options: HollowOptions) -> NodeFleet:
    try:
        fleet = hollow_fleet(transport, options)
    except OptionError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    try:
        with explained():
            await check_rights(transport)
    except MissingRightsError as error:
        lines = "\n".join(f"  {right}" for right in error.rights)
        msg = (
            f"the user of this kubeconfig may not do what nodes do:\n{lines}\n"
            "grant it with the ClusterRole of config/rbac/hollow-nodes.yaml, or use another kubeconfig"
        )
        raise CommandError(msg, ExitCode.REJECTED) from None
    return fleet
