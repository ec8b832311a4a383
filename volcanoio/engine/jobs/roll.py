"""The roll of a job: all that a plan asks of its pods, brought up to date by those that changed since the last plan.

Source of the counts: Volcano, pkg/controllers/job/job_controller_actions.go and pkg/controllers/cache/cache.go; unlike
there (issue 4616) finished pods that a kill kept are counted in every phase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from volcanoio.engine.jobs.counting import Counts
from volcanoio.engine.jobs.events import asks
from volcanoio.engine.jobs.marks import NONE, Marks
from volcanoio.engine.jobs.overlay import Overlay
from volcanoio.engine.jobs.ownership import LIVE_PHASES, index_of
from volcanoio.engine.jobs.pods import pod_name
from volcanoio.engine.jobs.ranges import compact
from volcanoio.engine.jobs.uids import Uids
from volcanoio.model import names
from volcanoio.model.batch import Job, TaskState
from volcanoio.model.core import Pod

KEPT_FROM = 256
"""Pods from which on a roll is kept for the next plan: of a smaller job it is called anew in no time."""
_FIELD = {"Pending": "pending", "": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
_FIELDS = ("pending", "running", "succeeded", "failed", "unknown", "terminating")
_TOLD = ("present", "leaving")
_MARKS = ("taken", "in_place", *_TOLD)


class Terms(msgspec.Struct, frozen=True):
    """What of a job the roll depends on: uid, version, whether anything asks for its pods, replicas by task, and tasks
    by the names of their pods without the index.
    """

    uid: str
    version: int
    asked: bool
    replicas: dict[str, int]
    tasks: dict[str, str]

    @classmethod
    def of(cls, job: Job) -> Terms:
        """The terms of a job as it is."""
        tasks = job.spec.tasks
        return cls(
            job.metadata.uid,
            job.status.version,
            asks(job),
            {task.name: task.replicas for task in tasks},
            {pod_name(job, task, "").removesuffix("-"): task.name for task in tasks},
        )


class Roll(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from the pods `held`, by uid, of which those in `deleting` were deleted by us.

    `total` pods are the job's own, `staying` of them are not on their way out, `live` of these are neither succeeded
    nor failed; `unwanted` are uids of those that are surplus after a scale-down, were marked before we were
    interrupted, or are alive from an older version. `counts` are of pods of the spec's tasks.

    By task are marked the indexes whose pod names are `taken` by anybody, and of the job's own pods those `in_place`,
    those of its version that nobody is deleting (`present`: their absence would be an eviction), and those of its
    version that somebody else is deleting (`leaving`). `texts` are the last two as index ranges.
    """

    terms: Terms
    held: Overlay[str, Pod] = Overlay()
    deleting: Uids = Uids()
    total: int = 0
    staying: int = 0
    live: int = 0
    unwanted: Uids = Uids()
    counts: Counts = Counts()
    marks: dict[str, dict[str, Marks]] = {}
    texts: dict[str, dict[str, str]] = {}

    def own(self) -> Iterator[Pod]:
        """The job's own pods, in no order."""
        uid = self.terms.uid
        return (pod for pod in self.held.values() if _belongs(pod, uid))

    @property
    def present(self) -> dict[str, str]:
        """Index ranges by task."""
        return self.texts.get("present", {})

    @property
    def leaving(self) -> dict[str, str]:
        """Index ranges by task."""
        return self.texts.get("leaving", {})

    @property
    def whole(self) -> bool:
        """Whether the job has every pod that the spec names."""
        there = self.marks.get("in_place", {})
        return sum(map(len, there.values())) == sum(self.terms.replicas.values())

    def free(self, task: str) -> list[int]:
        """The indexes of a task whose names nobody has."""
        return self.marks.get("taken", {}).get(task, NONE).free(self.terms.replicas[task])


class _Sort(NamedTuple):
    """What sort of pod one is. `phase` is "" where it is not counted."""

    own: bool
    staying: bool
    live: bool
    unwanted: bool
    task: str
    phase: str


class _Place(NamedTuple):
    """What one pod adds to the roll. `marks` are in the order of `_MARKS`, None where there is none; `named` is the
    task by its name.
    """

    sort: _Sort
    marks: tuple[int | None, int | None, int | None, int | None]
    named: str


_STRANGER = _Sort(False, False, False, False, "", "")


def call(job: Job, held: Overlay[str, Pod], deleting: Uids, before: Roll | None = None) -> Roll:
    """Call the roll of the pods `held`; of those that are as they were `before` nothing has to be asked again."""
    terms = Terms.of(job)
    if before is None or before.terms != terms:
        before = Roll(terms=terms)
    return caught_up(before, held, deleting)


def caught_up(roll: Roll, held: Overlay[str, Pod], deleting: Uids) -> Roll:
    """The roll of the same job with these pods, for the next plan to find less that has changed."""
    changed = {*roll.held.differing(held), *roll.deleting.differing(deleting)}
    if not changed:
        return msgspec.structs.replace(roll, held=held, deleting=deleting)
    gone = _places(roll.terms, roll.held, roll.deleting, changed)
    return _changed(roll, held, deleting, gone, _places(roll.terms, held, deleting, changed))


def _places(terms: Terms, held: Overlay[str, Pod], deleting: Uids, uids: Iterable[str]) -> dict[str, _Place]:
    return {uid: _place(terms, pod, uid in deleting) for uid in uids if (pod := held.get(uid)) is not None}


def _place(terms: Terms, pod: Pod, deleted: bool) -> _Place:
    meta, phase = pod.metadata, pod.status.phase
    prefix, _, place = meta.name.rpartition("-")
    namesake, taken = terms.tasks.get(prefix, ""), None
    if namesake and place.isdecimal() and place.isascii() and str(number := int(place)) == place:
        taken = number if number < terms.replicas[namesake] else None
    if not _belongs(pod, terms.uid):
        return _Place(_STRANGER, (taken, None, None, None), namesake)
    annotations = meta.annotations
    task = annotations.get(names.TASK_SPEC, "")
    replicas = terms.replicas.get(task)
    text, index = annotations.get(names.JOB_VERSION, ""), index_of(pod)
    version = int(text) if text.isdigit() else 0
    going = deleted or meta.deletion_timestamp is not None
    marked, live = names.OUT_OF_SYNC in annotations, phase in LIVE_PHASES
    surplus = replicas is not None and index is not None and index >= replicas
    unwanted = not going and (marked or surplus or (live and version < terms.version))
    if replicas is None:
        sort = _Sort(True, not going, live and not going, unwanted, "", "")
        return _Place(sort, (taken, None, None, None), namesake)
    in_place = index if namesake == task and taken is not None and taken == index else None
    ours = index if terms.asked and version >= terms.version and not marked and not surplus else None
    present, leaving = None if going else ours, ours if going and not deleted else None
    shown = "terminating" if going else phase or "Pending"
    sort = _Sort(True, not going, live and not going, unwanted, task, shown)
    return _Place(sort, (taken, in_place, present, leaving), namesake)


def _changed(
    before: Roll, held: Overlay[str, Pod], deleting: Uids, gone: Mapping[str, _Place], come: Mapping[str, _Place]
) -> Roll:
    """The roll without what some pods added to it, with what they add now."""
    totals = {name: getattr(before.counts, name) for name in _FIELDS}
    phases = {task: dict(state.phase) for task, state in before.counts.tasks.items()}
    total, staying, live = before.total, before.staying, before.live
    for step, places in ((-1, gone), (1, come)):
        for sort, times in Counter([place.sort for place in places.values()]).items():
            number = step * times
            total += number * sort.own
            staying += number * sort.staying
            live += number * sort.live
            if sort.phase == "terminating":
                totals["terminating"] += number
            elif sort.phase:
                totals[_FIELD.get(sort.phase, "unknown")] += number
                of_task = phases.setdefault(sort.task, {})
                of_task[sort.phase] = of_task.get(sort.phase, 0) + number
    counted = {
        task: TaskState(phase=dict(sorted(there.items())))
        for task in sorted(phases)
        if (there := {phase: number for phase, number in phases[task].items() if number})
    }
    marks = {name: dict(before.marks.get(name, {})) for name in _MARKS}
    texts = {name: dict(before.texts.get(name, {})) for name in _TOLD}
    for (name, task), (left, new) in _moved(gone, come).items():
        after = marks[name][task] = marks[name].get(task, NONE).changed(left, new)
        if name in texts:
            texts[name][task] = compact(after.indexes())
    unwanted = [uid for uid, place in come.items() if place.sort.unwanted]
    return Roll(
        terms=before.terms,
        held=held,
        deleting=deleting,
        total=total,
        staying=staying,
        live=live,
        unwanted=before.unwanted.minus(gone).plus(unwanted) if before.unwanted or unwanted else before.unwanted,
        counts=Counts(**totals, tasks=counted),
        marks=marks,
        texts={name: {task: text for task, text in sorted(known.items()) if text} for name, known in texts.items()},
    )


def _moved(
    gone: Mapping[str, _Place], come: Mapping[str, _Place]
) -> dict[tuple[str, str], tuple[list[int], list[int]]]:
    """The indexes that are marked no more, and those that are now, by mark and task."""
    moved: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for side, places, others in ((0, gone, come), (1, come, gone)):
        for uid, place in places.items():
            other = others.get(uid)
            if other is not None and other.marks == place.marks and other.sort.task == place.sort.task:
                continue  # most pods enter another phase, and that is all
            for name, index in zip(_MARKS, place.marks, strict=True):
                if index is not None:
                    task = place.named if name == "taken" else place.sort.task
                    moved.setdefault((name, task), ([], []))[side].append(index)
    return moved


def _belongs(pod: Pod, uid: str) -> bool:
    return uid in [owner.uid for owner in pod.metadata.owner_references]
