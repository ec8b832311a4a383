"""The roll of a job: all that a plan asks of its pods, brought up to date by those that changed since the last plan.

Source of the counts: Volcano, pkg/controllers/job/job_controller_actions.go and pkg/controllers/cache/cache.go; unlike
there (issue 4616) finished pods that a kill kept are counted in every phase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from volcanoio.engine.jobs.counting import Counts
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
_FIELD = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
_TERMINATING = "terminating"


class Terms(msgspec.Struct, frozen=True):
    """What of a job tells what its pods are to the roll: uid, replicas by task, and tasks by the names of their pods
    without the index.
    """

    uid: str
    replicas: dict[str, int]
    tasks: dict[str, str]

    @classmethod
    def of(cls, job: Job) -> Terms:
        """The terms of a job as it is."""
        tasks = job.spec.tasks
        return cls(
            job.metadata.uid,
            {task.name: task.replicas for task in tasks},
            {pod_name(job, task, "").removesuffix("-"): task.name for task in tasks},
        )


class Sort(NamedTuple):
    """What sort of pod one of the job's own is.

    `staying`: nobody deletes it; `live`: it neither succeeded nor failed; `odd`: it is surplus after a scale-down, or
    was marked before we were interrupted. `task` is "" where the spec does not name it, `phase` is what it counts as.
    """

    staying: bool
    live: bool
    odd: bool
    version: int
    task: str
    phase: str


class Mark(NamedTuple):
    """What indexes of a task are marked for, the pods' version where that matters.

    `taken`: somebody has the name; `in_place`: a pod of the job's own has; `present`: one that nobody is deleting has,
    and its absence would be an eviction; `leaving`: one that somebody else is deleting.
    """

    name: str
    task: str
    version: int = 0


_mark, _sort = lru_cache(4096)(Mark), lru_cache(4096)(Sort)
"""There are few of each, and thousands of pods have the same: a look is a third of making one."""


class _Place(NamedTuple):
    """What one pod adds to the roll; no `sort` for one that is not the job's own."""

    sort: Sort | None
    marks: tuple[tuple[Mark, int], ...]


class Roll(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from the pods `held`, by uid, of which those in `deleting` were deleted by us.

    `version` is the job's. `sorts` counts the job's own pods. `texts` are index ranges of marks that were told.
    """

    terms: Terms
    version: int = 0
    held: Overlay[str, Pod] = Overlay()
    deleting: Uids = Uids()
    sorts: dict[Sort, int] = {}
    marks: dict[Mark, Marks] = {}
    present: dict[str, str] = {}
    leaving: dict[str, str] = {}
    told: dict[tuple[str, str], tuple[int, str]] = {}

    def own(self) -> Iterator[Pod]:
        """The job's own pods, in no order."""
        uid = self.terms.uid
        return (pod for pod in self.held.values() if _belongs(pod, uid))

    def named(self, wanted: Container[str]) -> Iterator[Pod]:
        """The job's own pods of these names, in no order."""
        found = (pod for pod in self.held.values() if pod.metadata.name in wanted)
        return (pod for pod in found if _belongs(pod, self.terms.uid))

    def is_outdated(self, *, whole: bool) -> bool:
        """Whether pods may be there that a restart takes whatever it is about: marked ones, and live ones of an older
        version; where it is about the `whole` job, ended ones of an older version, too.
        """
        return any(
            sort.staying and (sort.odd or (sort.version < self.version and (sort.live or whole))) for sort in self.sorts
        )

    @property
    def total(self) -> int:
        """How many pods are the job's own."""
        return sum(self.sorts.values())

    @property
    def live(self) -> int:
        """How many of them are not on their way out, and neither succeeded nor failed."""
        return sum(number for sort, number in self.sorts.items() if sort.staying and sort.live)

    @property
    def counts(self) -> Counts:
        """Pods of the spec's tasks."""
        totals = dict.fromkeys((*_FIELD.values(), "unknown", _TERMINATING), 0)
        phases: dict[str, dict[str, int]] = {}
        for sort, number in self.sorts.items():
            if not sort.task:
                continue
            if not sort.staying:
                totals[_TERMINATING] += number
                continue
            totals[_FIELD.get(sort.phase, "unknown")] += number
            of_task = phases.setdefault(sort.task, {})
            of_task[sort.phase] = of_task.get(sort.phase, 0) + number
        tasks = {task: TaskState(phase=dict(sorted(phases[task].items()))) for task in sorted(phases)}
        return Counts(**totals, tasks=tasks)

    @property
    def whole(self) -> bool:
        """Whether the job has every pod that the spec names."""
        there = sum(len(marks) for mark, marks in self.marks.items() if mark.name == "in_place")
        return there == sum(self.terms.replicas.values())

    def unwanted(self) -> Iterator[Pod]:
        """Pods that are surplus, were marked by us, or are alive from an older version, in no order."""
        if not any(self._is_unwanted(sort) for sort in self.sorts):
            return iter(())
        found = ((pod, _place(self.terms, pod, uid in self.deleting).sort) for uid, pod in self.held.items())
        return (pod for pod, sort in found if sort is not None and self._is_unwanted(sort))

    def free(self, task: str) -> list[int]:
        """The indexes of a task whose names nobody has."""
        return self.marks.get(Mark("taken", task), NONE).free(self.terms.replicas[task])

    def _is_unwanted(self, sort: Sort) -> bool:
        return sort.staying and (sort.odd or (sort.live and sort.version < self.version))


def call(job: Job, held: Overlay[str, Pod], deleting: Uids, before: Roll | None = None) -> Roll:
    """Call the roll of the pods `held`; of those that are as they were `before` nothing has to be asked again."""
    terms, version = Terms.of(job), job.status.version
    if before is None or before.terms != terms:
        before = Roll(terms=terms)
    roll = caught_up(before, held, deleting)
    bits: dict[tuple[str, str], int] = {}
    for mark, marks in roll.marks.items():
        if mark.name in ("present", "leaving") and mark.version >= version:
            bits[mark.name, mark.task] = bits.get((mark.name, mark.task), 0) | marks.bits
    told = {key: _text(value, before.told.get(key)) for key, value in sorted(bits.items()) if value}
    return msgspec.structs.replace(
        roll,
        version=version,
        told=told,
        present={task: text for (name, task), (_, text) in told.items() if name == "present"},
        leaving={task: text for (name, task), (_, text) in told.items() if name == "leaving"},
    )


def caught_up(roll: Roll, held: Overlay[str, Pod], deleting: Uids) -> Roll:
    """The roll of the same job with these pods, for the next plan to find less that has changed."""
    changed = {*roll.held.differing(held), *roll.deleting.differing(deleting)}
    gone = _places(roll.terms, roll.held, roll.deleting, changed)
    come = _places(roll.terms, held, deleting, changed)
    sorts = Counter(roll.sorts)
    sorts.subtract(Counter([place.sort for place in gone.values() if place.sort is not None]))
    sorts.update([place.sort for place in come.values() if place.sort is not None])
    marks = dict(roll.marks)
    for mark, (left, new) in _moved(gone, come).items():
        marks[mark] = marks.get(mark, NONE).changed(left, new)
    return msgspec.structs.replace(
        roll,
        held=held,
        deleting=deleting,
        sorts={sort: number for sort, number in sorts.items() if number},
        marks={mark: marked for mark, marked in marks.items() if marked.bits},
    )


def settled(roll: Roll, held: Overlay[str, Pod], deleting: Uids) -> tuple[Roll, Overlay[str, Pod]]:
    """The roll caught up with pods of which many changed, and these as they are quickly compared from now on.

    Done now and then, as a plan after thousands of changes would hold everything up.
    """
    pods = held.settled()
    return msgspec.structs.replace(caught_up(roll, held, deleting), held=pods), pods


def _places(terms: Terms, held: Overlay[str, Pod], deleting: Uids, uids: Iterable[str]) -> dict[str, _Place]:
    return {uid: _place(terms, pod, uid in deleting) for uid in uids if (pod := held.get(uid)) is not None}


def _place(terms: Terms, pod: Pod, deleted: bool) -> _Place:
    meta, phase = pod.metadata, pod.status.phase
    prefix, _, place = meta.name.rpartition("-")
    namesake, marks = terms.tasks.get(prefix), []
    taken = -1
    if namesake is not None and place.isascii() and place.isdecimal() and str(number := int(place)) == place:
        taken = number if number < terms.replicas[namesake] else -1
    if namesake is not None and taken >= 0:
        marks.append((_mark("taken", namesake), taken))
    if not _belongs(pod, terms.uid):
        return _Place(None, tuple(marks))
    annotations = meta.annotations
    task = annotations.get(names.TASK_SPEC, "")
    replicas = terms.replicas.get(task)
    text, index = annotations.get(names.JOB_VERSION, ""), index_of(pod)
    version = int(text) if text.isdigit() else 0
    staying = not deleted and meta.deletion_timestamp is None
    odd = names.OUT_OF_SYNC in annotations
    if replicas is not None and index is not None:
        odd = odd or index >= replicas
        if namesake == task and taken == index:
            marks.append((_mark("in_place", task), index))
        if not odd and not deleted:
            marks.append((_mark("present" if staying else "leaving", task, version), index))
    sort = _sort(staying, phase in LIVE_PHASES, odd, version, "" if replicas is None else task, phase or "Pending")
    return _Place(sort, tuple(marks))


def _moved(gone: Mapping[str, _Place], come: Mapping[str, _Place]) -> dict[Mark, tuple[list[int], list[int]]]:
    """The indexes that are marked no more, and those that are now."""
    moved: dict[Mark, tuple[list[int], list[int]]] = {}
    for side, places, others in ((0, gone, come), (1, come, gone)):
        for uid, place in places.items():
            other = others.get(uid)
            if other is None or other.marks != place.marks:  # most pods enter another phase, and that is all
                for mark, index in place.marks:
                    moved.setdefault(mark, ([], []))[side].append(index)
    return moved


def _text(bits: int, known: tuple[int, str] | None) -> tuple[int, str]:
    """Marked indexes and how they are told; what was told is not written anew."""
    return known if known is not None and known[0] == bits else (bits, compact(Marks(bits).indexes()))


def _belongs(pod: Pod, uid: str) -> bool:
    owners = pod.metadata.owner_references
    return owners[0].uid == uid if len(owners) == 1 else uid in [owner.uid for owner in owners]
