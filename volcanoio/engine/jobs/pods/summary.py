"""Summary of a job's pods: all that planning needs of them, updated by the pods that changed.

Source of the counts: Volcano, pkg/controllers/job/job_controller_actions.go and pkg/controllers/cache/cache.go; unlike
there (issue 4616) finished pods that a kill kept are counted in every phase. Indexes of a task are stored as the bits
of a number, so that those of a big job are changed and compared at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from volcanoio.engine.jobs.pods.index_ranges import format_indexes
from volcanoio.engine.jobs.pods.manifests import pod_name
from volcanoio.engine.jobs.pods.observed import COUNT_FIELDS, LIVE_PHASES, Counts, index_of
from volcanoio.engine.jobs.pods.persistent_collections import PersistentMap, UidSet
from volcanoio.model import names
from volcanoio.model.batch import Job, TaskState
from volcanoio.model.core import Pod


class IndexSet(msgspec.Struct, frozen=True):
    """A multiset of indexes. Bit n stands for index n; `duplicates` has the additional occurrences of an index."""

    bits: int = 0
    duplicates: dict[int, int] = {}

    def __len__(self) -> int:
        return self.bits.bit_count()

    def with_changes(self, removed: Iterable[int], added: Sequence[int]) -> IndexSet:
        """Return the set without the removed indexes and with the added ones."""
        bits, duplicates = self.bits, dict(self.duplicates)
        cleared: list[int] = []
        for index in removed:
            if index not in duplicates:
                cleared.append(index)
            elif duplicates[index] == 1:
                del duplicates[index]
            else:
                duplicates[index] -= 1
        bits &= ~_to_bits(cleared)
        new = _to_bits(added)
        if new.bit_count() != len(added) or bits & new:  # rare: the deletion of a pod is not observed yet
            for index in added:
                if bits >> index & 1:
                    duplicates[index] = duplicates.get(index, 0) + 1
                bits |= 1 << index
        return IndexSet(bits | new, duplicates)

    def indexes(self) -> list[int]:
        """Return the indexes, ascending."""
        return _flag_positions(bin(self.bits)[:1:-1], "1")

    def free_below(self, below: int) -> list[int]:
        """Return the indexes below a number that are not in the set, ascending."""
        within = (1 << below) - 1
        return _flag_positions(bin((self.bits & within) | 1 << below)[:2:-1], "0")


NO_INDEXES = IndexSet()


def _to_bits(indexes: Sequence[int]) -> int:
    if not indexes:
        return 0
    flags = bytearray(max(indexes) // 8 + 1)
    for index in indexes:
        flags[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(flags, "little")


def _flag_positions(flags: str, flag: str) -> list[int]:
    """Return the positions of a flag; the first character has position 0."""
    found: list[int] = []
    position = flags.find(flag)
    while position >= 0:
        found.append(position)
        position = flags.find(flag, position + 1)
    return found


CACHE_THRESHOLD = 256
"""Number of pods from which the summary is kept for the next plan; for smaller jobs it is computed each time."""
_TERMINATING = "terminating"


class CountingRules(msgspec.Struct, frozen=True):
    """Job fields that decide how each pod is counted: uid, replicas by task, tasks by pod name prefix."""

    uid: str
    replicas: dict[str, int]
    tasks: dict[str, str]

    @classmethod
    def of(cls, job: Job) -> CountingRules:
        """Return the rules of a job."""
        tasks = job.spec.tasks
        return cls(
            job.metadata.uid,
            {task.name: task.replicas for task in tasks},
            {pod_name(job, task, "").removesuffix("-"): task.name for task in tasks},
        )


class PodCategory(NamedTuple):
    """Properties by which the job's own pods are counted.

    - `is_surplus`: above the task's replicas, or marked for deletion before a restart of the controller
    - `is_live`: neither succeeded nor failed
    - `task`: "" where the spec has no such task; `phase`: the phase it counts as
    """

    is_terminating: bool
    is_live: bool
    is_surplus: bool
    version: int
    task: str
    phase: str


class IndexMark(NamedTuple):
    """A property of indexes of a task, for pods of a version where that matters.

    - `taken`: a pod of any owner has the name; `in_place`: a pod of the job itself has it
    - `present`: a pod that is not being deleted has it; once it is missing, it was evicted
    - `leaving`: a pod that another client is deleting has it
    """

    name: str
    task: str
    version: int = 0


_index_mark, _pod_category = lru_cache(4096)(IndexMark), lru_cache(4096)(PodCategory)
"""Few values are shared by thousands of pods: a lookup takes a third of the time of a construction."""


class _PodEntry(NamedTuple):
    """What one pod adds to the summary; `category` is None for a pod that is not the job's own."""

    category: PodCategory | None
    marks: tuple[tuple[IndexMark, int], ...]


class PodSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from `pods`, by uid, of which those in `deleting` were deleted by this controller.

    `version` is the job's, `categories` counts its own pods, `present`, `leaving` and `index_texts` are index ranges.
    """

    rules: CountingRules
    version: int = 0
    pods: PersistentMap[str, Pod] = PersistentMap()
    deleting: UidSet = UidSet()
    categories: dict[PodCategory, int] = {}
    marks: dict[IndexMark, IndexSet] = {}
    present: dict[str, str] = {}
    leaving: dict[str, str] = {}
    index_texts: dict[tuple[str, str], tuple[int, str]] = {}

    def own_pods(self) -> Iterator[Pod]:
        """Iterate over the job's own pods, in no order."""
        uid = self.rules.uid
        return (pod for pod in self.pods.values() if _is_own(pod, uid))

    def own_pods_named(self, pod_names: Container[str]) -> Iterator[Pod]:
        """Iterate over the job's own pods with these names, in no order."""
        found = (pod for pod in self.pods.values() if pod.metadata.name in pod_names)
        return (pod for pod in found if _is_own(pod, self.rules.uid))

    def has_outdated_pods(self, *, whole_job: bool) -> bool:
        """Return whether a restart may have to delete pods that are not its targets.

        These are surplus pods and live ones of an older version; for a restart of the whole job also ended ones.
        """
        return any(
            not category.is_terminating
            and (category.is_surplus or (category.version < self.version and (category.is_live or whole_job)))
            for category in self.categories
        )

    @property
    def total(self) -> int:
        """Number of the job's own pods."""
        return sum(self.categories.values())

    @property
    def live(self) -> int:
        """Number of own pods that neither terminate nor have succeeded or failed."""
        return sum(
            number for category, number in self.categories.items() if not category.is_terminating and category.is_live
        )

    @property
    def counts(self) -> Counts:
        """Counts of the pods of the spec's tasks."""
        totals = dict.fromkeys((*COUNT_FIELDS.values(), "unknown", _TERMINATING), 0)
        phases: dict[str, dict[str, int]] = {}
        for category, number in self.categories.items():
            if not category.task:
                continue
            if category.is_terminating:
                totals[_TERMINATING] += number
                continue
            totals[COUNT_FIELDS.get(category.phase, "unknown")] += number
            of_task = phases.setdefault(category.task, {})
            of_task[category.phase] = of_task.get(category.phase, 0) + number
        tasks = {task: TaskState(phase=dict(sorted(phases[task].items()))) for task in sorted(phases)}
        return Counts(**totals, tasks=tasks)

    @property
    def is_complete(self) -> bool:
        """Whether every pod that the spec names exists."""
        existing = sum(len(marks) for mark, marks in self.marks.items() if mark.name == "in_place")
        return existing == sum(self.rules.replicas.values())

    def unwanted_pods(self) -> Iterator[Pod]:
        """Iterate over pods that are surplus, marked, or alive from an older version, in no order."""
        if not any(self._is_unwanted(category) for category in self.categories):
            return iter(())
        found = ((pod, _pod_entry(self.rules, pod, uid in self.deleting).category) for uid, pod in self.pods.items())
        return (pod for pod, category in found if category is not None and self._is_unwanted(category))

    def free_indexes(self, task: str) -> list[int]:
        """Return the indexes of a task whose pod names are free."""
        return self.marks.get(IndexMark("taken", task), NO_INDEXES).free_below(self.rules.replicas[task])

    def _is_unwanted(self, category: PodCategory) -> bool:
        return not category.is_terminating and (
            category.is_surplus or (category.is_live and category.version < self.version)
        )


def summarize(
    job: Job, pods: PersistentMap[str, Pod], deleting: UidSet, before: PodSummary | None = None
) -> PodSummary:
    """Summarize pods; those unchanged since the summary `before` are not examined again."""
    rules, version = CountingRules.of(job), job.status.version
    if before is None or before.rules != rules:
        before = PodSummary(rules=rules)
    summary = updated_summary(before, pods, deleting)
    bits: dict[tuple[str, str], int] = {}
    for mark, marks in summary.marks.items():
        if mark.name in ("present", "leaving") and mark.version >= version:
            bits[mark.name, mark.task] = bits.get((mark.name, mark.task), 0) | marks.bits
    texts = {key: _index_text(value, before.index_texts.get(key)) for key, value in sorted(bits.items()) if value}
    return msgspec.structs.replace(
        summary,
        version=version,
        index_texts=texts,
        present={task: text for (name, task), (_, text) in texts.items() if name == "present"},
        leaving={task: text for (name, task), (_, text) in texts.items() if name == "leaving"},
    )


def updated_summary(summary: PodSummary, pods: PersistentMap[str, Pod], deleting: UidSet) -> PodSummary:
    """Return the summary of the same job with these pods."""
    changed = {*summary.pods.changed_keys(pods), *summary.deleting.changed_keys(deleting)}
    removed = _pod_entries(summary.rules, summary.pods, summary.deleting, changed)
    added = _pod_entries(summary.rules, pods, deleting, changed)
    categories = Counter(summary.categories)
    categories.subtract(Counter([entry.category for entry in removed.values() if entry.category is not None]))
    categories.update([entry.category for entry in added.values() if entry.category is not None])
    marks = dict(summary.marks)
    for mark, (cleared, new) in _changed_marks(removed, added).items():
        marks[mark] = marks.get(mark, NO_INDEXES).with_changes(cleared, new)
    return msgspec.structs.replace(
        summary,
        pods=pods,
        deleting=deleting,
        categories={category: number for category, number in categories.items() if number},
        marks={mark: marked for mark, marked in marks.items() if marked.bits},
    )


def compact_summary(
    summary: PodSummary, pods: PersistentMap[str, Pod], deleting: UidSet
) -> tuple[PodSummary, PersistentMap[str, Pod]]:
    """Return the summary after many pods changed, and its pods in a form that is quick to compare.

    Called now and then, because one plan after thousands of changes would take too long.
    """
    compacted = pods.compacted()
    return msgspec.structs.replace(updated_summary(summary, pods, deleting), pods=compacted), compacted


def _pod_entries(
    rules: CountingRules, pods: PersistentMap[str, Pod], deleting: UidSet, uids: Iterable[str]
) -> dict[str, _PodEntry]:
    return {uid: _pod_entry(rules, pod, uid in deleting) for uid in uids if (pod := pods.get(uid)) is not None}


def _pod_entry(rules: CountingRules, pod: Pod, deleted: bool) -> _PodEntry:
    meta, phase = pod.metadata, pod.status.phase
    prefix, _, suffix = meta.name.rpartition("-")
    named_task, marks = rules.tasks.get(prefix), []
    taken = -1
    if named_task is not None and suffix.isascii() and suffix.isdecimal() and str(number := int(suffix)) == suffix:
        taken = number if number < rules.replicas[named_task] else -1
    if named_task is not None and taken >= 0:
        marks.append((_index_mark("taken", named_task), taken))
    if not _is_own(pod, rules.uid):
        return _PodEntry(None, tuple(marks))
    annotations = meta.annotations
    task = annotations.get(names.TASK_SPEC, "")
    replicas = rules.replicas.get(task)
    text, index = annotations.get(names.JOB_VERSION, ""), index_of(pod)
    version = int(text) if text.isdigit() else 0
    is_terminating = deleted or meta.deletion_timestamp is not None
    is_surplus = names.OUT_OF_SYNC in annotations
    if replicas is not None and index is not None:
        is_surplus = is_surplus or index >= replicas
        if named_task == task and taken == index:
            marks.append((_index_mark("in_place", task), index))
        if not is_surplus and not deleted:
            marks.append((_index_mark("leaving" if is_terminating else "present", task, version), index))
    category = _pod_category(
        is_terminating, phase in LIVE_PHASES, is_surplus, version, "" if replicas is None else task, phase or "Pending"
    )
    return _PodEntry(category, tuple(marks))


def _changed_marks(
    removed: Mapping[str, _PodEntry], added: Mapping[str, _PodEntry]
) -> dict[IndexMark, tuple[list[int], list[int]]]:
    """Return, by mark, the indexes that lost it and those that got it."""
    changed: dict[IndexMark, tuple[list[int], list[int]]] = {}
    for side, entries, others in ((0, removed, added), (1, added, removed)):
        for uid, entry in entries.items():
            if (other := others.get(uid)) is None or other.marks != entry.marks:  # most pods only enter another phase
                for mark, index in entry.marks:
                    changed.setdefault(mark, ([], []))[side].append(index)
    return changed


def _index_text(bits: int, previous: tuple[int, str] | None) -> tuple[int, str]:
    """Return indexes with their text; the previous text is reused when they are the same."""
    return (
        previous if previous is not None and previous[0] == bits else (bits, format_indexes(IndexSet(bits).indexes()))
    )


def _is_own(pod: Pod, uid: str) -> bool:
    owners = pod.metadata.owner_references
    return owners[0].uid == uid if len(owners) == 1 else uid in [owner.uid for owner in owners]
