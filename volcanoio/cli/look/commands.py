"""Declarations of the commands that read a cluster; each imports its implementation when it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from volcanoio.cli.completion import names_of
from volcanoio.cli.output import Duration, on_cluster, output_choice, output_option, selector_options, watch_option
from volcanoio.cli.terminal import UsageError

if TYPE_CHECKING:
    from volcanoio.cli.connection import Cluster

_JOB = click.argument("job", metavar="JOB", shell_complete=names_of("job"))


def _listing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add -l, --field-selector, -o and -w, and pass them as one argument `wanted`."""

    @selector_options
    @output_option
    @watch_option
    @wraps(command)
    def run(
        output: str, watch: bool, selector: str, field_selector: str, names: tuple[str, ...] = (), **given: Any
    ) -> Any:
        from volcanoio.cli.look.listing import Wanted

        return command(wanted=Wanted(output, watch, selector, field_selector, names), **given)

    return run


_names = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.command(short_help="List jobs: phase, gang, pods, and nodes or why they wait.")
@_names
@click.option("-q", "--queue", default="", show_default=False, metavar="NAME", help="Only jobs in this queue.")
@click.option(
    "--phase", default="", show_default=False, metavar="PHASE", help="Only jobs in this phase, such as Pending."
)
@click.option("--owner", default="", show_default=False, metavar="USER", help="Only jobs of this owner.")
@click.option("--mine", is_flag=True, help="Only jobs that you created.")
@_listing
@on_cluster(everywhere=True)
async def jobs(cluster: Cluster, wanted: Any, owner: str, mine: bool, **given: str) -> None:
    """List jobs, all or those of these names.

    OWNER is who created the job, if the admission saw it. GANG is running and succeeded pods of the minimum; R/P/S/F
    are running, pending, succeeded and failed pods. The last column has the nodes of running pods, and in parentheses
    the code of the reason why pods wait or the job ended.
    """
    from volcanoio.cli.look.listing import list_jobs
    from volcanoio.kube.credentials.reviews import own_name

    if owner and mine:
        raise UsageError("--owner and --mine: give one of them")
    owner = await own_name(cluster.client.transport) if mine else owner
    await list_jobs(cluster, wanted, owner=owner, **given)


@click.command(short_help="Show one job: tasks, pods, reasons and events.")
@_JOB
@output_choice("json", "yaml", "name", default="text")
@on_cluster()
async def job(cluster: Cluster, job: str, output: str) -> None:
    """Show JOB: its tasks, pods, reasons and latest events."""
    from volcanoio.cli.look.describing import show_job

    await show_job(cluster, job, output)


@click.command(short_help="List queues: state, shares and jobs.")
@_names
@click.option("--tree", is_flag=True, help="Show child queues below their parents.")
@_listing
@on_cluster(namespaced=False)
async def queues(cluster: Cluster, wanted: Any, tree: bool) -> None:
    """List queues, all or those of these names.

    Amounts are used/deserved/capability, - where none is set. In the bar, # is used, | the deserved amount and g the
    guarantee; its end is the capability, or all nodes. SHARE is the largest used part of the deserved amount of a
    resource; without any, of the capability, or of the cluster. RUN, PEND and INQ are PodGroups by phase.
    """
    from volcanoio.cli.look.listing import list_queues

    await list_queues(cluster, wanted, tree=tree)


@click.command(short_help="List nodes: status, and what their pods request.")
@_names
@click.option("-s", "--summarize", is_flag=True, help="One row for all nodes of equal status and size.")
@_listing
@on_cluster(namespaced=False)
async def nodes(cluster: Cluster, wanted: Any, summarize: bool) -> None:
    """List nodes, all or those of these names.

    Amounts are what pods on the node request, of what is allocatable. For simulated nodes that fail, see `volcanoio
    node`.
    """
    from volcanoio.cli.look.listing import list_nodes

    await list_nodes(cluster, wanted, summary=summarize)


@click.command(short_help="List pods, all or those of a job.")
@click.argument("job", metavar="[JOB]", required=False, shell_complete=names_of("job"))
@_listing
@on_cluster(everywhere=True)
async def pods(cluster: Cluster, wanted: Any, job: str | None) -> None:
    """List pods, all or those of JOB, by task and index."""
    from volcanoio.cli.look.listing import list_pods

    await list_pods(cluster, wanted, job)


@click.command(short_help="List events, all or those about a job.")
@click.argument("job", metavar="[JOB]", required=False, shell_complete=names_of("job"))
@click.option("--since", type=Duration(), metavar="DURATION", help="Only events of this time, such as 10m.")
@click.option("-f", "--follow", is_flag=True, help="The same as --watch.")
@_listing
@on_cluster(everywhere=True)
async def events(cluster: Cluster, wanted: Any, job: str | None, since: float | None, follow: bool) -> None:
    """List events, the latest last: all, or those about JOB, its PodGroup and its pods."""
    from volcanoio.cli.look.listing import list_events

    await list_events(cluster, wanted._replace(watch=wanted.watch or follow), job, since)


@click.command(short_help="Print the logs of a job, a task or one pod.")
@click.argument("target", metavar="JOB[/TASK[/INDEX]]", shell_complete=names_of("job"))
@click.option("-f", "--follow", is_flag=True, help="Print new lines, also of pods that start later, until it ends.")
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines of each pod.")
@click.option("--since", type=Duration(), metavar="DURATION", help="Only lines of this time, such as 10m.")
@click.option(
    "-c",
    "--container",
    default="",
    show_default=False,
    metavar="NAME",
    help="Container; by default the first one of each pod.",
)
@click.option("-p", "--previous", is_flag=True, help="Logs of the container before its last restart.")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@click.option("--prefix/--no-prefix", default=None, help="Begin each line with its pod; by default for several pods.")
@click.option(
    "--max-log-requests", type=click.IntRange(min=1), default=50, help="Pods that may be followed at the same time."
)
@on_cluster()
async def logs(cluster: Cluster, target: str, **given: Any) -> None:
    """Print the logs of all pods of a job, of one task of it, or of the pod with that index."""
    from volcanoio.cli.look.logs import LogOptions, print_logs

    await print_logs(cluster, target, LogOptions(**given))


_TIMEOUT = click.option(
    "--timeout", type=Duration(), metavar="DURATION", help="Give up after this time, with exit code 4."
)


@click.command(short_help="Show a job live until it ends; exit with its result.")
@_JOB
@_TIMEOUT
@on_cluster()
async def watch(cluster: Cluster, job: str, timeout: float | None) -> int:  # noqa: ASYNC109 - the user's
    """Show JOB live until it ends. The exit code is 0 if it completed, 1 if it ended otherwise.

    On a terminal its gang and tasks are drawn in place, elsewhere each change is a line. Ctrl-C ends the display; the
    job runs on.
    """
    from volcanoio.cli.look.waiting import watch_job

    return await watch_job(cluster, job, timeout)


@click.command(short_help="Wait until jobs have reached a phase.")
@click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=names_of("job"))
@click.option("-l", "--selector", default="", show_default=False, metavar="LABELS", help="Jobs with these labels.")
@click.option(
    "--for",
    "wanted",
    default="Completed",
    metavar="PHASE|phase=PHASE|condition=PHASE|delete",
    help="PHASE or condition=PHASE: it is or was in that phase; phase=PHASE: it is.",
)
@_TIMEOUT
@on_cluster()
async def wait(
    cluster: Cluster,
    jobs: tuple[str, ...],
    selector: str,
    wanted: str,
    timeout: float | None,  # noqa: ASYNC109 - the user's
) -> int:
    """Wait until each JOB has reached a phase, by default Completed.

    The exit code is 0 if all have, 1 if one ended otherwise, and 4 after --timeout. Without --timeout it waits for as
    long as it takes.
    """
    from volcanoio.cli.look.waiting import wait_for_jobs

    return await wait_for_jobs(cluster, jobs, selector, wanted, timeout)


@click.command(short_help="Show jobs, queues and nodes live on the whole screen.")
@on_cluster(everywhere=True)
async def top(cluster: Cluster) -> None:
    """Show jobs, queues, nodes and pods live on the whole screen.

    Keys: 1 to 4 choose a table, / filters it, w shows why the selected job waits, l its logs, d its description; Esc
    goes back, q quits. Needs the package textual: pip install 'volcanoio[tui]'
    """
    try:
        from volcanoio.cli.look.top import run_top
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        raise UsageError(
            "top needs the package textual, which is not installed; run: pip install 'volcanoio[tui]'"
        ) from None
    await run_top(cluster)


LOOK_COMMANDS: tuple[click.Command, ...] = (jobs, job, queues, nodes, pods, logs, events, watch, wait, top)
"""All of them, in the order of `volcanoio --help`."""
