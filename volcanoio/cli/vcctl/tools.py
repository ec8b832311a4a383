"""`vsub`, `vjobs`, `vqueues`, `vcancel`, `vsuspend` and `vresume`: Volcano's programs of one command each.

Their flags are those of vcctl with `-n` and `-N` exchanged: `-n` is the name of the object, `-N` the namespace.
Three environment variables have defaults of vsub: VOLCANO_SCHEDULER_NAME, VOLCANO_DEFAULT_IMAGE and
VOLCANO_DEFAULT_JOB_NAMESPACE. Help texts are Volcano's (volcano-sh/volcano cmd/cli/v*, pkg/cli/v*).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from volcanoio.cli.terminal import Decorator, replace_unencodable
from volcanoio.cli.vcctl.cobra import Tool, on_cluster

if TYPE_CHECKING:
    from volcanoio.kube.client import Client

_NAME = click.option("--name", "-n", default="", help="the name of job")
_NAMESPACE = click.option("--namespace", "-N", default="default", help="the namespace of job")


def _tool(name: str, description: str) -> Callable[[Callable[..., Any]], Tool]:
    return click.command(name, cls=Tool, help=description, context_settings={"help_option_names": ["-h", "--help"]})


def _defaulted(flag: str, short: str, of: str, variable: str, default: str) -> Decorator:
    """Return an option of vsub whose default is in an environment variable, else `default`."""
    text = f"the {of}, overwrite the value of '{variable}' (default \"{default}\")"
    return click.option(
        flag, short, default="", callback=lambda *given: given[-1] or os.environ.get(variable) or default, help=text
    )


@_tool(
    "vsub",
    "submit a job with specified name and arguments. yaml/json file is not accepted, you may refer to kubectl.",
)
@_defaulted("--image", "-i", "container image of job", "VOLCANO_DEFAULT_IMAGE", "busybox")
@_defaulted("--namespace", "-N", "namespace of job", "VOLCANO_DEFAULT_JOB_NAMESPACE", "default")
@_NAME
@click.option("--min", "-m", "minimum", type=int, default=1, help="the minimal available tasks of job")
@click.option("--replicas", "-r", type=int, default=1, help="the total tasks of job")
@click.option("--requests", "-R", default="cpu=1000m,memory=100Mi", help="the resource request of the task")
@click.option("--limits", "-L", default="cpu=1000m,memory=100Mi", help="the resource limit of the task")
@_defaulted("--scheduler", "-S", "scheduler for this job", "VOLCANO_SCHEDULER_NAME", "volcano")
@click.option("--command", "-c", default="", help="the command of of job")
@on_cluster
async def vsub(client: Client, **flags: Any) -> None:  # noqa: D103 - the help is above, as for all tools here
    from volcanoio.cli.vcctl import jobs

    await jobs.run(client, jobs.JobFlags(**flags), None)


@_tool("vjobs", "view information of a job with specified name or jobs from the same namespace")
@_NAMESPACE
@_NAME
@click.option("--scheduler", "-S", default="", help="list job with specified scheduler name")
@click.option("--all-namespaces", "-A", is_flag=True, help="list jobs in all namespaces")
@click.option("--selector", default="", help="fuzzy matching jobName")
@on_cluster
async def vjobs(client: Client, namespace: str, name: str, all_namespaces: bool, **filters: str) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import jobs

    if name:
        await jobs.view(client, namespace, name, conditions=False)
    else:
        where = "" if all_namespaces else namespace
        await jobs.list_jobs(client, where, jobs.JobFilter(**filters), filtered_late=True)


@_tool("vqueues", "view information of a queue with specified name or queues from the same namespace")
@click.option("--name", "-n", default="", help="the name of queue")
@on_cluster
async def vqueues(client: Client, name: str) -> None:  # noqa: D103
    from volcanoio.cli.vcctl import queues

    await queues.show_status(client, name)


def _job_tool(name: str, verb: str, description: str) -> click.Command:
    @_tool(name, description)
    @_NAMESPACE
    @_NAME
    @on_cluster
    async def command(client: Client, namespace: str, name: str) -> None:
        from volcanoio.cli.vcctl import jobs

        bodies = {"cancel": jobs.cancel, "suspend": jobs.suspend, "resume": jobs.resume}
        await bodies[verb](client, namespace, name)

    return command


vcancel = _job_tool(
    "vcancel",
    "cancel",
    "cancel a running, pending, or aborted job with specified name in default or specified namespace",
)
vsuspend = _job_tool(
    "vsuspend", "suspend", "suspend a running or pending job with specified name in default or specified namespace"
)
vresume = _job_tool("vresume", "resume", "resume an aborted job with specified name in default or specified namespace")


def _program(command: click.Command) -> Callable[[], None]:
    def main() -> None:
        replace_unencodable()
        command()

    return main


vsub_main, vjobs_main, vqueues_main = map(_program, (vsub, vjobs, vqueues))
vcancel_main, vsuspend_main, vresume_main = map(_program, (vcancel, vsuspend, vresume))
