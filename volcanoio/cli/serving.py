"""Commands that run until a signal ends them: `volcanoio up` and `volcanoio hollow-nodes`.

SIGINT, SIGTERM and SIGHUP end them; SIGHUP stays ignored if it was, as under nohup. Logs go to stderr.
"""

import getpass
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from volcanoio.cli.componentflags import SchedulerFlags, set_up_logs
from volcanoio.cli.connection import connected, reporting_api_errors
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError, runnable_command, sole_error
from volcanoio.compose.hollow import HollowOptions, MissingPermissionsError, check_permissions, hollow_fleet
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions, OptionError
from volcanoio.kube.transport import Transport
from volcanoio.runtime import logs
from volcanoio.runtime.endpoints import EndpointError, Health, serving

_LEVELS = ("warning", "info", "debug")
"""Log level by number of -v flags."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals besides Ctrl-C that end a command: SIGTERM, and SIGHUP unless it is ignored as under nohup."""
    closed = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGHUP) if closed else (signal.SIGTERM,)


_RUN_WARNING = (
    "warning: --run: pods run their commands as processes of user {user} on this machine, with its files and its "
    "network; any client that may create pods here has the rights of {user}. Apply only manifests you trust."
)


def options_from(data: Path | None, memory: bool, port: int, verbose: int, given: dict[str, Any]) -> LocalOptions:
    """Parse the options of a local cluster and set up logs; raises CommandError with the invalid option."""
    logs.set_up(form="console", level=_LEVELS[min(verbose, len(_LEVELS) - 1)])
    try:
        return LocalOptions.parse(data=data, memory=memory, port=port, **given)
    except OptionError as error:
        raise UsageError(error) from None


@asynccontextmanager
async def started(options: LocalOptions) -> AsyncIterator[LocalCluster]:
    """Start a cluster; raises CommandError for options that cannot be used."""
    cluster = LocalCluster(options)
    try:
        await cluster.__aenter__()
    except OptionError as error:
        raise UsageError(error) from None
    async with AsyncExitStack() as stack:
        stack.push_async_exit(cluster)
        yield cluster


def run_up(*, data: Path, memory: bool, port: int, verbose: int, **given: Any) -> int:
    """Start the cluster, print the ready line, and wait for SIGINT, SIGTERM or SIGHUP."""
    flags = SchedulerFlags.take(given)
    given |= {
        "default_queue": flags.default_queue,
        "schedule_period": flags.period,
        "scope": flags.scope,
        "feature_gates": flags.feature_gates,
    }
    options = options_from(data, memory, port, verbose, given)
    for note in flags.notes:
        print(f"note: {note}", file=sys.stderr)
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
        vcctl = runnable_command("vcctl")
        print(
            f"\nIn another terminal:\n  export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}\n"
            f"  {vcctl} job run -N hello -r 3 -m 3\n  {vcctl} job list\nCtrl-C stops.",
            file=sys.stderr,
        )


def run_hollow_nodes(**given: Any) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP; raises CommandError."""
    set_up_logs(given)
    options = HollowOptions(**{name: given[name] for name in ("count", "prefix", "node_resources", "kubelet_lag")})
    health = given["healthz_address"] if given["enable_healthz"] else None
    try:
        return anyio.run(_serve, given["kubeconfig"], given["master"] or "", health, options)
    except Exception as error:
        if isinstance(problem := sole_error(error), EndpointError):
            raise UsageError(f"--healthz-address: {problem}") from None
        raise


async def _serve(kubeconfig: Path | None, master: str, health: tuple[str, int] | None, options: HollowOptions) -> int:
    registered = anyio.Event()
    checks = Health(lambda: "", lambda: "" if registered.is_set() else "the nodes are not registered yet")
    with anyio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
        async with AsyncExitStack() as stack:
            if health is not None:
                await stack.enter_async_context(serving(*health, checks.handlers()))
            client = await stack.enter_async_context(connected(kubeconfig, master))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(_run, client.transport, options, registered, tasks.cancel_scope)
            async for _ in signals:
                with suppress(OSError):  # the terminal may be gone
                    print("stopping; the nodes stay, and turn NotReady", file=sys.stderr)
                break
            tasks.cancel_scope.cancel()
    return ExitCode.OK


async def _run(transport: Transport, options: HollowOptions, registered: anyio.Event, scope: anyio.CancelScope) -> None:
    try:
        fleet = hollow_fleet(transport, options)
    except OptionError as error:
        raise UsageError(error) from None
    await _check_permissions(transport)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fleet.run)
        await fleet.registered.wait()
        registered.set()
        print(f"ready nodes={options.count}", flush=True)
        if not options.count:  # nodes of an earlier run are removed, and there is nothing to serve
            scope.cancel()


async def _check_permissions(transport: Transport) -> None:
    try:
        with reporting_api_errors():
            await check_permissions(transport)
    except MissingPermissionsError as error:
        lines = "\n".join(f"  {right}" for right in error.rights)
        msg = (
            f"the user of this kubeconfig may not do what nodes do:\n{lines}\n"
            "grant it with the ClusterRole of config/rbac/hollow-nodes.yaml, or use another kubeconfig"
        )
        raise CommandError(msg, ExitCode.REJECTED) from None
