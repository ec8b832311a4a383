"""The roll of a job: all that a plan asks of its pods, worked out in one pass over them.

Source of the counts: Volcano, pkg/controllers/job/job_controller_actions.go and pkg/controllers/cache/cache.go; unlike
there (issue 4616) finished pods that a kill kept are counted in every phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from volcanoio.engine.jobs.counting import Counts
from volcanoio.engine.jobs.events import asks
from volcanoio.engine.jobs.ownership import LIVE_PHASES, index_of, own_pods, tasks_by_name
from volcanoio.engine.jobs.pods import pod_name
from volcanoio.engine.jobs.ranges import compact
from volcanoio.model import names
from volcanoio.model.batch import Job, TaskState
from volcanoio.model.core import Pod

_FIELD = {"Pending": "pending", "": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


class Roll(msgspec.Struct, frozen=True, kw_only=True):
    """The job's own `pods`, sorted by name, and what follows from them.

    `present` are the pods of the job's version that nobody is deleting, as index ranges by task: those whose absence
    would be an eviction. `leaving`, likewise, are those of its version that somebody else is deleting. `unwanted` are
    pods that are surplus after a scale-down, were marked before we were interrupted, or are alive from an older
    version. `whole` says that the job has every pod that the spec names.
    """

    pods: list[Pod]
    counts: Counts
    present: dict[str, str]
    leaving: dict[str, str]
    unwanted: list[Pod]
    whole: bool


def call(job: Job, held: Mapping[str, Pod], ours_to_go: Iterable[str]) -> Roll:
    """Call the roll of the pods `held`, by uid; those of tasks that the spec does not name are not counted.

    `ours_to_go` are the uids that we deleted, which may not be seen yet.
    """
    deleting = frozenset(ours_to_go)
    pods = own_pods(job, held)
    tasks, asked, current = tasks_by_name(job), asks(job), job.status.version
    totals = dict.fromkeys(("pending", "running", "succeeded", "failed", "unknown", "terminating"), 0)
    phases: dict[str, dict[str, int]] = {}
    present: dict[str, list[int]] = {}
    leaving: dict[str, list[int]] = {}
    unwanted: list[Pod] = []
    in_place: set[str] = set()
    versions: dict[str, int] = {}
    prefixes = {name: pod_name(job, task, "") for name, task in tasks.items()}
    for pod in pods:
        meta, phase = pod.metadata, pod.status.phase
        marks = meta.annotations
        name = marks.get(names.TASK_SPEC, "")
        task, index = tasks.get(name), index_of(pod)
        text = marks.get(names.JOB_VERSION, "")
        version = versions.get(text)
        if version is None:
            version = versions[text] = int(text) if text.isdigit() else 0
        going = meta.deletion_timestamp is not None or meta.uid in deleting
        marked = names.OUT_OF_SYNC in marks
        surplus = task is not None and index is not None and index >= task.replicas
        if not going and (marked or surplus or (version < current and phase in LIVE_PHASES)):
            unwanted.append(pod)
        if task is None:
            continue
        if index is not None and not surplus and meta.name == f"{prefixes[name]}{index}":
            in_place.add(meta.name)
        ours = asked and version >= current and not marked and not surplus
        if going:
            totals["terminating"] += 1
            if ours and index is not None and meta.uid not in deleting:
                leaving.setdefault(name, []).append(index)
            continue
        totals[_FIELD.get(phase, "unknown")] += 1
        of_task = phases.get(name)
        if of_task is None:
            of_task = phases[name] = {}
        of_task[phase or "Pending"] = of_task.get(phase or "Pending", 0) + 1
        if ours and index is not None:
            present.setdefault(name, []).append(index)
    counted = {task: TaskState(phase=dict(sorted(phases[task].items()))) for task in sorted(phases)}
    return Roll(
        pods=pods,
        counts=Counts(**totals, tasks=counted),
        present={task: compact(found) for task, found in sorted(present.items())},
        leaving={task: compact(found) for task, found in sorted(leaving.items())},
        unwanted=unwanted,
        whole=len(in_place) == sum(task.replicas for task in job.spec.tasks),
    )
