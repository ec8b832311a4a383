"""`vcctl`: Volcano's command line, flag for flag (volcano-sh/volcano cmd/cli).

Errors are printed to stdout as `Failed to <command>: <reason>` with exit code 255, as scripts around vcctl expect.
In `queue` commands `-n` is the queue's name; in `job` commands `-N` is the job's name and `-n` the namespace.
"""

from __future__ import annotations

from pathlib import Path

import click

from volcanoio import __version__
from volcanoio.cli.flowcommands import jobflow, jobtemplate
from volcanoio.cli.vcctlframe import Group, cluster_flags, run_with_client


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
@click.option("--all-namespaces", is_flag=True, help="List the pods of all namespaces.")
@click.option("--job", "-j", "job_name", default="", help="Only pods of this job.")
@click.option("--queue", "-q", default="", help="Only pods of this queue.")
@cluster_flags
def pod_list(
    namespace: str, all_namespaces: bool, job_name: str, queue: str, kubeconfig: Path | None, master: str
) -> None:
    """List pods."""
    from volcanoio.cli import pods

    where = "" if all_namespaces else namespace
    run_with_client("list pod", kubeconfig, master, pods.list_pods, where, job_name, queue)


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
def job_run(
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
@click.option("--all-namespaces", is_flag=True, help="List the jobs of all namespaces.")
@click.option("--queue", "-q", default="", help="Only jobs of this queue.")
@click.option("--scheduler", "-S", default="", help="Only jobs of this scheduler.")
@click.option("--selector", default="", help="Only jobs whose name contains this.")
@cluster_flags
def job_list(
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

        bodies = {"view": jobs.view, "suspend": jobs.suspend, "resume": jobs.resume, "delete": jobs.delete}
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


vcctl.add_command(jobflow)
vcctl.add_command(jobtemplate)


def main() -> None:
    """Entry point."""
    from volcanoio.cli.errors import speak_any_encoding

    speak_any_encoding()
    vcctl()
