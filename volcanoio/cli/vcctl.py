"""`vcctl`: Volcano's command line, with the same flags (volcano-sh/volcano cmd/cli).

Errors are printed to stdout as `Failed to <command>: <reason>` with exit code 255, as scripts around vcctl expect. In
`queue` commands `-n` is the name of the queue; in `job` commands `-N` is the name of the job and `-n` the namespace.
Only click declarations are here; the commands are implemented in `jobs`, `queues` and `flows`, imported when they run.
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import click

from volcanoio import __version__
from volcanoio.cli.terminal import help_command, replace_unencodable

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
    """Run a command's body with a client; failures are printed as `Failed to <path>`, with exit code 255."""
    from volcanoio.cli.connection import connected
    from volcanoio.cli.terminal import CommandError, sole_error

    async def call() -> None:
        async with connected(kubeconfig, master) as client:
            await body(client, *args)

    try:
        anyio.run(call)
    except (CommandError, BaseExceptionGroup) as error:
        if not isinstance(cause := sole_error(error), CommandError):
            raise
        print(f"Failed to {path}: {cause}")
        sys.exit(FAILURE)


_name = click.option("--name", "-N", default="", help="Name of the object.")
_namespace = click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the object.")
_file = click.option("--file", "-f", type=click.Path(path_type=Path, readable=False), help="YAML file of objects.")
_form = click.option(
    "--format",
    "--output",
    "-o",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Format.",
)


@click.group(cls=Group)
def jobflow() -> None:
    """Create, list, get, describe and delete job flows."""


@click.group(cls=Group)
def jobtemplate() -> None:
    """Create, list, get, describe and delete job templates."""


def _add_commands(group: click.Group, word: str, title: str) -> None:
    """Give a group its commands; `word` is the kind's in flows.KINDS, `title` what help calls it."""

    @group.command("create", help=f"Create {title}s from a file.")
    @_file
    @cluster_flags
    def create(file: Path | None, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"create {word}", kubeconfig, master, flows.create, word, file)

    @group.command("list", help=f"List {title}s.")
    @_namespace
    @click.option("--all-namespaces", "-A", is_flag=True, help="List those of all namespaces.")
    @cluster_flags
    def listed(namespace: str, all_namespaces: bool, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        where = "" if all_namespaces else namespace
        run_with_client(f"list {word}", kubeconfig, master, flows.show_all, word, where)

    @group.command("get", help=f"Show one {title}.")
    @_name
    @_namespace
    @cluster_flags
    def get(name: str, namespace: str, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"get {word}", kubeconfig, master, flows.show, word, namespace, name)

    @group.command("describe", help=f"Print one {title}, or all of a namespace, whole.")
    @_name
    @_namespace
    @_form
    @cluster_flags
    def describe(name: str, namespace: str, form: str, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"describe {word}", kubeconfig, master, flows.describe, word, namespace, name, form)

    @group.command("delete", help=f"Delete one {title}, or those of a file.")
    @_name
    @_namespace
    @_file
    @cluster_flags
    def delete(name: str, namespace: str, file: Path | None, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"delete {word}", kubeconfig, master, flows.delete, word, namespace, name, file)


_add_commands(jobflow, "jobflow", "job flow")
_add_commands(jobtemplate, "jobtemplate", "job template")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def vcctl() -> None:
    """Run and look at Volcano jobs, pods, queues, job flows and job templates."""


@vcctl.command()
def version() -> None:
    """Print the version."""
    print(f"volcanoio {__version__}")


@vcctl.group(cls=Group)
def job() -> None:
    """Run, list, view, suspend, resume and delete jobs."""


@vcctl.group(cls=Group)
def queue() -> None:
    """Create, list, get, operate and delete queues."""


@vcctl.group(cls=Group)
def pod() -> None:
    """List pods."""


@pod.command("list")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace to list.")
@click.option("--all-namespaces", "-A", is_flag=True, help="List the pods of all namespaces.")
@click.option("--job", "-j", "job_name", default="", help="Only pods of this job.")
@click.option("--queue", "-q", default="", help="Only pods of this queue.")
@cluster_flags
def pod_list(  # noqa: PLR0913 - click passes each flag as a parameter
    namespace: str, all_namespaces: bool, job_name: str, queue: str, kubeconfig: Path | None, master: str
) -> None:
    """List pods."""
    from volcanoio.cli import jobs

    where = "" if all_namespaces else namespace
    run_with_client("list pod", kubeconfig, master, jobs.list_pods, where, job_name, queue)


@job.command("run")
@click.option("--name", "-N", default="", help="Name of the job.")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the job.")
@click.option("--image", "-i", default="busybox", show_default=True, help="Container image.")
@click.option("--min", "-m", "minimum", type=int, default=1, show_default=True, help="Pods that must run together.")
@click.option("--replicas", "-r", type=int, default=1, show_default=True, help="Number of pods.")
@click.option("--requests", "-R", default="cpu=1000m,memory=100Mi", show_default=True, help="Requests of a pod.")
@click.option("--limits", "-L", default="cpu=1000m,memory=100Mi", show_default=True, help="Limits of a pod.")
@click.option("--scheduler", "-S", default="volcano", show_default=True, help="Scheduler of the job.")
@click.option("--filename", "-f", type=click.Path(path_type=Path, readable=False), help="YAML file of the job.")
@cluster_flags
def job_run(  # noqa: PLR0913 - click passes each flag as a parameter
    name: str,
    namespace: str,
    image: str,
    minimum: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    filename: Path | None,
    kubeconfig: Path | None,
    master: str,
) -> None:
    """Run a job from flags or from a file."""
    from volcanoio.cli import jobs

    shape = jobs.JobFlags(name, namespace, image, minimum, replicas, requests, limits, scheduler)
    run_with_client("run job", kubeconfig, master, jobs.run, shape, filename)


@job.command("list")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace to list.")
@click.option("--all-namespaces", "-A", is_flag=True, help="List the jobs of all namespaces.")
@click.option("--queue", "-q", default="", help="Only jobs of this queue.")
@click.option("--scheduler", "-S", default="", help="Only jobs of this scheduler.")
@click.option("--selector", default="", help="Only jobs whose name contains this.")
@cluster_flags
def job_list(  # noqa: PLR0913 - click passes each flag as a parameter
    namespace: str,
    all_namespaces: bool,
    queue: str,
    scheduler: str,
    selector: str,
    kubeconfig: Path | None,
    master: str,
) -> None:
    """List jobs."""
    from volcanoio.cli import jobs

    where = "" if all_namespaces else namespace
    run_with_client("list job", kubeconfig, master, jobs.list_jobs, where, queue, scheduler, selector)


def _named_job(verb: str, summary: str) -> None:
    @click.option("--name", "-N", default="", help="Name of the job.")
    @click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the job.")
    @cluster_flags
    def command(name: str, namespace: str, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import jobs

        bodies = {"view": jobs.view_job, "suspend": jobs.suspend, "resume": jobs.resume, "delete": jobs.delete}
        run_with_client(f"{verb} job", kubeconfig, master, bodies[verb], namespace, name)

    job.command(verb, help=summary)(command)


for _verb, _summary in {
    "view": "Show a job, its tasks, conditions and events.",
    "suspend": "Abort a job, keeping it for resume.",
    "resume": "Resume an aborted job.",
    "delete": "Delete a job.",
}.items():
    _named_job(_verb, _summary)


@queue.command("create")
@click.option("--name", "-n", default="test", show_default=True, help="Name of the queue.")
@click.option("--weight", "-w", type=int, default=1, show_default=True, help="Weight of the queue.")
@click.option("--state", "-S", default="Open", show_default=True, help="Accepted for compatibility; queues open.")
@cluster_flags
def queue_create(name: str, weight: int, state: str, kubeconfig: Path | None, master: str) -> None:
    """Create a queue."""
    from volcanoio.cli import queues

    run_with_client("create queue", kubeconfig, master, queues.create, name, weight, state)


@queue.command("list")
@cluster_flags
def queue_list(kubeconfig: Path | None, master: str) -> None:
    """List queues."""
    from volcanoio.cli import queues

    run_with_client("list queue", kubeconfig, master, queues.show, "")


@queue.command("get")
@click.option("--name", "-n", required=True, help="Name of the queue.")
@cluster_flags
def queue_get(name: str, kubeconfig: Path | None, master: str) -> None:
    """Show one queue."""
    from volcanoio.cli import queues

    run_with_client("get queue", kubeconfig, master, queues.show, name)


@queue.command("operate")
@click.option("--name", "-n", required=True, help="Name of the queue.")
@click.option("--action", "-a", required=True, help="open, close or update.")
@click.option("--weight", "-w", type=int, default=0, help="New weight, with update.")
@cluster_flags
def queue_operate(name: str, action: str, weight: int, kubeconfig: Path | None, master: str) -> None:
    """Open or close a queue, or change its weight."""
    from volcanoio.cli import queues

    run_with_client("operate queue", kubeconfig, master, queues.operate, name, action, weight)


@queue.command("delete")
@click.option("--name", "-n", required=True, help="Name of the queue.")
@cluster_flags
def queue_delete(name: str, kubeconfig: Path | None, master: str) -> None:
    """Delete a queue."""
    from volcanoio.cli import queues

    run_with_client("delete queue", kubeconfig, master, queues.delete, name)


vcctl.add_command(help_command)
vcctl.add_command(jobflow)
vcctl.add_command(jobtemplate)


def main() -> None:
    """Entry point."""
    replace_unencodable()
    vcctl()
