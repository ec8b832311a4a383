"""The job commands of vcctl (volcano-sh/volcano pkg/cli/job)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from volcanoio.cli.commands import send_command
from volcanoio.cli.connection import explained
from volcanoio.cli.errors import CommandError
from volcanoio.cli.jobview import describe
from volcanoio.cli.tables import columns
from volcanoio.kube.client import Client
from volcanoio.kube.errors import AlreadyExists
from volcanoio.model import kinds, names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobAction
from volcanoio.model.core import Event
from volcanoio.model.manifests import ManifestError, read_manifests


@dataclass(frozen=True, slots=True)
class JobFlags:
    """The flags that make a job without a file."""

    name: str
    namespace: str
    image: str
    minimum: int
    replicas: int
    requests: str
    limits: str
    scheduler: str


def _resource_list(flag: str, text: str) -> dict[str, str]:
    """`cpu=1000m,memory=100Mi` as a ResourceList."""
    result = {}
    for part in filter(None, text.split(",")):
        name, separator, amount = part.partition("=")
        try:
            if not separator:
                raise quantity.QuantityError
            quantity.parse(amount)
        except quantity.QuantityError:
            msg = f'{flag}: "{part}" is not NAME=QUANTITY; write for instance cpu=1000m,memory=100Mi'
            raise CommandError(msg) from None
        result[name.strip()] = amount
    return result


def _job_from_flags(flags: JobFlags) -> Manifest:
    container = {
        "name": flags.name,
        "image": flags.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": _resource_list("--requests", flags.requests),
            "limits": _resource_list("--limits", flags.limits),
        },
    }
    template = {
        "metadata": {"name": flags.name, "labels": {"job.volcano.sh": flags.name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": flags.name, "namespace": flags.namespace},
        "spec": {
            "minAvailable": flags.minimum,
            "schedulerName": flags.scheduler,
            "tasks": [{"replicas": flags.replicas, "template": template}],
        },
    }


def _objects_of_file(path: Path, namespace: str) -> list[Manifest]:
    if not {".yaml", ".yml"} & set(path.suffixes):
        msg = f"{path}: only .yaml and .yml files are read; rename the file"
        raise CommandError(msg)
    try:
        objects = read_manifests(path)
    except ManifestError as error:
        raise CommandError(str(error)) from None
    if not any(each["kind"] == "Job" for each in objects):
        msg = f"{path}: holds no Job; add one (kind: Job, apiVersion: {kinds.JOB.api_version})"
        raise CommandError(msg)
    for each in objects:
        kind = kinds.named(each["apiVersion"], each["kind"])
        if kind is None:
            msg = f"{path}: {each['kind']} of {each['apiVersion']} is not known here; apply it with kubectl"
            raise CommandError(msg)
        if kind.namespaced:
            each.setdefault("metadata", {}).setdefault("namespace", namespace)
    return objects


async def run(client: Client, flags: JobFlags, filename: Path | None) -> None:
    """Create the objects of a file, or a job of one task made from flags.

    Objects other than Jobs that exist already (a PriorityClass, a claim) are left as they are.
    """
    if filename is None and not flags.name:
        msg = "job name cannot be left blank: give --name NAME or --filename FILE"
        raise CommandError(msg)
    objects = _objects_of_file(filename, flags.namespace) if filename else [_job_from_flags(flags)]
    for manifest in objects:
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        with explained():
            try:
                created = await client.create(kind, manifest)
            except AlreadyExists:
                if kind is kinds.JOB:
                    raise
                print(f"{kind.resource}/{manifest['metadata']['name']} exists already")
                continue
        name = created["metadata"]["name"]
        print(f"run job {name} successfully" if kind is kinds.JOB else f"{kind.resource}/{name} created")


_HEADER = (
    "Name", "Creation", "Phase", "JobType", "Replicas", "Min", "Pending", "Running", "Succeeded", "Failed", "Unknown",
    "RetryCount",
)  # fmt: skip
_WIDTHS = (15, 12, 12, 12, 6, 10, 10, 12, 10, 12, 10)


async def list_jobs(client: Client, namespace: str, queue: str, scheduler: str, selector: str) -> None:
    """Print jobs as columns; `namespace` "" lists all namespaces and shows theirs."""
    with explained():
        found = await client.list(kinds.JOB, namespace=namespace)
    jobs = [
        job
        for job in found
        if isinstance(job, Job)
        and (not queue or job.spec.queue == queue)
        and (not scheduler or job.spec.scheduler_name == scheduler)
        and selector in job.metadata.name
    ]
    if not jobs:
        print("No resources found")
        return
    width = max(len("Name"), *(len(job.metadata.name) for job in jobs)) + 3
    rows = [
        (
            job.metadata.name,
            (job.metadata.creation_timestamp or "")[:10],
            job.status.state.phase,
            job.metadata.labels.get(names.JOB_TYPE, "Batch"),
            sum(task.replicas for task in job.spec.tasks),
            job.status.min_available,
            job.status.pending,
            job.status.running,
            job.status.succeeded,
            job.status.failed,
            job.status.unknown,
            job.status.retry_count,
        )
        for job in jobs
    ]
    if namespace:
        print(columns((width, *_WIDTHS), _HEADER, rows))
        return
    space = max(len("Namespace"), *(len(job.metadata.namespace) for job in jobs)) + 3
    wide = [(job.metadata.namespace, *row) for job, row in zip(jobs, rows, strict=True)]
    print(columns((space, width, *_WIDTHS), ("Namespace", *_HEADER), wide))


def _require(name: str) -> str:
    if not name:
        msg = "job name is mandatory: give --name NAME"
        raise CommandError(msg)
    return name


async def view(client: Client, namespace: str, name: str) -> None:
    """Print a job in full, with its events."""
    with explained():
        job = await client.get(kinds.JOB, _require(name), namespace)
        found = await client.list(kinds.EVENT, namespace=namespace)
    assert isinstance(job, Job)
    events = [each for each in found if isinstance(each, Event) and each.involved_object.uid == job.metadata.uid]
    print(describe(job, events, datetime.now(UTC)))


async def suspend(client: Client, namespace: str, name: str) -> None:
    """Ask the controller to abort a job."""
    await _ask(client, namespace, name, JobAction.ABORT_JOB)


async def resume(client: Client, namespace: str, name: str) -> None:
    """Ask the controller to resume an aborted job."""
    await _ask(client, namespace, name, JobAction.RESUME_JOB)


async def _ask(client: Client, namespace: str, name: str, action: JobAction) -> None:
    with explained():
        job = await client.get(kinds.JOB, _require(name), namespace)
        await send_command(client, kinds.JOB, job, action, namespace)


async def delete(client: Client, namespace: str, name: str) -> None:
    """Delete a job."""
    with explained():
        await client.delete(kinds.JOB, _require(name), namespace)
    print(f"delete job {name} successfully")
