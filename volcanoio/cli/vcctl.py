"""`vcctl`: Volcano's command line, with the same flags (volcano-sh/volcano cmd/cli).

Errors are printed to stdout as `Failed to <command>: <reason>` with exit code 255, as scripts around vcctl expect. In
`queue` commands `-n` is the name of the queue; in `job` commands `-N` is the name of the job and `-n` the namespace.
Only click declarations are here; the commands are implemented in `jobs`, `queues` and `flows`, imported when they run.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

from volcanoio import __version__
from volcanoio.cli.terminal import help_command, replace_unencodable

if TYPE_CHECKING:
    from volcanoio.kube.client import Client

FAILURE = 255
_PATH = click.Path(path_type=Path, readable=False)


def _log_flags() -> list[click.Parameter]:
    """Accept Volcano's logging flags, which scripts pass to every command; they have no effect."""
    return [
        click.Option(names, expose_value=False, hidden=True)
        for names in (["--v", "-v"], ["--vmodule"], ["--log-flush-frequency"])
    ]


class Command(click.Command):
    """A command that accepts Volcano's logging flags."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _log_flags()


class Group(click.Group):
    """A group that accepts Volcano's logging flags, and whose commands fail like Volcano's."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _log_flags()

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as click does, with Volcano's exit codes and errors on stdout."""
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


def _on_cluster(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Add the flags that select a cluster to a command, and run it with a client.

    Failures are printed as `Failed to <command>`, such as `list job`, with exit code 255.
    """

    @click.option("--master", "-s", default="", help="Address of the API server, overriding the kubeconfig.")
    @click.option("--kubeconfig", "-k", type=_PATH, help="Path of the kubeconfig.")
    @wraps(body)
    def run(kubeconfig: Path | None, master: str, **given: Any) -> None:
        from volcanoio.cli.connection import connected
        from volcanoio.cli.terminal import CommandError, sole_error

        async def call() -> None:
            async with connected(kubeconfig, master) as client:
                await body(client, **given)

        try:
            anyio.run(call)
        except (CommandError, BaseExceptionGroup) as error:
            if not isinstance(cause := sole_error(error), CommandError):
                raise
            group, command = click.get_current_context().command_path.split()[-2:]
            print(f"Failed to {command} {group}: {cause}")
            sys.exit(FAILURE)

    return run


_name = click.option("--name", "-N", default="", help="Name of the object.")
_namespace = click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the object.")
_file = click.option("--file", "-f", type=_PATH, help="YAML file of objects.")
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
    """Add the commands to a group; `word` is the kind's key in flows.KINDS, `title` its name in help texts."""

    @group.command("create", help=f"Create {title}s from a file.")
    @_file
    @_on_cluster
    async def create(client: Client, file: Path | None) -> None:
        from volcanoio.cli import flows

        await flows.create(client, word, file)

    @group.command("list", help=f"List {title}s.")
    @_namespace
    @click.option("--all-namespaces", "-A", is_flag=True, help="List objects of all namespaces.")
    @_on_cluster
    async def listed(client: Client, namespace: str, all_namespaces: bool) -> None:
        from volcanoio.cli import flows

        await flows.show_all(client, word, "" if all_namespaces else namespace)

    @group.command("get", help=f"Show one {title}.")
    @_name
    @_namespace
    @_on_cluster
    async def get(client: Client, name: str, namespace: str) -> None:
        from volcanoio.cli import flows

        await flows.show(client, word, namespace, name)

    @group.command("describe", help=f"Print one {title}, or all of a namespace, with all fields.")
    @_name
    @_namespace
    @_form
    @_on_cluster
    async def describe(client: Client, name: str, namespace: str, form: str) -> None:
        from volcanoio.cli import flows

        await flows.describe(client, word, namespace, name, form)

    @group.command("delete", help=f"Delete one {title}, or those of a file.")
    @_name
    @_namespace
    @_file
    @_on_cluster
    async def delete(client: Client, name: str, namespace: str, file: Path | None) -> None:
        from volcanoio.cli import flows

        await flows.delete(client, word, namespace, name, file)


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
@_on_cluster
async def pod_list(client: Client, namespace: str, all_namespaces: bool, job_name: str, queue: str) -> None:
    """List pods."""
    from volcanoio.cli import jobs

    await jobs.list_pods(client, "" if all_namespaces else namespace, job_name, queue)


@job.command("run")
@click.option("--name", "-N", default="", help="Name of the job.")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the job.")
@click.option("--image", "-i", default="busybox", show_default=True, help="Container image.")
@click.option("--min", "-m", "minimum", type=int, default=1, show_default=True, help="Pods that must run together.")
@click.option("--replicas", "-r", type=int, default=1, show_default=True, help="Number of pods.")
@click.option("--requests", "-R", default="cpu=1000m,memory=100Mi", show_default=True, help="Requests of a pod.")
@click.option("--limits", "-L", default="cpu=1000m,memory=100Mi", show_default=True, help="Limits of a pod.")
@click.option("--scheduler", "-S", default="volcano", show_default=True, help="Scheduler of the job.")
@click.option("--filename", "-f", type=_PATH, help="YAML file of the job.")
@_on_cluster
async def job_run(client: Client, filename: Path | None, **flags: Any) -> None:
    """Run a job from flags or from a file."""
    from volcanoio.cli import jobs

    await jobs.run(client, jobs.JobFlags(**flags), filename)


@job.command("list")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace to list.")
@click.option("--all-namespaces", "-A", is_flag=True, help="List the jobs of all namespaces.")
@click.option("--queue", "-q", default="", help="Only jobs of this queue.")
@click.option("--scheduler", "-S", default="", help="Only jobs of this scheduler.")
@click.option("--selector", default="", help="Only jobs whose name contains this.")
@_on_cluster
async def job_list(client: Client, namespace: str, all_namespaces: bool, **filters: str) -> None:
    """List jobs."""
    from volcanoio.cli import jobs

    await jobs.list_jobs(client, "" if all_namespaces else namespace, **filters)


def _named_job(verb: str, summary: str) -> None:
    @click.option("--name", "-N", default="", help="Name of the job.")
    @click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the job.")
    @_on_cluster
    async def command(client: Client, name: str, namespace: str) -> None:
        from volcanoio.cli import jobs

        bodies = {"view": jobs.view_job, "suspend": jobs.suspend, "resume": jobs.resume, "delete": jobs.delete}
        await bodies[verb](client, namespace, name)

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
@_on_cluster
async def queue_create(client: Client, name: str, weight: int, state: str) -> None:
    """Create a queue."""
    from volcanoio.cli import queues

    await queues.create(client, name, weight, state)


@queue.command("list")
@_on_cluster
async def queue_list(client: Client) -> None:
    """List queues."""
    from volcanoio.cli import queues

    await queues.show(client, "")


@queue.command("get")
@click.option("--name", "-n", required=True, help="Name of the queue.")
@_on_cluster
async def queue_get(client: Client, name: str) -> None:
    """Show one queue."""
    from volcanoio.cli import queues

    await queues.show(client, name)


@queue.command("operate")
@click.option("--name", "-n", required=True, help="Name of the queue.")
@click.option("--action", "-a", required=True, help="open, close or update.")
@click.option("--weight", "-w", type=int, default=0, help="New weight, with update.")
@_on_cluster
async def queue_operate(client: Client, name: str, action: str, weight: int) -> None:
    """Open or close a queue, or change its weight."""
    from volcanoio.cli import queues

    await queues.operate(client, name, action, weight)


@queue.command("delete")
@click.option("--name", "-n", required=True, help="Name of the queue.")
@_on_cluster
async def queue_delete(client: Client, name: str) -> None:
    """Delete a queue."""
    from volcanoio.cli import queues

    await queues.delete(client, name)


vcctl.add_command(help_command)
vcctl.add_command(jobflow)
vcctl.add_command(jobtemplate)


def main() -> None:
    """Run the command."""
    replace_unencodable()
    vcctl()
