"""The job and pod commands of vcctl (volcano-sh/volcano pkg/cli/job, pkg/cli/pod).

`describe` prints a job as `vcctl job view` does. Sections, labels and their order are those of Volcano
(pkg/cli/job/view.go), with a tab between label and value, so that scripts can parse it. Queue, policies, reasons and
overrides are added where Volcano prints nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from volcanoio.cli.connection import reporting_api_errors, send_command
from volcanoio.cli.terminal import CommandError, columns, fitted_columns
from volcanoio.engine.jobs.state.transitions import transition_for
from volcanoio.engine.jobs.status.phases import current_phase
from volcanoio.framework.overrides import stored_overrides
from volcanoio.kube.client import Client
from volcanoio.kube.errors import AlreadyExists
from volcanoio.model import kinds, names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobAction, JobStatus, LifecyclePolicy, TaskSpec
from volcanoio.model.core import Event
from volcanoio.model.manifests import ManifestError, read_manifests
from volcanoio.model.printing.ages import since
from volcanoio.model.printing.pods import view

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""A copy of the whole manifest, which kubectl describe omits too."""
_COUNTS = ("succeeded", "pending", "running", "failed", "terminating", "unknown")
_TOP, _WIDE, _STATUS = 12, 19, 14
"""Columns of labels in Volcano's layout: top level, metadata and spec, status."""
_EVENT_COLUMNS = (15, 40, 30, 40)


def describe(job: Job, events: Iterable[Event], now: datetime) -> str:
    """Return the whole description; ages of events are relative to `now`."""
    return "\n".join((*_metadata(job), *_spec(job), *_status(job), *_events(list(events), now)))


def _line(level: int, label: str, value: object, width: int = 0) -> str:
    return f"{'  ' * level}{label + ':':<{width}}\t{'' if value is None else value}".rstrip()


def _heading(level: int, label: str) -> str:
    return f"{'  ' * level}{label}:"


def _json(values: Mapping[str, str]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if values else "<none>"


def _metadata(job: Job) -> Iterator[str]:
    meta = job.metadata
    yield _line(0, "Name", meta.name, _TOP)
    yield _line(0, "Namespace", meta.namespace, _TOP)
    yield _line(0, "Labels", _json(meta.labels), _TOP)
    annotations = {key: value for key, value in meta.annotations.items() if key != APPLIED}
    yield _line(0, "Annotations", _json(annotations), _TOP)
    yield _line(0, "API Version", kinds.JOB.api_version, _TOP)
    yield _line(0, "Kind", kinds.JOB.kind, _TOP)
    yield _heading(0, "Metadata")
    yield _line(1, "Creation Timestamp", meta.creation_timestamp, _WIDE)
    yield _line(1, "Generate Name", meta.generate_name, _WIDE)
    yield _line(1, "Generation", meta.generation, _WIDE)
    yield _line(1, "Resource Version", meta.resource_version, _WIDE)
    yield _line(1, "UID", meta.uid, _WIDE)


def _spec(job: Job) -> Iterator[str]:
    spec = job.spec
    yield _heading(0, "Spec")
    yield _line(1, "Min Available", spec.min_available, _WIDE)
    yield _line(1, "Queue", spec.queue, _WIDE)
    yield _line(1, "Max Retry", spec.max_retry, _WIDE)
    if spec.priority_class_name:
        yield _line(1, "Priority Class Name", spec.priority_class_name, _WIDE)
    yield from _policies(1, spec.policies)
    if spec.plugins:
        yield _heading(1, "Plugins")
    for name, arguments in sorted((spec.plugins or {}).items()):
        yield _line(2, name.capitalize(), f"[{' '.join(arguments or ())}]")
    yield _line(1, "Scheduler Name", spec.scheduler_name, _WIDE)
    yield _heading(1, "Tasks")
    for task in spec.tasks:
        yield from _task(task)


def _policies(level: int, policies: Sequence[LifecyclePolicy]) -> Iterator[str]:
    for policy in policies:
        events = policy.event or ",".join(policy.events)
        on = events if policy.exit_code is None else f"exit code {policy.exit_code}"
        after = f" after {policy.timeout}" if policy.timeout else ""
        yield _line(level, "Policy", f"{on} -> {policy.action}{after}", _WIDE if level == 1 else 0)


def _task(task: TaskSpec) -> Iterator[str]:
    yield _line(2, "Name", task.name)
    yield _line(2, "Replicas", task.replicas)
    if task.min_available is not None:
        yield _line(2, "Min Available", task.min_available)
    yield from _policies(2, task.policies)
    yield _heading(2, "Template")
    annotations = (task.template.get("metadata") or {}).get("annotations") or {}
    if annotations:
        yield _heading(3, "Metadata")
        yield _heading(4, "Annotations")
        for key, value in sorted(annotations.items()):
            yield _line(5, key, value)
    spec = task.template.get("spec") or {}
    yield _heading(3, "Spec")
    yield _heading(4, "Containers")
    for container in spec.get("containers") or ():
        yield from _container(container)
    if spec.get("imagePullSecrets"):
        yield _heading(4, "Image Pull Secrets")
        for secret in spec["imagePullSecrets"]:
            yield _line(5, "Name", secret.get("name"))
    yield _line(4, "Restart Policy", spec.get("restartPolicy"))


def _container(container: Manifest) -> Iterator[str]:
    for label, key in (("Command", "command"), ("Args", "args")):
        if container.get(key):
            yield _heading(5, label)
            for line in "\n".join(container[key]).splitlines():
                yield f"{'  ' * 6}{line}"
    yield _line(5, "Image", container.get("image"))
    yield _line(5, "Name", container.get("name"))
    if container.get("ports"):
        yield _heading(5, "Ports")
        for port in container["ports"]:
            yield _line(6, "Container Port", port.get("containerPort"), 15)
            yield _line(6, "Name", port.get("name"), 15)
    yield _heading(5, "Resources")
    resources = container.get("resources") or {}
    for label in ("Limits", "Requests"):
        yield _heading(6, label)
        for name, amount in {"cpu": "0", "memory": "0", **(resources.get(label.lower()) or {})}.items():
            yield _line(7, {"cpu": "Cpu", "memory": "Memory"}.get(name, name), amount, 7)
    if container.get("workingDir"):
        yield _line(5, "Working Dir", container["workingDir"])


def _status(job: Job) -> Iterator[str]:
    status = job.status
    yield _heading(0, "Status")
    counts = {name.capitalize(): getattr(status, name) for name in _COUNTS}
    counts |= {"RetryCount": status.retry_count, "Min Available": status.min_available, "Version": status.version}
    for label, count in counts.items():
        if count:
            yield _line(1, label, count, _STATUS)
    yield _heading(1, "State")
    yield _line(2, "Phase", status.state.phase)
    if status.state.reason:
        yield _line(2, "Reason", status.state.reason)
    if status.state.message:
        yield _line(2, "Message", status.state.message)
    yield from _overrides(job)
    yield from _outcomes(status)


def _overrides(job: Job) -> Iterator[str]:
    for override in stored_overrides(job):
        index = "" if override.index is None else f"-{override.index}"
        for container, given in sorted(override.resources.items()):
            amounts = [
                f"{word} {name}={amount}"
                for word, named in (("request", given.requests), ("limit", given.limits))
                for name, amount in named.items()
            ]
            text = f"{override.task}{index} {container}: {', '.join(amounts)} (attempt {override.attempts})"
            yield _line(1, "Override", text, _STATUS)


def _outcomes(status: JobStatus) -> Iterator[str]:
    if status.controlled_resources:
        yield _heading(1, "Controlled Resources")
        for key, value in sorted(status.controlled_resources.items()):
            yield _line(2, key, value)
    if status.conditions:
        yield _heading(1, "Conditions")
        yield "    Status\tTransitionTime"
        for condition in status.conditions:
            yield f"    {condition.status} \t{condition.last_transition_time or ''}".rstrip()


def _events(events: Sequence[Event], now: datetime) -> Iterator[str]:
    if not events:
        yield _line(0, "Events", "<none>", 8)
        return
    yield _heading(0, "Events")
    yield _event_row("Type", "Reason", "Age", "Form", "Message")
    yield _event_row(*["-------"] * 5)
    for event in sorted(events, key=lambda each: each.last_timestamp or ""):
        source = ", ".join(event.source[key] for key in ("component", "host") if event.source.get(key))
        age = since(event.last_timestamp, now)
        if event.count > 1:
            age += f" (x{event.count} over {since(event.first_timestamp, now)})"
        yield _event_row(event.type, event.reason, age, source, event.message.strip())


def _event_row(*cells: str) -> str:
    *columns, last = cells
    return "".join(f"{cell:<{width}}\t" for cell, width in zip(columns, _EVENT_COLUMNS, strict=True)) + last


@dataclass(frozen=True, slots=True)
class JobFlags:
    """The flags that describe a job without a file."""

    name: str
    namespace: str
    image: str
    minimum: int
    replicas: int
    requests: str
    limits: str
    scheduler: str


def _resource_list(flag: str, text: str) -> dict[str, str]:
    """Parse `cpu=1000m,memory=100Mi` as a ResourceList."""
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
        raise CommandError(f"{path}: only .yaml and .yml files are read; rename the file")
    try:
        objects = read_manifests(path)
    except ManifestError as error:
        raise CommandError(str(error)) from None
    if not any(each["kind"] == "Job" for each in objects):
        raise CommandError(f"{path}: holds no Job; add one (kind: Job, apiVersion: {kinds.JOB.api_version})")
    for each in objects:
        if (kind := kinds.named(each["apiVersion"], each["kind"])) is None:
            msg = f"{path}: {each['kind']} of {each['apiVersion']} is not known here; apply it with kubectl"
            raise CommandError(msg)
        if kind.namespaced:
            each.setdefault("metadata", {}).setdefault("namespace", namespace)
    return objects


async def run(client: Client, flags: JobFlags, filename: Path | None) -> None:
    """Create the objects of a file, or a job of one task from flags.

    Existing objects other than Jobs (a PriorityClass, a claim) are not changed.
    """
    if filename is None and not flags.name:
        raise CommandError("job name cannot be left blank: give --name NAME or --filename FILE")
    objects = _objects_of_file(filename, flags.namespace) if filename else [_job_from_flags(flags)]
    for manifest in objects:
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        with reporting_api_errors():
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
    """Print jobs as columns; `namespace` "" lists all namespaces and adds a column for them."""
    with reporting_api_errors():
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
        raise CommandError("job name is mandatory: give --name NAME")
    return name


async def view_job(client: Client, namespace: str, name: str) -> None:
    """Print a job in full, with its events."""
    with reporting_api_errors():
        job = await client.get(kinds.JOB, _require(name), namespace)
        found = await client.list(kinds.EVENT, namespace=namespace)
    assert isinstance(job, Job)
    events = [each for each in found if isinstance(each, Event) and each.involved_object.uid == job.metadata.uid]
    print(describe(job, events, datetime.now(UTC)))


async def suspend(client: Client, namespace: str, name: str) -> None:
    """Create a Command that asks the controller to abort a job."""
    await _send_action(client, namespace, name, JobAction.ABORT_JOB, "suspended")


async def resume(client: Client, namespace: str, name: str) -> None:
    """Create a Command that asks the controller to resume an aborted job."""
    await _send_action(client, namespace, name, JobAction.RESUME_JOB, "resumed")


async def _send_action(client: Client, namespace: str, name: str, action: JobAction, done: str) -> None:
    """Send a Command unless the job's phase makes it useless; print which of both."""
    with reporting_api_errors():
        job = await client.get(kinds.JOB, _require(name), namespace)
        assert isinstance(job, Job)
        phase = current_phase(job)
        if transition_for(phase, action) is None:
            print(f"job {name} is {phase} and cannot be {done}; nothing changed")
            return
        await send_command(client, kinds.JOB, job, action, namespace)
    print(f"job {name} is being {done}; it was {phase}")


async def delete(client: Client, namespace: str, name: str) -> None:
    """Delete a job."""
    with reporting_api_errors():
        await client.delete(kinds.JOB, _require(name), namespace)
    print(f"delete job {name} successfully")


_POD_HEADER = ("Namespace", "Name", "Ready", "Status", "Restart", "Age")


async def list_pods(client: Client, namespace: str, job: str, queue: str) -> None:
    """Print pods as columns, sorted; `namespace` "" lists all namespaces, "" for job or queue any.

    Raises CommandError for a job that is not in the queue.
    """
    with reporting_api_errors():
        if job and queue and namespace:
            found = await client.get(kinds.JOB, job, namespace)
            if isinstance(found, Job) and found.spec.queue != queue:
                msg = f'--queue: job {job} is in queue {found.spec.queue}, not "{queue}"; leave one of the two out'
                raise CommandError(msg)
        pods = await client.list_raw(kinds.POD, namespace)
    if not (rows := sorted(_rows(pods, job, queue))):
        print("No resources found")
        return
    first = 0 if not namespace else 1
    print(fitted_columns(_POD_HEADER[first:], [row[first:] for row in rows], gap=3))


def _rows(pods: Iterable[Manifest], job: str, queue: str) -> Iterator[tuple[str, ...]]:
    now = datetime.now(UTC)
    for pod in pods:
        meta = pod["metadata"]
        labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        queues = (labels.get(names.QUEUE_NAME), annotations.get(names.QUEUE_NAME_ANNOTATION))
        if (job and labels.get(names.JOB_NAME) != job) or (queue and queue not in queues):
            continue
        shown = view(pod, now)
        age = since(meta.get("creationTimestamp"), now)
        yield meta.get("namespace", ""), meta["name"], shown.ready, shown.status, shown.restarts, age
