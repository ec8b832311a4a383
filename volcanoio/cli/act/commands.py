"""Declarations of the commands that change or check a cluster; each imports its implementation when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from volcanoio.cli.completion import completion, names_of
from volcanoio.cli.componentflags import options
from volcanoio.cli.output import Duration, on_cluster, output_choice
from volcanoio.cli.terminal import INPUT, PATH, Decorator, UsageError

if TYPE_CHECKING:
    from volcanoio.cli.connection import Cluster

_SOURCE = click.Path(readable=False, allow_dash=True)
_JOBS = click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=names_of("job"))
_QUEUES = click.argument("queues", metavar="QUEUE...", nargs=-1, required=True, shell_complete=names_of("queue"))


class Amounts(click.ParamType[dict[str, str | None]]):
    """Amounts by resource, as cpu=4,memory=8Gi; with `removable`, `cpu-` removes one: its amount is None."""

    name = "amounts"

    def __init__(self, *, removable: bool = False) -> None:
        self._removable = removable

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str | None]:
        """Return the amounts; fails with the rule."""
        from volcanoio.model import quantity

        if isinstance(value, dict):
            return value
        found: dict[str, str | None] = {}
        for part in filter(None, value.split(",")):
            name, equals, amount = part.partition("=")
            if self._removable and not equals and name.endswith("-"):
                found[name.removesuffix("-")] = None
                continue
            if not equals or not name:
                self.fail(f"{part!r} is not RESOURCE=AMOUNT; write for instance cpu=4,memory=8Gi", param, ctx)
            try:
                quantity.parse(amount)
            except quantity.QuantityError as error:
                self.fail(f"{name}: {error}", param, ctx)
            found[name] = amount
        return found


_JOB_OPTIONS = (
    click.option("--name", help="Name of the job; by default that of the image, with random digits."),
    click.option("--queue", "-q", shell_complete=names_of("queue"), help="Queue; by default that of the cluster."),
    click.option("--replicas", "-r", type=click.IntRange(min=1), help="Number of pods; by default 1."),
    click.option("--min-available", "-m", type=click.IntRange(min=0), help="Pods that start together; by default all."),
    click.option("--cpu", metavar="AMOUNT", help="CPUs that each pod requests, as 2 or 500m."),
    click.option("--memory", metavar="AMOUNT", help="Memory that each pod requests, as 4Gi."),
    click.option("--gpu", type=click.IntRange(min=1), help="GPUs of each pod (nvidia.com/gpu)."),
    click.option("--limits", type=Amounts(), metavar="AMOUNTS", help="What each pod may use at most, as memory=8Gi."),
    click.option("--resources", type=Amounts(), metavar="AMOUNTS", help="Other amounts, as huawei.com/npu=1."),
    click.option("--env", "-e", multiple=True, metavar="NAME[=VALUE]", help="Environment variable; may be repeated."),
    click.option(
        "--plugin", "plugins", multiple=True, metavar="NAME[=ARGS]", help="Job plugin, as pytorch; may be repeated."
    ),
    click.option("--array", metavar="INDICES", help="One pod per index: 0-9, 0-20:5 or 1,3,5-7."),
    click.option("--days", metavar="FIRST..LAST", help="One pod per day, in VC_SHARD: 2026-01-01..2026-01-31."),
    click.option(
        "--lifecycle", multiple=True, metavar="NAME[=ARGS]", help="Lifecycle policy, as oom_scale_up; may be repeated."
    ),
    click.option("--priority", metavar="NAME", help="PriorityClass."),
    click.option("--working-dir", metavar="DIR", help="Directory in which the command starts."),
    click.option("--running-estimate", metavar="DURATION", help="Expected run time, as 30m."),
)
_AFTER_OPTIONS = (
    click.option("--follow", is_flag=True, help="Print the logs until the job ends, and exit with its result."),
    click.option("--wait", is_flag=True, help="Wait until the job ends, and exit with its result."),
    click.option("--watch", is_flag=True, help="Show the job live until it ends, and exit with its result."),
    click.option("--timeout", type=Duration(), metavar="DURATION", help="Wait no longer than this; exit code 4 then."),
    click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        show_default=False,
        help="client: print the manifest, and send nothing; server: have it checked, and store nothing.",
    ),
    output_choice("json", "yaml", "name", default="text"),
)


def _submitting(command: Callable[..., Any]) -> Callable[..., int]:
    """Add the options for what happens with the jobs; the command returns the objects to submit.

    Without a cluster they are printed for --dry-run=client.
    """

    @on_cluster()
    async def send(cluster: Cluster, objects: Any, after: Any) -> int:
        from volcanoio.cli.act.submission import submit

        return await submit(cluster, objects, after)

    @options(*_AFTER_OPTIONS)
    @wraps(command)
    def run(**given: Any) -> int:
        from volcanoio.cli.act.submission import After, print_only
        from volcanoio.cli.connection import Target

        connection = {name: given.pop(name) for name in Target._fields if name in given}
        after = After(**{name: given.pop(name) for name in After._fields}).checked()
        objects = command(**given)
        if after.dry_run == "client":
            return print_only(objects, after.output)
        return send(objects=objects, after=after, **connection)

    parameters = vars(run)  # click reverses them: the help lists the options of the cluster last
    parameters["__click_params__"] = [*vars(send)["__click_params__"], *parameters["__click_params__"]]
    result: Callable[..., int] = run
    return result


@click.command(short_help="Run a command in an image as a job.", context_settings={"ignore_unknown_options": False})
@click.argument("image", metavar="[IMAGE]", required=False)
@click.argument("command", metavar="[-- COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
@click.option("-f", "--filename", type=INPUT, help="Run the Job in this file (- is stdin) instead.")
@options(*_JOB_OPTIONS)
@_submitting
def run(image: str | None, command: tuple[str, ...], filename: Path | None, **given: Any) -> Any:
    """Run COMMAND in IMAGE as a job: `volcanoio run python:3.12 --cpu 2 -- python -c 'print(1)'`.

    Without a COMMAND, that of the image runs. The job runs on when this command ends, unless one of --follow, --wait
    and --watch is given; Ctrl-C never ends the job. With --array, one job has a pod for each index: its number is in
    VC_TASK_INDEX, for indices that do not count from 0 in VC_SHARD; with --days the day is in VC_SHARD. Exit codes: 1
    the job failed, 3 it was rejected.
    """
    from volcanoio.cli.act import submission

    return submission.objects_of_run(image, command, filename, given)


@click.command(short_help="Submit jobs of files or scripts.")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=INPUT)
@click.option("-f", "--filename", "more", multiple=True, type=INPUT, help="The same as FILE; may be repeated.")
@click.option("--image", help="Image for scripts; goes before that in the script.")
@click.option("--queue", "-q", help="Queue for scripts; goes before that in the script.")
@_submitting
def submit(files: tuple[Path, ...], more: tuple[Path, ...], image: str | None, queue: str | None) -> Any:
    """Submit the jobs in each FILE (- is stdin): manifests with any number of objects, and scripts.

    A script begins with #!; lines `#VIO` in it have options of `volcanoio run`, such as `#VIO --image python:3.12 --cpu
    2`, and lines `#SBATCH` those of Slurm's sbatch, as far as they have a counterpart. The script is the command.
    """
    from volcanoio.cli.act import scripts, submission

    def options_of(words: Sequence[str]) -> dict[str, Any]:
        try:
            context = _header.make_context("#VIO", list(words))
        except click.UsageError as error:
            raise UsageError(f"#VIO: {error.format_message()}") from None
        return context.params

    if not files and not more:
        raise UsageError("give a file, such as: volcanoio submit job.yaml; - is stdin")
    given = {"image": image, "queue": queue}
    return submission.read_objects(
        (*files, *more), lambda text, source: scripts.script_job(text, source, options_of, given)
    )


@click.command(add_help_option=False)
@click.option("--image")
@options(*_JOB_OPTIONS)
def _header(**_: Any) -> None:
    """Parse the options in the header of a script."""


@click.command(short_help="Stop jobs and keep them, to be resumed.")
@_JOBS
@on_cluster()
async def suspend(cluster: Cluster, jobs: tuple[str, ...]) -> int:
    """Suspend each JOB: its pods are deleted, the job stays, as Aborted, and `resume` starts it again."""
    from volcanoio.cli.act import operations

    return await operations.command_jobs(cluster, jobs, operations.SUSPEND)


@click.command(short_help="Start suspended jobs again.")
@_JOBS
@on_cluster()
async def resume(cluster: Cluster, jobs: tuple[str, ...]) -> int:
    """Resume each JOB that was suspended: its pods are created again."""
    from volcanoio.cli.act import operations

    return await operations.command_jobs(cluster, jobs, operations.RESUME)


@click.command(short_help="Replace all pods of jobs by new ones.")
@_JOBS
@on_cluster()
async def restart(cluster: Cluster, jobs: tuple[str, ...]) -> int:
    """Restart each JOB: all its pods are replaced by new ones. This counts as a retry (spec.maxRetry)."""
    from volcanoio.cli.act import operations

    return await operations.command_jobs(cluster, jobs, operations.RESTART)


@click.command(short_help="Delete jobs with their pods, or end them.")
@_JOBS
@click.option("--keep", is_flag=True, help="Keep the job, as Terminated, and delete only its running pods.")
@on_cluster()
async def cancel(cluster: Cluster, jobs: tuple[str, ...], keep: bool) -> int:
    """Cancel each JOB: it is deleted with its pods, at once and without a question."""
    from volcanoio.cli.act import operations

    if keep:
        return await operations.command_jobs(cluster, jobs, operations.TERMINATE)
    return await operations.cancel_jobs(cluster, jobs)


@click.group(short_help="Create, change, open, close and delete queues.")
def queue() -> None:
    """Create, change, open, close and delete queues; `volcanoio queues` lists them."""


def _queue_fields(*, removable: bool) -> Decorator:
    amounts = Amounts(removable=removable)
    return options(
        click.option("--weight", type=click.IntRange(min=1), help="Share among its siblings."),
        click.option("--parent", metavar="QUEUE", help="Parent queue; without one, root."),
        click.option("--capability", type=amounts, metavar="AMOUNTS", help="The most that it may use."),
        click.option("--deserved", type=amounts, metavar="AMOUNTS", help="What it is entitled to."),
        click.option("--guarantee", type=amounts, metavar="AMOUNTS", help="What is reserved for it."),
        click.option("--priority", type=int, help="Priority among queues: higher ones come first."),
        click.option("--reclaimable/--no-reclaimable", default=None, help="Whether others may reclaim its surplus."),
    )


@queue.command("create", short_help="Create queues.")
@_QUEUES
@_queue_fields(removable=False)
@on_cluster(namespaced=False)
async def create_queue(cluster: Cluster, queues: tuple[str, ...], **given: Any) -> int:
    """Create each QUEUE. Amounts are written as cpu=4,memory=8Gi."""
    from volcanoio.cli.act import operations

    return await operations.create_queues(cluster, queues, given)


@queue.command("set", short_help="Change fields of queues.")
@_QUEUES
@_queue_fields(removable=True)
@on_cluster(namespaced=False)
async def set_queue(cluster: Cluster, queues: tuple[str, ...], **given: Any) -> int:
    """Change fields of each QUEUE.

    Of amounts, as cpu=4,memory=8Gi, only the resources that are named change; `memory-` removes that of memory.
    """
    from volcanoio.cli.act import operations

    return await operations.set_queues(cluster, queues, given)


@queue.command("open", short_help="Open queues for jobs.")
@_QUEUES
@on_cluster(namespaced=False)
async def open_queue(cluster: Cluster, queues: tuple[str, ...]) -> int:
    """Open each QUEUE: jobs may be submitted to it."""
    from volcanoio.cli.act import operations

    return await operations.command_queues(cluster, queues, operations.OPEN)


@queue.command("close", short_help="Close queues: no more jobs.")
@_QUEUES
@on_cluster(namespaced=False)
async def close_queue(cluster: Cluster, queues: tuple[str, ...]) -> int:
    """Close each QUEUE, and the queues below it: no job may be submitted; those that are there go on."""
    from volcanoio.cli.act import operations

    return await operations.command_queues(cluster, queues, operations.CLOSE)


@queue.command("delete", short_help="Delete queues.")
@_QUEUES
@on_cluster(namespaced=False)
async def delete_queue(cluster: Cluster, queues: tuple[str, ...]) -> int:
    """Delete each QUEUE, at once and without a question. Queues with child queues are refused."""
    from volcanoio.cli.act import operations

    return await operations.delete_queues(cluster, queues)


def _of_configurations(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about plugins and the cluster, and pass them as one argument `options`."""

    @click.option("--plugins-dir", type=PATH, multiple=True, help="Directory of scheduler plugins and actions.")
    @click.option("--ignore-unavailable-plugins", is_flag=True, help="Warn of plugins that are not available yet.")
    @click.option("--kubeconfig", type=PATH, help="The cluster; else $KUBECONFIG, ~/.kube/config, a local cluster's.")
    @wraps(command)
    def run(
        plugins_dir: tuple[Path, ...], ignore_unavailable_plugins: bool, kubeconfig: Path | None, **given: Any
    ) -> Any:
        from volcanoio.cli.act.configurations import Options

        return command(options=Options(plugins_dir, ignore_unavailable_plugins, kubeconfig), **given)

    return run


@click.command("show", short_help="Print a scheduler configuration with every default.")
@click.argument("source", metavar="[FILE|cluster|default]", type=_SOURCE, default="cluster")
@output_choice("json", default="yaml")
@_of_configurations
def show_configuration(source: str, output: str, options: Any) -> None:
    """Print what a scheduler configuration does: actions, plugins, their switches and arguments, defaults included.

    `cluster` is the configuration in the ConfigMap of the cluster's scheduler, `default` the one that is used without a
    file, - is stdin. What is printed is a configuration of the same effect. Passwords are left out.
    """
    from volcanoio.cli.act import configurations as work

    (found,) = work.effects((source,), options)
    work.show(found, output)


@click.command("diff", short_help="Show what differs in effect between two configurations.")
@click.argument("first", metavar="FILE|cluster|default", type=_SOURCE)
@click.argument("second", metavar="[FILE|cluster|default]", type=_SOURCE, default="cluster")
@output_choice("json", default="text")
@_of_configurations
def diff_configurations(first: str, second: str, output: str, options: Any) -> int:
    """Show what differs in effect between two scheduler configurations; the exit code is 1 if anything does.

    Comments, the order of keys, and defaults that are written out make no difference. The sources are those of `config
    show`. Lines begin with - for what only the first has, + for what only the second has, and ~ for changed values.
    """
    from volcanoio.cli.act import configurations as work

    before, after = work.effects((first, second), options)
    return work.show_differences(before, after, output)


CONFIG_COMMANDS: tuple[click.Command, ...] = (show_configuration, diff_configurations)
"""Commands of the group `config`."""


@click.command(short_help="Find what is wrong with an installation, and what to do.")
@click.option("--system-namespace", default="volcano-system", help="Namespace of the components.")
@click.option(
    "--scheduler-name", "schedulers", multiple=True, default=("volcano",), help="Name of a scheduler that exists."
)
@output_choice("json", default="text")
@on_cluster()
async def doctor(cluster: Cluster, output: str, system_namespace: str, schedulers: tuple[str, ...]) -> int:
    """Check a cluster: API server, definitions, components and their versions, leaders, admission and certificates,
    the scheduler's configuration, your rights, and pods and PodGroups that wait for what does not exist.

    Nothing is changed. Each finding has what to do about it; the exit code is 1 if there are errors.
    """
    from volcanoio.cli.doctor.checks import run_doctor

    return await run_doctor(cluster, output, system_namespace, schedulers)


ACT_COMMANDS: tuple[click.Command, ...] = (run, submit, suspend, resume, restart, cancel, queue, doctor, completion)
"""All of them, in the order of `volcanoio --help`."""
