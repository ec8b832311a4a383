"""In which order tasks on a node would be evicted, kept while an action looks for victims node after node.

Source: Volcano, BuildVictimsPriorityQueue: tasks of the job that has its turn last first, of one job the task that has
its turn last; where they are of several queues, the queue that loses first goes before all that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.tasks import TAKABLE, TaskInfo
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.views import TaskStatus

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession

_HERE = frozenset({*TAKABLE, TaskStatus.RELEASING})
"""Those that can be evicted, and those that the session has evicted: they may be spared again."""


@dataclass(slots=True)
class _Order:
    """Tasks in order, and the keys of their jobs that it follows from; several queues?"""

    tasks: list[TaskInfo]
    keys: list[tuple[JobInfo, SortKey]]
    several: bool


class VictimOrder:
    """The order by node. Within a session no task comes to a node that could be evicted there."""

    def __init__(self, session: CycleSession) -> None:
        self._session = session
        self._rules = session.rules
        self._known: dict[str, _Order] = {}

    def clear(self) -> None:
        """Forget it: another action begins."""
        self._known.clear()

    def on(self, node: str) -> Sequence[TaskInfo]:
        """Tasks on a node by job and task, whatever their queues; those that were evicted may be among them."""
        known = self._known.get(node)
        if known is None:
            there = self._session.state.ledger.on_node.get(node, {})
            known = self._known[node] = self._order([task for task in there.values() if task.status in _HERE])
        elif len(known.keys) > 1:
            ask = self._session.job_key
            for job, key in known.keys:  # asked about every node that is tried: a generator would cost as much again
                if ask(job) != key:
                    known = self._known[node] = self._order(known.tasks)
                    break
        return known.tasks

    def by_queue(self, node: str, tasks: list[TaskInfo], taker: str) -> list[TaskInfo]:
        """Some of the tasks on a node, those first whose queue loses first to the taker's."""
        if self._known[node].several:
            names = {task.owner.queue for task in tasks if task.owner is not None}
            if len(names) > 1:
                ranks = self._session.victims.queue_ranks(names, taker)
                tasks.sort(key=lambda task: ranks[task.owner.queue] if task.owner is not None else -1)
        return tasks

    def _order(self, tasks: Iterable[TaskInfo]) -> _Order:
        rules, key_of = self._rules, self._session.job_key
        jobs = {task.job: task.owner for task in tasks}
        keys = {key: key_of(job) if job is not None else () for key, job in jobs.items()}
        ask = rules.task_key if rules.orders_tasks else None
        keyed = [(keys[task.job], ask and ask(task), task.key, task) for task in tasks]  # keys end in uids: all differ
        keyed.sort(reverse=True)
        return _Order(
            [task for _, _, _, task in keyed],
            [(job, keys[key]) for key, job in jobs.items() if job is not None],
            len({job.queue for job in jobs.values() if job is not None}) > 1,
        )
