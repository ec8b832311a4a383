"""Commands that run until a signal ends them: `volcanoio up`, `volcanoio web` and `volcanoio hollow-nodes`.

SIGINT, SIGTERM and SIGHUP end them; SIGHUP stays ignored if it was, as under nohup. Logs go to stderr.
"""

import getpass
import shlex
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from volcanoio.cli.componentflags import SchedulerFlags, set_up_logs
from volcanoio.cli.connection import connected, found_connection, reporting_api_errors
from volcanoio.cli.offline.state_source import text_of
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError, runnable_command, sole_error
from volcanoio.compose.hollow import HollowOptions, MissingPermissionsError, check_permissions, hollow_fleet
from volcanoio.compose.live.reading import configuration_at, installed_configuration
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions, OptionError
from volcanoio.compose.simulate import SimulateOptions
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.kube.client import Client
from volcanoio.kube.credentials.sources import StaticCredentials
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection, anonymous
from volcanoio.kube.transport import Transport
from volcanoio.model.documents import read_text
from volcanoio.runtime import logs
from volcanoio.runtime.endpoints import EndpointError, Health, serving
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.configmap_source import ConfigMapKey
from volcanoio.web.app import LOOPBACK, Address, PageError, PageOptions, serving_page
from volcanoio.web.viewers import Viewers

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
    tune_garbage_collector()
    has_page, web_port = given.pop("web"), given.pop("web_port")
    flags = SchedulerFlags.take(given)
    given |= {
        "agent_scheduler_name": flags.agent_schedulers,
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
    return anyio.run(_up, options, web_port if has_page else None)


async def _up(options: LocalOptions, web_port: int | None) -> int:
    with anyio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
        async with started(options) as cluster, AsyncExitStack() as stack:
            page = "" if web_port is None else await stack.enter_async_context(_local_page(cluster, web_port))
            address = f" web={page}" if page else ""
            print(f"ready server={cluster.server} kubeconfig={cluster.kubeconfig}{address}", flush=True)
            _hint(cluster.kubeconfig, page)
            async for _ in signals:
                with suppress(OSError):  # the terminal may be gone
                    print("stopping", file=sys.stderr)
                break
    return ExitCode.OK


@asynccontextmanager
async def _local_page(cluster: LocalCluster, port: int) -> AsyncIterator[str]:
    """Serve the page of a local cluster; yields its URL. Raises CommandError."""
    given = cluster.options
    state = StateOptions(
        scheduler_names=frozenset(given.scheduler_name),
        default_queue=given.default_queue,
        feature_gates=given.feature_gates,
        scope=given.scope,
    )
    options = PageOptions(
        scheduler=SimulateOptions(files=(), state=state, period=given.schedule_period, plugins_dirs=given.plugins_dir),
        configuration=partial(_configuration_of, given.scheduler_conf),
        now=cluster.clock.now,
        rate=cluster.clock.rate,
        journal=given.journal,
    )
    try:
        viewers = Viewers(own=cluster.transport, now=cluster.clock.now)
        async with serving_page(viewers, Address("127.0.0.1", port, any_port=True), options) as url:
            yield url
    except PageError as error:
        raise UsageError(f"--web-port: {error}") from None


async def _configuration_of(source: Path | ConfigMapKey | None, client: Client) -> tuple[str | None, list[str]]:
    """Return the configuration that a file or ConfigMap has now, and notes; None for the default one."""
    if isinstance(source, ConfigMapKey):
        return await configuration_at(client, *source)
    try:
        return (None if source is None else read_text(source)), []
    except (OSError, UnicodeDecodeError) as error:
        return None, [f"{source} cannot be read ({error}): Volcano's default configuration is used"]


def run_web(*, address: str, auth: str, hosts: tuple[str, ...], **given: Any) -> int:
    """Serve the page of a cluster until SIGINT, SIGTERM or SIGHUP; raises CommandError."""
    logs.set_up(form="console", level=_LEVELS[min(given["verbose"], len(_LEVELS) - 1)])
    if auth == "kubeconfig" and address not in LOOPBACK:
        raise UsageError(
            f"--address: with the rights of the kubeconfig the page is served on loopback only, not at {address}; "
            "leave it out, or use --auth=token, with which each viewer shows a token of its own"
        )
    configuration = text_of(given["conf"])
    options = PageOptions(
        hosts=frozenset(hosts) | LOOPBACK if hosts or auth == "kubeconfig" else frozenset(),
        configuration=installed_configuration if configuration is None else partial(_fixed, configuration),
        journal=given["journal"],
    )
    tls = _server_tls(given["tls_cert_file"], given["tls_private_key_file"])
    return anyio.run(_web, given["kubeconfig"], Address(address, given["port"], tls=tls), auth, options)


async def _fixed(configuration: str, client: Client) -> tuple[str | None, list[str]]:
    del client
    return configuration, []


def _server_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the server's TLS context, None without a certificate. Raises UsageError."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert-file and --tls-private-key-file belong together; one is missing")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--tls-cert-file: {certificate} and {key} cannot be used: {error}; give PEM files") from None
    return context


async def _web(kubeconfig: Path | None, address: Address, auth: str, options: PageOptions) -> int:
    with anyio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
        async with AsyncExitStack() as stack:
            if auth == "kubeconfig":
                client = await stack.enter_async_context(connected(kubeconfig))
                viewers = Viewers(own=client.transport)
            else:
                connection = anonymous(await found_connection(kubeconfig))
                viewers = Viewers(connect=partial(_transport_of, connection))
            try:
                url = await stack.enter_async_context(serving_page(viewers, address, options))
            except PageError as error:
                raise UsageError(error) from None
            print(f"ready web={url}", flush=True)
            async for _ in signals:
                with suppress(OSError):  # the terminal may be gone
                    print("stopping", file=sys.stderr)
                break
    return ExitCode.OK


def _transport_of(connection: Connection, authorization: str) -> Transport:
    """Return a transport with the credentials of one viewer."""
    return HttpTransport(replace(connection, credentials=StaticCredentials(authorization)), connections=8)


def _hint(kubeconfig: Path, page: str) -> None:
    if sys.stderr.isatty():
        vcctl = runnable_command("vcctl")
        print(
            (f"\nWeb page: {page}\n" if page else "")
            + f"\nIn another terminal:\n  export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}\n"
            f"  {vcctl} job run -N hello -r 3 -m 3\n  {vcctl} job list\nCtrl-C stops.",
            file=sys.stderr,
        )


def run_hollow_nodes(**given: Any) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP; raises CommandError."""
    set_up_logs(given)
    fields = ("count", "prefix", "node_resources", "node_devices", "kubelet_lag")
    options = HollowOptions(**{name: given[name] for name in fields})
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
