"""What a targeted restart is about: tasks, partitions, or single pods, merged so that many of them stay short."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from volcanoio.engine.jobs.ledger import Target
from volcanoio.engine.jobs.ownership import index_of, partition_of, task_of
from volcanoio.engine.jobs.ranges import compact, expand
from volcanoio.model.core import Pod


def merged(targets: Iterable[Target], new: Iterable[Target]) -> tuple[Target, ...]:
    """Earlier targets and new ones: pods of a task are one target, however many they are."""
    result: dict[tuple[str, str, bool], Target] = {}
    for target in (*targets, *new):
        key = (target.task, target.partition, bool(target.pods))
        old = result.get(key)
        if old is not None and target.pods and old.pods != target.pods:
            target = msgspec.structs.replace(target, pods=compact((*expand(old.pods), *expand(target.pods))))
        result[key] = target
    return tuple(result[key] for key in sorted(result))


def hits(targets: Iterable[Target] | None) -> Callable[[Pod], bool]:
    """Whether a pod is one of the targets; none is for None."""
    whole: set[tuple[str, str]] = set()
    single: dict[str, frozenset[int]] = {}
    for target in targets or ():
        if target.pods:
            single[target.task] = frozenset(expand(target.pods))
        else:
            whole.add((target.task, target.partition))

    def is_hit(pod: Pod) -> bool:
        task = task_of(pod)
        if (task, "") in whole or (task, partition_of(pod)) in whole:
            return True
        return task in single and index_of(pod) in single[task]

    return is_hit
