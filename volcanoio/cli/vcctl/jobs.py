"""The commands about jobs and pods (volcano-sh/volcano pkg/cli/{job,pod,vsub,vjobs,vcancel,vsuspend,vresume}).

`describe` prints a job as `vcctl job view` does. Sections, labels, tabs and their order are those of Volcano
(pkg/cli/job/view.go). Lines about the queue, policies, reasons, overrides and what else Volcano leaves out are added
between them.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from volcanoio.cli.connection import reporting_api_errors
from volcanoio.cli.terminal import CommandError
from volcanoio.cli.vcctl.cobra import format_row, note
from volcanoio.compose.live.commands import NoEffectError, command_job
from volcanoio.framework.overrides import stored_overrides
from volcanoio.kube.client import Client
from volcanoio.kube.errors import AlreadyExists
from volcanoio.model import kinds, names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobAction, LifecyclePolicy, TaskSpec
from volcanoio.model.core import Event
from volcanoio.model.manifests import ManifestError, read_manifests
from volcanoio.model.printing import pods as pod_columns
from volcanoio.model.printing.ages import since

_COUNTS = ("succeeded", "pending", "running", "failed", "terminating", "unknown")
_TOP, _WIDE, _STATUS = 12, 19, 14
"""Columns of labels in Volcano's layout: top level, metadata and spec, status."""
_EVENT_COLUMNS = (15, 40, 30, 40)
_ZERO_TIME = "0001-01-01 00:00:00 +0000 UTC"
_FIXED_ANNOTATIONS = {
    "cri.cci.io/container-type": "Cri . Cci . Io / Container - Type",
    "kubernetes.io/availablezone": "Kubernetes . Io / Availablezone",
    "network.alpha.kubernetes.io/network": "Network . Alpha . Kubernetes . Io / Network",
}
"""Annotations of a task's template that Volcano prints, and under which label."""


def describe(job: Job, events: Iterable[Event], now: datetime, *, conditions: bool = True) -> str:
    """Return the whole description; ages of events are relative to `now`. vjobs prints no conditions."""
    return "\n".join((*_metadata(job), *_spec(job), *_status(job, conditions=conditions), *_events(list(events), now)))


def _local(timestamp: str) -> datetime:
    return datetime.fromisoformat(timestamp).astimezone()


def _go_time(timestamp: str | None) -> str:
    """Return a time as Go prints it, in the local zone."""
    return f"{_local(timestamp):%Y-%m-%d %H:%M:%S %z %Z}" if timestamp else _ZERO_TIME


def _line(level: int, label: str, value: object, width: int = 0) -> str:
    return f"{'  ' * level}{label + ':':<{width}}\t{'' if value is None else value}"


def _heading(level: int, label: str) -> str:
    return f"{'  ' * level}{label}:"


def _json(values: Mapping[str, str]) -> str:
    """Return a map as Go writes it: keys sorted, and the characters special to HTML escaped."""
    if not values:
        return "<none>"
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _metadata(job: Job) -> Iterator[str]:
    meta = job.metadata
    yield _line(0, "Name", meta.name, _TOP)
    yield _line(0, "Namespace", meta.namespace, _TOP)
    yield _line(0, "Labels", _json(meta.labels), _TOP)
    yield _line(0, "Annotations", _json(meta.annotations), _TOP)
    yield _line(0, "API Version", kinds.JOB.api_version, _TOP)
    yield _line(0, "Kind", kinds.JOB.kind, _TOP)
    yield _heading(0, "Metadata")
    yield _line(1, "Creation Timestamp", _go_time(meta.creation_timestamp), _WIDE)
    yield _line(1, "Generate Name", meta.generate_name, _WIDE)
    yield _line(1, "Generation", meta.generation, _WIDE)
    yield _line(1, "Resource Version", meta.resource_version, _WIDE)
    yield _line(1, "Self Link", "", _WIDE)
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
    yield _heading(1, "Plugins")
    plugins = {"env": None, "ssh": None, **(spec.plugins or {})}
    for name in ("env", "ssh", *sorted(plugins.keys() - {"env", "ssh"})):
        yield _line(2, name.capitalize(), f"[{' '.join(plugins[name] or ())}]")
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
    meta = task.template.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    yield _heading(3, "Metadata")
    yield _heading(4, "Annotations")
    for key, label in _FIXED_ANNOTATIONS.items():
        yield _line(5, label, annotations.get(key), 44)
    for key in sorted(annotations.keys() - _FIXED_ANNOTATIONS):
        yield _line(5, key, annotations[key])
    yield _line(4, "Creation Timestamp", _go_time(meta.get("creationTimestamp")))
    spec = task.template.get("spec") or {}
    yield _heading(3, "Spec")
    yield _heading(4, "Containers")
    for container in spec.get("containers") or ():
        yield from _container(container)
    yield _heading(4, "Image Pull Secrets")
    for secret in spec.get("imagePullSecrets") or ():
        yield _line(5, "Name", secret.get("name"), 10)
    yield _line(4, "Restart Policy", spec.get("restartPolicy"), 18)


def _container(container: Manifest) -> Iterator[str]:
    yield _heading(5, "Command")
    for word in container.get("command") or ():
        yield f"{'  ' * 6}{word}"
    if container.get("args"):
        yield _heading(5, "Args")
        for word in container["args"]:
            yield f"{'  ' * 6}{word}"
    yield _line(5, "Image", container.get("image"))
    yield _line(5, "Name", container.get("name"), 6)
    yield _heading(5, "Ports")
    for port in container.get("ports") or ():
        yield _line(6, "Container Port", port.get("containerPort"), 15)
        yield _line(6, "Name", port.get("name"), 15)
    yield _heading(5, "Resources")
    resources = container.get("resources") or {}
    for label in ("Limits", "Requests"):
        yield _heading(6, label)
        for name, amount in {"cpu": "0", "memory": "0", **(resources.get(label.lower()) or {})}.items():
            yield _line(7, {"cpu": "Cpu", "memory": "Memory"}.get(name, name), _canonical(amount), 7)
    yield _line(6, "Working Dir", container.get("workingDir"))


def _canonical(amount: str | int | float) -> str:
    try:
        return quantity.canonical(amount)
    except quantity.QuantityError:
        return str(amount)


def _status(job: Job, *, conditions: bool) -> Iterator[str]:
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
    if status.controlled_resources:
        yield _heading(1, "Controlled Resources")
        for key, value in sorted(status.controlled_resources.items()):
            yield f"    {key}: \t{value}"
    if status.conditions and conditions:
        yield _heading(1, "Conditions")
        yield "    Status\tTransitionTime"
        for condition in status.conditions:
            time = condition.last_transition_time
            yield f"    {condition.status} \t{_go_time(time) if time else '<nil>'} "


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


def _events(events: Sequence[Event], now: datetime) -> Iterator[str]:
    """Return the events, oldest first: the order of their names, with which Volcano prints them."""
    if not events:
        yield _line(0, "Events", "<none>", 8)
        return
    yield _heading(0, "Events")
    yield _event_row("Type", "Reason", "Age", "Form", "Message")
    yield _event_row(*["-------"] * 5)
    for event in sorted(events, key=lambda each: (each.first_timestamp or "", each.metadata.name)):
        source = ", ".join((event.source.get("component", ""), *filter(None, (event.source.get("host"),))))
        age = since(event.first_timestamp, now)
        if event.count > 1:
            age = f"{since(event.last_timestamp, now)} (x{event.count} over {age})"
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
    command: str = ""


_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _resource_list(text: str) -> dict[str, str]:
    """Parse `cpu=1000m,memory=100Mi` as a ResourceList."""
    result = {}
    for part in text.split(",") if text else ():
        name, *amounts = part.split("=")
        if len(amounts) != 1:
            raise CommandError(f"invalid argument syntax {part}, expected <resource>=<value>")
        try:
            quantity.parse(amounts[0])
        except quantity.QuantityError:
            raise CommandError(_NOT_A_QUANTITY) from None
        result[name] = amounts[0]
    return result


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:
        raise CommandError("EOF found when expecting closing quote") from None


def _job_from_flags(flags: JobFlags) -> Manifest:
    container = {
        "name": flags.name,
        "image": flags.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": _resource_list(flags.requests), "limits": _resource_list(flags.limits)},
    }
    if flags.command:
        container["command"] = _words(flags.command)
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
    if ".yaml" not in str(path) and ".yml" not in str(path):
        raise CommandError("only support yaml file")
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
        raise CommandError("job name cannot be left blank")
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
                note(f"{kind.resource}/{manifest['metadata']['name']} exists already")
                continue
        name = created["metadata"]["name"]
        if kind is kinds.JOB:
            print(f"run job {name} successfully")
        else:
            note(f"{kind.resource}/{name} created")


_HEADER = (
    "Name", "Creation", "Phase", "JobType", "Replicas", "Min", "Pending", "Running", "Succeeded", "Failed", "Unknown",
    "RetryCount",
)  # fmt: skip
_WIDTHS = (15, 12, 12, 12, 6, 10, 10, 12, 10, 12, 10)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are listed; "" leaves a filter out."""

    queue: str = ""
    scheduler: str = ""
    selector: str = ""
    """Part of the name."""

    def matches(self, job: Job) -> bool:
        """Return whether a job is listed."""
        return (
            self.queue in ("", job.spec.queue)
            and self.scheduler in ("", job.spec.scheduler_name)
            and self.selector in job.metadata.name
        )


async def list_jobs(client: Client, namespace: str, wanted: JobFilter, *, filtered_late: bool = False) -> None:
    """Print jobs as columns; `namespace` "" lists all namespaces and adds a column for them.

    `filtered_late`, for vjobs: jobs that are filtered out count for the widths, and for whether there is a header.
    """
    with reporting_api_errors():
        found = [job for job in await client.list(kinds.JOB, namespace=namespace) if isinstance(job, Job)]
    jobs = [job for job in found if wanted.matches(job)]
    measured = found if filtered_late else jobs
    if not measured:
        print("No resources found")
        return
    width = max(len("Name"), *(len(job.metadata.name) for job in measured)) + 3
    space = max(len("Namespace"), *(len(job.metadata.namespace) for job in measured)) + 3
    first = 1 if namespace else 0
    print(format_row((space, width, *_WIDTHS)[first:], ("Namespace", *_HEADER)[first:]))
    for job in jobs:
        print(format_row((space, width, *_WIDTHS)[first:], _row(job)[first:]))


def _row(job: Job) -> tuple[object, ...]:
    created, status = job.metadata.creation_timestamp, job.status
    return (
        job.metadata.namespace,
        job.metadata.name,
        f"{_local(created):%Y-%m-%d}" if created else _ZERO_TIME[:10],
        status.state.phase,
        job.metadata.labels.get(names.JOB_TYPE) or "Batch",
        sum(task.replicas for task in job.spec.tasks),
        status.min_available,
        status.pending,
        status.running,
        status.succeeded,
        status.failed,
        status.unknown,
        status.retry_count,
    )


async def view(client: Client, namespace: str, name: str, *, conditions: bool = True) -> None:
    """Print a job in full, with its events."""
    if not name:
        raise CommandError("job name (specified by --name or -N) is mandatory to view a particular job")
    with reporting_api_errors():
        job = await client.get(kinds.JOB, name, namespace)
        found = await client.list(kinds.EVENT, namespace=namespace)
    assert isinstance(job, Job)
    events = [each for each in found if isinstance(each, Event) and each.involved_object.uid == job.metadata.uid]
    print(describe(job, events, datetime.now(UTC), conditions=conditions))


async def suspend(client: Client, namespace: str, name: str) -> None:
    """Create a Command that asks the controller to abort a job."""
    await _send_action(client, namespace, name, JobAction.ABORT_JOB, "suspend")


async def resume(client: Client, namespace: str, name: str) -> None:
    """Create a Command that asks the controller to resume an aborted job."""
    await _send_action(client, namespace, name, JobAction.RESUME_JOB, "resume")


async def _send_action(client: Client, namespace: str, name: str, action: JobAction, verb: str) -> None:
    """Send a Command unless the job's phase makes it useless."""
    if not name:
        raise CommandError(f"job name is mandatory to {verb} a particular job")
    with reporting_api_errors():
        job = await client.get(kinds.JOB, name, namespace)
        assert isinstance(job, Job)
        try:
            note(await command_job(client, job, action))
        except NoEffectError as error:
            note(f"{error}; nothing changed")


async def delete(client: Client, namespace: str, name: str) -> None:
    """Delete a job, as `vcctl job delete`."""
    await _delete(client, namespace, name, "delete")


async def cancel(client: Client, namespace: str, name: str) -> None:
    """Delete a job, as `vcancel`."""
    await _delete(client, namespace, name, "cancel")


async def _delete(client: Client, namespace: str, name: str, verb: str) -> None:
    if not name:
        raise CommandError(f"job name is mandatory to {verb} a particular job")
    with reporting_api_errors():
        await client.delete(kinds.JOB, name, namespace)
    print(f"{verb} job {name} successfully")


_POD_HEADER = ("Namespace", "Name", "Ready", "Status", "Restart", "Age")
_POD_GAP = 8


async def list_pods(client: Client, namespace: str, job: str, queue: str) -> None:
    """Print pods as columns, sorted by namespace and name; `namespace` "" lists all namespaces.

    Without a job and a queue the pods of all jobs are printed. Raises CommandError for a job that is not in the queue.
    """
    selector = f"{names.JOB_NAME}={job}" if job else "" if queue else names.JOB_NAME
    with reporting_api_errors():
        pods = await client.list_raw(kinds.POD, namespace, label_selector=selector)
    if job and any(_labels(pod).get(names.QUEUE_NAME, queue) != queue for pod in pods if queue):
        raise CommandError(f"the input vcjob {job} does not match the queue {queue}")
    if queue and not job:
        pods = tuple(pod for pod in pods if queue in _queues(pod))
    if not pods:
        print("No resources found")
        return
    now = datetime.now(UTC)
    rows = sorted(_pod_row(pod, now) for pod in pods)
    widths = [max(map(len, column)) + _POD_GAP for column in zip(*rows, strict=True)]
    widths[0] = max(widths[0], len("Namespace") + _POD_GAP)
    first = 1 if namespace else 0
    for row in (_POD_HEADER, *rows):
        print(format_row(widths[first:], row[first:]))


def _labels(pod: Manifest) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def _queues(pod: Manifest) -> tuple[str | None, str | None]:
    annotations = pod["metadata"].get("annotations") or {}
    return _labels(pod).get(names.QUEUE_NAME), annotations.get(names.QUEUE_NAME_ANNOTATION)


def _pod_row(pod: Manifest, now: datetime) -> tuple[str, ...]:
    meta, shown = pod["metadata"], pod_columns.view(pod, now)
    age = since(meta.get("creationTimestamp"), now)
    return meta.get("namespace", ""), meta["name"], shown.ready, shown.status, shown.restarts, age
