"""`volcanoio`: the command, its subcommands and their options.

Only click declarations are here. Each command imports its implementation when it runs (`serving`, `demo`,
`offline`, `linting`, `nodes`), so that `--help` and `version` start fast; a test checks this.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import click

from volcanoio import __version__
from volcanoio.cli.act.commands import ACT_COMMANDS, CONFIG_COMMANDS
from volcanoio.cli.completion import PLUGIN, print_for_kubectl
from volcanoio.cli.componentflags import SCHEDULING, ComponentCommand, flags, options, version_flag
from volcanoio.cli.look.commands import LOOK_COMMANDS
from volcanoio.cli.plugin import plugin
from volcanoio.cli.terminal import INPUT, PATH, ExitCode, ReportsErrors, UsageError, help_command, replace_unencodable

if TYPE_CHECKING:
    from volcanoio.kube.client import Client

Work: TypeAlias = "Callable[[Client], Awaitable[None]]"


class Speed(click.ParamType[float]):
    """Speed of a cluster's time, at least 0.01; `max` is infinite."""

    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fails with the rule."""
        if isinstance(value, float):
            return value
        if value == "max":
            return math.inf
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor max", param, ctx)
        if not 0.01 <= number < math.inf:
            self.fail(f"{value!r} is not a number from 0.01 on; use 1 for real time, 60, or max", param, ctx)
        return number


_state_options = options(
    click.option(
        "-f",
        "--filename",
        "files",
        type=INPUT,
        multiple=True,
        metavar="STATE",
        help="YAML or JSON as `kubectl get -A -o yaml` prints it; - is stdin, a directory all such files of it. By "
        "default a cluster is read.",
    ),
    click.option("--kubeconfig", type=PATH, help="That cluster; else $KUBECONFIG, else as kubectl finds it."),
    click.option(
        "--conf",
        "--scheduler-conf",
        "conf",
        type=INPUT,
        help="The scheduler's configuration; else that of the cluster's ConfigMap, else Volcano's default.",
    ),
    click.option(
        "--now", metavar="TIME", help="Time of the state, such as 2026-01-01T00:00:00Z; by default that of the clock."
    ),
    flags("simulate"),
)
"""Where a command reads a state, and what decides about it."""


_scheduler_url = click.option(
    "--scheduler-url",
    default="",
    metavar="URL",
    help="Ask the running scheduler here, such as http://127.0.0.1:11252; by default in the pod that leads.",
)
_live = click.option(
    "--live", is_flag=True, help="Read the state of the running scheduler, what it remembers included."
)


@click.command(short_help="Show what the scheduler would do with a cluster's state, offline.")
@click.option("--compare", type=INPUT, metavar="CONF", help="Show what this configuration would do differently.")
@click.option(
    "--add-nodes",
    multiple=True,
    metavar="COUNTxNODE|COUNTxAMOUNTS",
    help="Add nodes like an existing one (2xnode-1) or of these amounts (2xcpu=16,memory=64Gi).",
)
@click.option(
    "--set",
    "set_fields",
    multiple=True,
    metavar="KIND.NAME.FIELD=VALUE",
    help="Change a field of a spec first: queue.ml.capability.cpu=40, podgroup.team/train.minMember=3.",
)
@click.option(
    "--submit", type=INPUT, multiple=True, metavar="JOBS", help="Add the PodGroup and pods of the Jobs in this file."
)
@click.option(
    "--until",
    type=click.Choice(["running", "completed"]),
    help="Run cycles until the submitted Jobs, or all groups that wait, run or have ended; exit code 1 if they never "
    "do. Bound pods start at once, evicted ones end and are replaced.",
)
@click.option(
    "--run-time",
    metavar="DURATION",
    help="With --until: how long pods run, such as 10m, where the submitted Job has no runningEstimate. Without it "
    "they do not end.",
)
@click.option(
    "--cycles", type=click.IntRange(min=1), help="Cycles to run; by default 1, and with --until 1000 at most."
)
@_live
@_scheduler_url
@click.option("-o", "--output", type=click.Choice(["json", "table"]), default="table", help="Output format.")
@_state_options
def simulate(**given: Any) -> int:
    """Run scheduling cycles on a cluster's state and print the decisions.

    The state is read from files or from a cluster; nothing is written anywhere. Binds, evictions and statuses come back
    as they would from a cluster without kubelets: a bound pod has its node and never runs, an evicted one keeps
    terminating.
    """
    from volcanoio.cli.offline.simulation import run_simulate

    return run_simulate(**given)


@click.command(short_help="Show why a job, pod or queue waits, and what would help.")
@click.argument("target", metavar="NAME|KIND/NAME")
@click.option("-n", "--namespace", default="default", help="Namespace of the job or pod.")
@click.option(
    "--remedies/--no-remedies", default=True, help="Whether to search what would help; takes most of the time."
)
@click.option("--evicted", is_flag=True, help="Show why pods of a job, or a pod, were evicted, and who profits.")
@click.option("--journal", type=PATH, help="With --evicted: read a journal's directory instead of asking a cluster.")
@click.option("--offline", is_flag=True, help="Do not ask the running scheduler; run one cycle on this machine.")
@_scheduler_url
@click.option("-o", "--output", type=click.Choice(["json", "text"]), default="text", help="Output format.")
@_state_options
def why(**given: Any) -> int:
    """Show why a job, PodGroup, pod or queue waits: a code, the evidence, and the smallest changes that would help.

    The running scheduler is asked. If it cannot be reached, or with -f, --conf or --offline, one scheduling cycle is
    run here on the state of the cluster or of files; without the right to read that state, only conditions are read.
    Nothing is changed. Every change that is listed was tried on a copy of the state.
    """
    from volcanoio.cli.offline.why import run_why

    return run_why(**given)


@click.command(short_help="Decide the recorded events of a journal again.")
@click.argument("journal", type=PATH, metavar="JOURNAL")
@click.option("--conf", type=INPUT, help="Decide with this scheduler configuration instead, and compare.")
@click.option("--until", type=click.IntRange(min=0), metavar="SEQ", help="Read events up to this number only.")
@click.option(
    "--shrink", type=PATH, metavar="DIR", help="Write a smaller journal to DIR whose replay fails in the same way."
)
@click.option("--plugins-dir", type=INPUT, multiple=True, help="Directory of scheduler and job plugins.")
@click.option("--controllers-dir", type=INPUT, multiple=True, help="Directory of controllers.")
@click.option("-o", "--output", type=click.Choice(["json", "text"]), default="text", help="Output format.")
def replay(journal: Path, **given: Any) -> int:
    """Decide the events of JOURNAL again and compare with what was decided then; exit code 1 if anything differs.

    JOURNAL is the directory that --journal of `up` or of a component wrote. No cluster, clock or policy is needed.
    """
    from volcanoio.cli.offline.replaying import run_replay

    return run_replay(journal, **given)


@click.command(short_help="Show what happened to a job, from its submission to its end.")
@click.argument("job", metavar="JOB")
@click.option("-n", "--namespace", default="default", help="Namespace of the job.")
@click.option(
    "--journal", type=PATH, help="Directory that --journal of `up` wrote; by default the cluster's objects are read."
)
@click.option("--kubeconfig", type=PATH, help="The cluster; else $KUBECONFIG, else as kubectl finds it.")
@click.option("--each", is_flag=True, help="One line for each pod, with the causes from a journal.")
@click.option("-o", "--output", type=click.Choice(["json", "text"]), default="text", help="Output format.")
def timeline(**given: Any) -> int:
    """Show the timeline of JOB: submitted, admitted, pods bound, started and ended, evictions, restarts, phases.

    From a journal it is exact, with the number of each event, its cycle and its causes, also for jobs that are deleted.
    From a cluster it shows what its objects, conditions and Events still contain.
    """
    from volcanoio.cli.offline.timeline import run_timeline

    return run_timeline(**given)


@click.command(short_help="Estimate when a waiting job starts.")
@click.argument("target", metavar="JOB")
@click.option("-n", "--namespace", default="default", help="Namespace of the job.")
@click.option(
    "--history",
    type=INPUT,
    help="The controllers' --history-file, or what `volcanoio history -o json --places` prints; - is stdin. By default "
    "that of the cluster, if `volcanoio up` runs it.",
)
@click.option("-o", "--output", type=click.Choice(["json", "text"]), default="text", help="Output format.")
@_state_options
def eta(**given: Any) -> int:
    """Estimate when JOB, a Job or PodGroup, starts: a median, and an interval that holds in 8 of 10 cases.

    The state of a cluster, or of files, is simulated forward many times with run times of finished jobs, and the answer
    is calibrated by the waits of past jobs. Nothing is changed.
    """
    from volcanoio.cli.offline.eta import run_eta

    return run_eta(**given)


@click.command(short_help="Show finished jobs, also deleted ones: wait, run time, requested and used.")
@click.option("--since", metavar="TIME", help="Only jobs that finished since: 7d or 36h ago, or 2026-01-01T00:00:00Z.")
@click.option("--until", metavar="TIME", help="Only jobs that finished before that time.")
@click.option("--by", type=click.Choice(["user", "queue", "namespace", "job"]), help="Sum by this.")
@click.option("-n", "--namespace", default="", show_default=False, help="Only jobs of this namespace.")
@click.option("--owner", default="", show_default=False, help="Only jobs of this user.")
@click.option("--queue", default="", show_default=False, help="Only jobs of this queue.")
@click.option("--name", default="", show_default=False, help="Only jobs of this name.")
@click.option("--limit", "most", type=click.IntRange(min=1), help="Only this many jobs, the newest.")
@click.option("--places", is_flag=True, help="With -o json: where and when each pod ran, as eta --history reads it.")
@click.option("--file", type=PATH, help="The controllers' --history-file.")
@click.option("--kubeconfig", type=PATH, help="The cluster; else $KUBECONFIG, else as kubectl finds it.")
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json"]), default="table", help="Output format.")
def history(**given: Any) -> int:
    """Show finished jobs, also those that are deleted: owner, queue, wait, run time, requested and used, exit.

    They are read from the file that the controllers keep (--history-file), or that `volcanoio up` has in its data
    directory.
    """
    from volcanoio.cli.offline.history import run_history

    return run_history(**given)


@click.group(short_help="Save the state of a cluster, to simulate or explain it elsewhere.")
def snapshot() -> None:
    """Save the state of a cluster, to simulate or explain it elsewhere."""


@snapshot.command("save", short_help="Write what the scheduler reads of a cluster to a file.")
@click.argument("file", type=PATH, metavar="FILE")
@click.option("--kubeconfig", type=PATH, help="The cluster; else $KUBECONFIG, else as kubectl finds it.")
@_live
@_scheduler_url
def save_snapshot(file: Path, kubeconfig: Path | None, live: bool, scheduler_url: str) -> int:
    """Write the objects that the scheduler reads to FILE, as JSON for -f of `simulate` and `why`.

    Environments of containers, private keys and managed fields are left out; names, labels and images are not.
    """
    from volcanoio.cli.offline.state_source import run_save

    return run_save(file, kubeconfig, live=live, scheduler_url=scheduler_url)


@snapshot.command("redact", short_help="Copy a saved state or a journal with pseudonyms for all names.")
@click.argument("source", type=PATH, metavar="IN")
@click.argument("target", type=PATH, metavar="OUT")
@click.option(
    "--keep", multiple=True, metavar="WORD", help="Leave this word as it is, such as a value your plugin reads."
)
@click.option("--check/--no-check", default=True, help="Replay the copy of a journal and compare its decisions.")
def redact_snapshot(source: Path, target: Path, keep: tuple[str, ...], check: bool) -> int:
    """Copy IN, a file of `snapshot save` or the directory of a journal, to OUT without names, labels and images.

    Every word that Kubernetes and volcanoio do not know is replaced by the same pseudonym everywhere; pseudonyms sort
    as the words did. Numbers, amounts, times and uids stay, and so do words that are in volcanoio's code, such as
    `worker`. A redacted journal replays to the same decisions.
    """
    from volcanoio.cli.offline.redacting import run_redact

    return run_redact(source=source, target=target, keep=keep, check=check)


@click.group(short_help="Check configurations, and generate files from them.")
def config() -> None:
    """Check configurations, and generate files from them."""


@config.command("lint", short_help="Find problems in a configuration; exit code 1 on errors.")
@click.argument("files", type=INPUT, nargs=-1, required=True, metavar="FILES")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format for people or for programs."
)
@click.option("--plugins-dir", type=INPUT, multiple=True, help="Directory of scheduler plugins and actions.")
@click.option("--policies-dir", type=INPUT, multiple=True, help="Directory of policies.")
@click.option("--ignore-unavailable-plugins", is_flag=True, help="Warn of plugins that are not available yet.")
def lint_command(
    files: tuple[Path, ...],
    output: str,
    plugins_dir: tuple[Path, ...],
    policies_dir: tuple[Path, ...],
    ignore_unavailable_plugins: bool,
) -> int:
    """Find problems in FILES (- is stdin): Volcano's scheduler configuration, the controllers', or a ConfigMap
    that contains one.

    Finds unknown keys, plugins, actions, policies and arguments, wrong types, conflicting plugins, and settings
    without effect; files that are given together are checked against each other. The exit code is 1 if there are
    errors, 0 if there are at most warnings.
    """
    from volcanoio.cli.linting import run_lint

    return run_lint(files, output, plugins_dir, policies_dir, ignore_unavailable=ignore_unavailable_plugins)


@config.command("rbac", short_help="Print the roles that the components need.")
@click.argument("component", type=click.Choice(["scheduler", "controllers", "admission"]), default="controllers")
@click.option("--controllers-dir", type=INPUT, multiple=True, help="Directory of controllers.")
@click.option("--policies-dir", type=INPUT, multiple=True, help="Directory of policies.")
@click.option("--plugins-dir", type=INPUT, multiple=True, help="Directory of scheduler plugins.")
def rbac_command(
    component: str,
    controllers_dir: tuple[Path, ...],
    policies_dir: tuple[Path, ...],
    plugins_dir: tuple[Path, ...],
) -> int:
    """Print the ClusterRole and the Role that COMPONENT needs, including what is in the given directories.

    The rules are derived from the declarations of each controller, policy and plugin.
    """
    from volcanoio.compose.rbac import render
    from volcanoio.runtime.loading.mounted_files import MountError
    from volcanoio.runtime.loading.registry import PluginError, discover

    try:
        registry = discover(plugins_dirs=plugins_dir, policies_dirs=policies_dir, controllers_dirs=controllers_dir)
        print(render(component, registry), end="")
    except (PluginError, MountError) as error:
        raise UsageError(error) from None
    return ExitCode.OK


_KUBECONFIG = click.option(
    "--kubeconfig",
    type=PATH,
    help="The cluster; else $KUBECONFIG, else .volcanoio/kubeconfig of a local `volcanoio up`.",
)
_NODES = click.argument("nodes", metavar="NODE...", nargs=-1, required=True)


@click.group(short_help="Make simulated nodes fail, flap or drain.")
def node() -> None:
    """Make simulated nodes fail, flap or drain; `list` shows their state."""


def _on_cluster(prepare: Callable[..., Work]) -> Callable[..., None]:
    """Add --kubeconfig to a command, and run the coroutine that it returns with a client.

    Without --kubeconfig and $KUBECONFIG the local cluster is used, never that of ~/.kube/config.
    """

    @_KUBECONFIG
    @wraps(prepare)
    def run(kubeconfig: Path | None, **given: Any) -> None:
        from volcanoio.cli.connection import LOCAL, connected

        work = prepare(**given)

        async def call() -> None:
            async with connected(kubeconfig or (None if os.environ.get("KUBECONFIG") else LOCAL)) as client:
                await work(client)

        anyio.run(call)

    return run


@node.command("list")
@_on_cluster
def list_nodes() -> Work:
    """List the simulated nodes and their planned failures."""
    from volcanoio.cli import nodes as work

    return work.show


@node.command(short_help="Make nodes stop reporting; their pods keep running.")
@_NODES
@click.option("--for", "lasting", metavar="DURATION", help="Recover after this time, such as 5m.")
@_on_cluster
def fail(nodes: tuple[str, ...], lasting: str | None) -> Work:
    """Make nodes stop reporting: their pods keep running, but neither sends any status."""
    from volcanoio.cli import nodes as work

    return partial(work.annotate, wanted=nodes, annotations=work.failure_annotations(lasting), done="fails")


@node.command()
@_NODES
@_on_cluster
def recover(nodes: tuple[str, ...]) -> Work:
    """Recover nodes that failed or flap."""
    from volcanoio.cli import nodes as work

    return partial(work.annotate, wanted=nodes, annotations=work.RECOVERY_ANNOTATIONS, done="recovers")


@node.command()
@_NODES
@click.option("--every", required=True, metavar="DURATION", help="Time between the starts of two failures, such as 2m.")
@click.option("--for", "down", metavar="DURATION", help="Duration of each failure; by default half of --every.")
@_on_cluster
def flap(nodes: tuple[str, ...], every: str, down: str | None) -> Work:
    """Make nodes fail and recover repeatedly, until `recover`."""
    from volcanoio.cli import nodes as work

    return partial(work.annotate, wanted=nodes, annotations=work.flap_annotations(every, down), done="flaps")


@node.command()
@_NODES
@_on_cluster
def drain(nodes: tuple[str, ...]) -> Work:
    """Cordon nodes and evict their pods, as disruption budgets allow."""
    from volcanoio.cli import nodes as work

    return partial(work.annotate, wanted=nodes, annotations=work.DRAIN_ANNOTATIONS, done="drains")


@node.command()
@_NODES
@_on_cluster
def uncordon(nodes: tuple[str, ...]) -> Work:
    """Allow pods to be scheduled on nodes again."""
    from volcanoio.cli import nodes as work

    return partial(work.uncordon, wanted=nodes)


_CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True}


_SECTIONS = {
    "Look at a cluster": "jobs job queues nodes pods logs events watch wait top web",
    "Submit jobs and act on them": "run submit suspend resume restart cancel queue",
    "Explain and try out": "why eta timeline history simulate replay snapshot",
    "Run a local cluster": "up demo node",
    "Set up and extend": "doctor install uninstall config plugin completion",
    "Components": "scheduler controllers webhooks hollow-nodes",
}
"""Sections of `volcanoio --help` and the commands in them; others are listed at the end."""


class _Root(ReportsErrors, click.Group):
    """The command group; its help lists the commands by section."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the sections."""
        sections = {title: names.split() for title, names in _SECTIONS.items()}
        listed = {name for names in sections.values() for name in names}
        sections["Other commands"] = sorted(set(self.commands) - listed)
        width = max(map(len, self.commands))
        for title, names in sections.items():
            with formatter.section(title):
                limit = formatter.width - 6 - width
                found = [name for name in names if name in self.commands]
                formatter.write_dl(
                    [(f"{name:<{width}}", self.commands[name].get_short_help_str(limit)) for name in found]
                )


@click.group(cls=_Root, context_settings=_CONTEXT)
@click.version_option(__version__, message="volcanoio %(version)s")
def volcanoio() -> None:
    """Volcano, the Kubernetes batch system, in one process: no cluster needed."""


@volcanoio.command()
def version() -> None:
    """Print the version."""
    print(f"volcanoio {__version__}")


_CLUSTER_OPTIONS = (
    click.option("--nodes", type=click.IntRange(min=1), default=4, help="Number of simulated nodes."),
    click.option(
        "--speed",
        type=Speed(),
        metavar="NUMBER|max",
        default="1",
        help="Speed of the cluster's time: a number, or max to skip every wait.",
    ),
    flags("demo"),
    click.option("--strict-admission", is_flag=True, help="Reject what Volcano's newest admission rejects."),
    click.option("-v", "--verbose", count=True, show_default=False, help="Log more; twice for debugging."),
)


_cluster_options = options(*_CLUSTER_OPTIONS)


@volcanoio.command(short_help="Run a whole cluster in this process until Ctrl-C.")
@_cluster_options
@flags("up", only=SCHEDULING)
@click.option("--data", type=PATH, default=Path(".volcanoio"), help="Data directory.")
@click.option("--memory", is_flag=True, help="Keep objects in memory only; --data then contains only the kubeconfig.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port on 127.0.0.1; 0 uses that of the last start if it is free, else any free one.",
)
@click.option("--web/--no-web", default=True, help="Serve the web page on 127.0.0.1.")
@click.option(
    "--web-port", type=click.IntRange(0, 65535), default=8088, help="Port of the web page; any other if it is in use."
)
@click.option("--run", is_flag=True, help="Run the pods' commands as processes on this machine.")
@click.option(
    "--run-image",
    multiple=True,
    metavar="IMAGE=COMMAND",
    help="With --run: command for an image whose container has none.",
)
def up(data: Path, memory: bool, port: int, verbose: int, **given: Any) -> int:
    """Run a whole cluster in this process until Ctrl-C: API server, nodes, controllers, scheduler, admission."""
    from volcanoio.cli.serving import run_up

    return run_up(data=data, memory=memory, port=port, verbose=verbose, **given)


@volcanoio.command(short_help="Run the example jobs and show them live.")
@_cluster_options
@click.option("--examples", type=PATH, help="Directory of manifests to run instead of the examples.")
@click.option("--timeout", type=click.FloatRange(min=1), default=120.0, help="Give up after this many seconds.")
def demo(examples: Path | None, timeout: float, verbose: int, **given: Any) -> int:
    """Run the example jobs on an embedded cluster and show them live."""
    from volcanoio.cli.demo import run_demo

    return run_demo(examples=examples, timeout=timeout, verbose=verbose, **given)


@volcanoio.command(
    "hollow-nodes", cls=ComponentCommand, context_settings=_CONTEXT, short_help="Serve simulated nodes to any cluster."
)
@flags("hollow-nodes")
@version_flag
def hollow_nodes(**given: Any) -> int:
    """Serve simulated nodes to any cluster until Ctrl-C: pods bound to them start, run and end as in `volcanoio up`."""
    from volcanoio.cli.serving import run_hollow_nodes

    return run_hollow_nodes(**given)


@volcanoio.command("web", short_help="Serve the web page of a cluster until Ctrl-C.")
@click.option("--kubeconfig", type=PATH, help="The cluster; else $KUBECONFIG, ~/.kube/config, a local cluster's.")
@click.option("--address", default="127.0.0.1", help="Address to listen on; others than loopback need --auth=token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8088, help="Port; 0 uses any free one.")
@click.option(
    "--auth",
    type=click.Choice(["kubeconfig", "token"]),
    default="kubeconfig",
    help="With whose rights the page acts: those of the kubeconfig's user, or of each viewer's own bearer token.",
)
@click.option(
    "--allowed-host",
    "hosts",
    multiple=True,
    help="Host name under which the page may be opened; all with --auth=token.",
)
@click.option("--tls-cert-file", type=PATH, help="Certificate; without one the page is served by HTTP.")
@click.option("--tls-private-key-file", type=PATH, help="Key of the certificate.")
@click.option("--journal", type=PATH, help="Journal of the scheduler (--journal), for the page of the past.")
@click.option("--conf", "conf", type=INPUT, help="The scheduler's configuration, for `why`; else the cluster's.")
@click.option("-v", "--verbose", count=True, show_default=False, help="Log more; twice for debugging.")
def web_page(**given: Any) -> int:
    """Serve the web page of a cluster until Ctrl-C: overview, jobs, queues, nodes, the past.

    It shows and does what the user may. On loopback that is the user of the kubeconfig, and the printed link contains a
    key. With --auth=token each viewer signs in with a token of the cluster (or a proxy adds it), and this process has
    no rights.
    """
    from volcanoio.cli.serving import run_web

    return run_web(**given)


_NAMESPACE = click.option("--namespace", "-n", default="volcano-system", help="Namespace of the components.")
_CLUSTER_KUBECONFIG = click.option(
    "--kubeconfig", type=PATH, help="The cluster; else $KUBECONFIG, ~/.kube/config, a local cluster's."
)


@volcanoio.command("install", short_help="Install the components in a cluster, or print their manifests.")
@_CLUSTER_KUBECONFIG
@click.option("--render", "only_render", is_flag=True, help="Print the manifests; change nothing.")
@_NAMESPACE
@click.option("--image", help="Image of all components, as REGISTRY/NAME:TAG; by default that of this version.")
@click.option("--replicas", type=click.IntRange(min=1), help="Replicas of each component; by default 2.")
@click.option("--skip-crds", is_flag=True, help="Leave CustomResourceDefinitions out.")
@click.option("--only-crds", is_flag=True, help="Install nothing else, as before an upgrade with Helm.")
def install(kubeconfig: Path | None, **given: Any) -> None:
    """Install scheduler, controllers and admission in a cluster, by server-side apply.

    CustomResourceDefinitions that the cluster has already are replaced only if no field and no version is lost. Run it
    again to upgrade. Options beyond these are in the Helm chart, config/helm/volcanoio.
    """
    from volcanoio.cli.installing import run_install

    run_install(kubeconfig, **given)


@volcanoio.command("uninstall", short_help="Remove what `install` made.")
@_CLUSTER_KUBECONFIG
@_NAMESPACE
@click.option("--purge-crds", is_flag=True, help="Delete all Jobs, Queues and so on too. Their pods stay.")
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask before --purge-crds.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=120.0, help="Longest time for things to end, in seconds."
)
def uninstall(kubeconfig: Path | None, **given: Any) -> None:
    """Remove what `install` made: webhooks first, then the components, their leases, certificates and rights.

    Jobs, Queues and other objects stay, and pods keep running.
    """
    from volcanoio.cli.installing import run_uninstall

    run_uninstall(kubeconfig, **given)


@volcanoio.command(cls=ComponentCommand, context_settings=_CONTEXT, short_help="Run the scheduler of a cluster.")
@flags("scheduler")
@version_flag
def scheduler(**given: Any) -> int:
    """Run the scheduler of a cluster until SIGTERM: place the pods that have its schedulerName."""
    from volcanoio.cli.components import run_scheduler

    return run_scheduler(**given)


@volcanoio.command(cls=ComponentCommand, context_settings=_CONTEXT, short_help="Run the controllers of a cluster.")
@flags("controllers")
@version_flag
def controllers(**given: Any) -> int:
    """Run the controllers of a cluster until SIGTERM: jobs, PodGroups, queues, flows, cron and garbage."""
    from volcanoio.cli.components import run_controllers

    return run_controllers(**given)


@volcanoio.command(cls=ComponentCommand, context_settings=_CONTEXT, short_help="Run the admission of a cluster.")
@flags("webhooks")
@version_flag
def webhooks(**given: Any) -> int:
    """Run the admission webhooks of a cluster until SIGTERM, with their certificates and configurations."""
    from volcanoio.cli.components import run_webhooks

    return run_webhooks(**given)


for command in (*LOOK_COMMANDS, *ACT_COMMANDS):
    volcanoio.add_command(command)
for command in CONFIG_COMMANDS:
    config.add_command(command)
volcanoio.add_command(help_command)
volcanoio.add_command(node)
volcanoio.add_command(config)
volcanoio.add_command(plugin)
volcanoio.add_command(simulate)
volcanoio.add_command(why)
volcanoio.add_command(eta)
volcanoio.add_command(history)
volcanoio.add_command(snapshot)
volcanoio.add_command(replay)
volcanoio.add_command(timeline)


def main() -> None:
    """Run the command."""
    replace_unencodable()
    volcanoio(prog_name="volcanoio")


def vc_scheduler() -> None:
    """Run `volcanoio scheduler` under Volcano's name."""
    scheduler.main(prog_name="vc-scheduler")


def vc_controller_manager() -> None:
    """Run `volcanoio controllers` under Volcano's name."""
    controllers.main(prog_name="vc-controller-manager")


def vc_webhook_manager() -> None:
    """Run `volcanoio webhooks` under Volcano's name."""
    webhooks.main(prog_name="vc-webhook-manager")


def kubectl_volcano() -> None:
    """Run volcanoio as a plugin of kubectl."""
    replace_unencodable()
    volcanoio.main(prog_name=PLUGIN)


def kubectl_complete_volcano() -> None:
    """Print completions of the plugin for kubectl."""
    print_for_kubectl(volcanoio, sys.argv[1:])
