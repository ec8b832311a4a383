"""`vcctl`: the tree of commands and their flags (volcano-sh/volcano cmd/cli).

In `queue` commands `-n` is the name of the queue; elsewhere `-N` is the name of the object and `-n` the namespace.
Help texts are Volcano's. Only click declarations are here; the implementations are imported when they run.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from volcanoio import __version__
from volcanoio.cli.terminal import PATH, Decorator, help_command, replace_unencodable
from volcanoio.cli.vcctl.cobra import INT32, Command, Group, on_cluster

if TYPE_CHECKING:
    from volcanoio.kube.client import Client

_HELP = "Help about any command"
_CONTEXT = {"help_option_names": ["-h", "--help"]}


def _named(of: str) -> Decorator:
    return click.option("--name", "-N", default="", help=f"the name of {of}")


def _in_namespace(of: str) -> Decorator:
    return click.option("--namespace", "-n", default="default", help=f"the namespace of {of}")


def _everywhere(of: str) -> Decorator:
    return click.option("--all-namespaces", "-A", is_flag=True, help=f"list {of} in all namespaces")


@click.group(cls=Group, context_settings=_CONTEXT)
def vcctl() -> None:  # noqa: D103 - Volcano's command has no description
    pass


@vcctl.command(help="Print the version information", epilog="vcctl version")
def version() -> None:  # noqa: D103 - the help is above, as for all commands here
    print("API Version: v1alpha1")
    print(f"Version: {__version__} (volcanoio)")
    print("Git SHA: Not provided.")
    print("Built At: Not provided.")
    print(f"Go Version: none (Python {platform.python_version()})")
    print(f"Go OS/Arch: {platform.system().lower()}/{platform.machine()}")


@vcctl.group(cls=Group, help="vcctl command line operation job")
def job() -> None:  # noqa: D103
    pass


@job.command("run", help="run job by parameters from the command line")
@_named("job")
@_in_namespace("job")
@click.option("--image", "-i", default="busybox", help="the container image of job")
@click.option("--min", "-m", "minimum", type=int, default=1, help="the minimal available tasks of job")
@click.option("--replicas", "-r", type=int, default=1, help="the total tasks of job")
@click.option("--requests", "-R", default="cpu=1000m,memory=100Mi", help="the resource request of the task")
@click.option("--limits", "-L", default="cpu=1000m,memory=100Mi", help="the resource limit of the task")
@click.option("--scheduler", "-S", default="volcano", help="the scheduler for this job")
@click.option("--filename", "-f", type=PATH, help="the yaml file of job")
@on_cluster
async def job_run(client: Client, filename: Path | None, **flags: Any) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import jobs

    await jobs.run(client, jobs.JobFlags(**flags), filename)


@job.command("list", help="list job information")
@_in_namespace("job")
@_everywhere("jobs")
@click.option("--queue", "-q", default="", help="list job with specified queue name")
@click.option("--scheduler", "-S", default="", help="list job with specified scheduler name")
@click.option("--selector", default="", help="fuzzy matching jobName")
@on_cluster
async def job_list(client: Client, namespace: str, all_namespaces: bool, **filters: str) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import jobs

    await jobs.list_jobs(client, "" if all_namespaces else namespace, jobs.JobFilter(**filters))


def _job_command(verb: str, description: str) -> None:
    @_named("job")
    @_in_namespace("job")
    @on_cluster
    async def command(client: Client, name: str, namespace: str) -> None:
        from volcanoio.cli.vcctl import jobs

        bodies = {"view": jobs.view, "suspend": jobs.suspend, "resume": jobs.resume, "delete": jobs.delete}
        await bodies[verb](client, namespace, name)

    job.command(verb, help=description)(command)


_job_command("view", "show job information")
_job_command("suspend", "abort a job")
_job_command("resume", "resume a job")
_job_command("delete", "delete a job")


@vcctl.group(cls=Group, help="Queue Operations")
def queue() -> None:  # noqa: D103
    pass


def _queue_name(default: str = "") -> Decorator:
    return click.option("--name", "-n", default=default, help="the name of queue")


@queue.command("create", help="creates queue")
@_queue_name("test")
@click.option("--weight", "-w", type=INT32, default=1, help="the weight of the queue")
@click.option("--state", "-S", default="Open", help="the state of queue")
@on_cluster
async def queue_create(client: Client, name: str, weight: int, state: str) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import queues

    await queues.create(client, name, weight, state)


@queue.command("list", help="lists all the queue")
@on_cluster
async def queue_list(client: Client) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import queues

    await queues.show_counted(client, None)


@queue.command("get", help="get a queue")
@_queue_name()
@on_cluster
async def queue_get(client: Client, name: str) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import queues

    await queues.show_counted(client, name)


@queue.command("operate", help="operate queue")
@_queue_name()
@click.option("--action", "-a", default="", help="operate action to queue, valid actions are open, close, update")
@click.option("--weight", "-w", type=INT32, default=0, help="the weight of the queue")
@on_cluster
async def queue_operate(client: Client, name: str, action: str, weight: int) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import queues

    await queues.operate(client, name, action, weight)


@queue.command("delete", help="delete queue")
@_queue_name()
@on_cluster
async def queue_delete(client: Client, name: str) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import queues

    await queues.delete(client, name)


@vcctl.group(cls=Group, help="vcctl command line operation pod")
def pod() -> None:  # noqa: D103
    pass


@pod.command("list", help="list pod information created by vcjob")
@_in_namespace("pod")
@_everywhere("pods")
@click.option("--job", "-j", "job_name", default="", help="list pod with specified job name")
@click.option("--queue", "-q", default="", help="list pod with specified queue name")
@on_cluster
async def pod_list(client: Client, namespace: str, all_namespaces: bool, job_name: str, queue: str) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import jobs

    await jobs.list_pods(client, "" if all_namespaces else namespace, job_name, queue)


def _flow_group(word: str, title: str, *, everywhere: bool) -> None:
    """Add the commands of a kind; `word` is its key in flows.KINDS, `title` its name in the help of options."""

    @vcctl.group(word, cls=Group, help=f"vcctl command line operation {word}")
    def group() -> None:
        pass

    scope = _everywhere(f"{word}s") if everywhere else click.option("-A", "all_namespaces", is_flag=True, hidden=True)

    @group.command("list", help=f"list {word}s")
    @_in_namespace(title)
    @scope
    @on_cluster
    async def listed(client: Client, namespace: str, all_namespaces: bool) -> None:
        from volcanoio.cli.vcctl import flows

        await flows.show_all(client, word, "" if all_namespaces else namespace)

    @group.command("get", help=f"get a {word}")
    @_named(title)
    @_in_namespace(title)
    @on_cluster
    async def get(client: Client, name: str, namespace: str) -> None:
        from volcanoio.cli.vcctl import flows

        await flows.show(client, word, namespace, name)

    @group.command("describe", help=f"describe a {word}")
    @_named(title)
    @_in_namespace(title)
    @click.option("--format", "--output", "-o", "form", default="yaml", help="the format of output")
    @on_cluster
    async def describe(client: Client, name: str, namespace: str, form: str) -> None:
        from volcanoio.cli.vcctl import flows

        await flows.describe(client, word, namespace, name, form)

    _add_writers(group, word, title)


def _add_writers(group: click.Group, word: str, title: str) -> None:
    file = click.option("--file", "-f", type=PATH, help=f"the path to the YAML file containing the {title}")

    @group.command("create", help=f"create a {word}")
    @file
    @on_cluster
    async def create(client: Client, file: Path | None) -> None:
        from volcanoio.cli.vcctl import flows

        await flows.create(client, word, file)

    @group.command("delete", help=f"delete a {word}")
    @_named(title)
    @_in_namespace(title)
    @file
    @on_cluster
    async def delete(client: Client, name: str, namespace: str, file: Path | None) -> None:
        from volcanoio.cli.vcctl import flows

        await flows.delete(client, word, namespace, name, file)


_flow_group("jobflow", "jobflow", everywhere=True)
_flow_group("jobtemplate", "job template", everywhere=False)


vcctl.add_command(Command("help", params=help_command.params, callback=help_command.callback, help=_HELP))


def main() -> None:
    """Run the command."""
    replace_unencodable()
    vcctl()
