"""The description of one job: what it is, its tasks, pods, reasons and latest events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from volcanoio.cli.connection import Cluster
from volcanoio.cli.look import tables
from volcanoio.cli.look.following import Selected
from volcanoio.cli.look.listing import about_job
from volcanoio.cli.look.logs import pods_of
from volcanoio.cli.look.tables import Objects, Rows, Table
from volcanoio.cli.output import GAP, documents, phase_text
from volcanoio.cli.terminal import fitted_columns
from volcanoio.engine.accounting.finished_jobs import owner_of
from volcanoio.framework.arguments import pluralize
from volcanoio.model import kinds
from volcanoio.model.batch import Job, TaskSpec, TaskState
from volcanoio.model.printing.ages import since

MOST_ROWS = 10
"""Pods and events that are shown; the commands `pods` and `events` show all."""


async def show_job(cluster: Cluster, name: str, output: str) -> None:
    """Print a job as text or as a document; raises UsageError for an unknown name."""
    job = await cluster.get(kinds.JOB, name)
    assert isinstance(job, Job)
    if output != "text":
        item = await cluster.client.get_raw(kinds.JOB, name, cluster.namespace)
        print(documents(kinds.JOB, [item], output, is_list=False))
        return
    print(job_text(job, await job_objects(cluster, job), cluster.now()))


async def job_objects(cluster: Cluster, job: Job) -> Objects:
    """Read the PodGroup, the pods and the events of a job."""
    meta = job.metadata
    group = Selected.one(kinds.POD_GROUP, f"{meta.name}-{meta.uid}", meta.namespace)
    events = await Selected(kinds.EVENT, meta.namespace).listed(cluster)
    is_about = await about_job(cluster, job)
    return {
        kinds.POD_GROUP: await group.listed(cluster),
        kinds.POD: await pods_of(job).listed(cluster),
        kinds.EVENT: {key: event for key, event in events.items() if is_about(event)},
    }


def job_text(job: Job, objects: Objects, now: datetime) -> str:
    """Return the description; ages are relative to `now`."""
    facts = [(f"{name}:", text) for name, text in _facts(job, objects, now) if text]
    width = max(len(name) for name, _ in facts) + GAP
    parts = ["\n".join(f"{name:<{width}}{text}" for name, text in facts)]
    parts.append(fitted_columns(_TASK_HEADER, [_task_row(job, task) for task in job.spec.tasks], GAP))
    parts += _listed(tables.POD_TABLE, tables.pod_rows(objects, now), f"volcanoio pods {job.metadata.name}")
    events = tables.event_rows(objects, now)
    parts += _listed(tables.EVENTS, dict(list(events.items())[-MOST_ROWS:]), "")
    return "\n\n".join(parts)


def _facts(job: Job, objects: Objects, now: datetime) -> Iterator[tuple[str, str]]:
    meta, spec, status = job.metadata, job.spec, job.status
    phase, changed = tables.phase_of(job), status.state.last_transition_time
    code, message = tables.reason_of(objects, job)
    placed = tables.placed_pods(job)
    yield "Job", meta.key
    yield "Phase", f"{phase_text(phase)}{f', for {since(changed, now)}' if changed else ''}"
    yield "Reason", ": ".join(filter(None, (code, message)))
    yield "Gang", f"{tables.gang_bar(placed, spec.min_available)} of the minimum run or succeeded"
    yield "Queue", spec.queue
    yield "Priority", spec.priority_class_name
    yield "Created", f"{meta.creation_timestamp}, {since(meta.creation_timestamp, now)} ago"
    yield "Owner", owner_of(job)
    yield "Retries", f"{status.retry_count} of {spec.max_retry}" if status.retry_count else ""
    yield "Plugins", ", ".join(sorted(spec.plugins or {}))


_TASK_HEADER = ("TASK", "REPLICAS", "MIN", "RUNNING", "PENDING", "SUCCEEDED", "FAILED")


def _task_row(job: Job, task: TaskSpec) -> tuple[object, ...]:
    counts = job.status.task_status_count.get(task.name, TaskState()).phase
    minimum = task.replicas if task.min_available is None else task.min_available
    phases = ("Running", "Pending", "Succeeded", "Failed")
    return (task.name, task.replicas, minimum, *(counts.get(phase, 0) for phase in phases))


def _listed(table: Table, rows: Rows, all_of_them: str) -> Iterator[str]:
    if rows:
        shown = len(table.header) - table.wide
        cells = [row[:shown] for row in list(rows.values())[:MOST_ROWS]]
        more = len(rows) - len(cells)
        rest = f"\n… and {pluralize(more, 'more pod')}: {all_of_them}" if more else ""
        yield fitted_columns(table.header[:shown], cells, GAP) + rest
