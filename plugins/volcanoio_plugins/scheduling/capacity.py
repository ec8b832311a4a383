"""Plugin capacity: queues have a deserved amount, a guarantee and a limit of their own, flat or as a tree.

Source: Volcano pkg/scheduler/plugins/capacity. The tree is in `queuetree`, who loses tasks to whom in `reclaiming`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints, Purpose, SortKey
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, Task
from volcanoio.model.resources import Amounts, add, maximum, total
from volcanoio_plugins.scheduling.proportion import QUEUE_CLOSED, QUOTA_INSUFFICIENT
from volcanoio_plugins.scheduling.queues.accounts import Account
from volcanoio_plugins.scheduling.queues.demand import admitted, elastic, minimum, queue_of
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, shortage
from volcanoio_plugins.scheduling.queues.queuegauges import QueueGauges
from volcanoio_plugins.scheduling.queues.queuetree import UNLIMITED, Branch, Limits, limits, tree
from volcanoio_plugins.scheduling.queues.reclaiming import Holder, Taking, may_take
from volcanoio_plugins.scheduling.queues.sums import Sums
from volcanoio_plugins.scheduling.queues.waterfilling import reachable

NO_WAY_UP, NOT_A_LEAF = "QueueHierarchyBroken", "QueueNotLeaf"
_DRA_KEYS = ("capacity.DynamicResourceAllocationEnable", "capacity.DRAConsumableCapacityEnable")


class CapacityArguments(msgspec.Struct, frozen=True):
    """`ancestorReclaimLevel`: how many ancestors of a queue count when it takes or loses tasks; below 0 means 0."""

    ancestor_level: int = msgspec.field(default=0, name="ancestorReclaimLevel")
    devices: bool = msgspec.field(default=False, name=_DRA_KEYS[0])
    device_capacity: bool = msgspec.field(default=False, name=_DRA_KEYS[1])


class Capacity:
    """Queues by the share they have of what they deserve; each holds no more than it and all its ancestors may have."""

    name = "capacity"
    refuses_alike = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, CapacityArguments, self.name)
        for key, wanted in zip(_DRA_KEYS, (given.devices, given.device_capacity), strict=True):
            if wanted:
                msg = f"capacity: {key} is not available yet: claims are not counted; remove it or set it to false"
                raise ArgumentError(msg, key=key)
        self._level = max(given.ancestor_level, 0)
        self._hierarchical = False
        self._jobs: Mapping[str, Job] = {}
        self._queues: Mapping[str, QueueView] = {}
        self._branches: Mapping[str, Branch] = {}
        self._holders: dict[str, Holder] = {}
        self._faults: dict[str, Verdict] = {}
        self._released: Table | None = None
        self._demand = Sums(queue_of, elastic, admitted)
        self._gauges = QueueGauges(lambda account: account.share() > 1, UNLIMITED)

    def use_hierarchy(self, enabled: bool) -> None:
        """Whether queues form a tree."""
        self._hierarchical = enabled

    def open(self, session: SessionView) -> Checkpoints:
        """Work out what each queue may have and has; flat, of those with jobs only."""
        self._jobs, self._queues = session.jobs, session.queues
        self._released = session.table(self.name, "released")
        self._branches = tree(session.queues) if self._hierarchical else {}
        self._faults = {name: fault for name, branch in self._branches.items() if (fault := _fault(branch))}
        self._holders = self._in_tree(session) if self._hierarchical else self._flat(session)
        return self._count_admitted(session)

    def queue_key(self, queue: QueueView) -> SortKey:
        """Higher priority first, then the smaller share; in a tree of the first ancestors that differ."""
        holder = self._holders.get(queue.name)
        if holder is None:
            return -queue.priority, True, ()
        if not self._hierarchical:
            return -queue.priority, False, _standing(holder.account)
        path = [(*_standing(account), account.tie) for account in reversed(holder.chain[:-1])]
        return -queue.priority, bool(self._branches[queue.name].children), tuple(path)

    def queue_epoch(self) -> int | None:
        """Queues of a tree move with what others of their parents get."""
        return self._released.version if self._hierarchical and self._released is not None else None

    def victim_key(self, queue: QueueView, taker: QueueView) -> int:
        """Of a tree, those with the nearest ancestor in common with the taker first."""
        if not self._hierarchical or not {queue.name, taker.name} <= self._holders.keys():
            return 0
        return -len(self._holders[queue.name].common(self._holders[taker.name]))

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        """How many tasks stay within what the queue and its ancestors may have; none if it is closed."""
        holder = self._holders.get(queue.name)
        if holder is None or not queue.open or queue.name in self._faults:
            return 0
        for account in holder.chain:
            count = account.fits(shape.requests, count, account.ceiling)
        return count

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Whether the queue has room by its limit, and it or a near ancestor by what it deserves of any resource."""
        holder = self._holders.get(queue.name)
        if holder is None or not queue.open or queue.name in self._faults:
            return False
        requests = total(task.shape.requests for task in tasks)
        if not holder.account.fits(requests, 1, holder.account.ceiling):
            return False
        near = (holder.account, *holder.near(self._level))
        return any(account.within_deserved(requests) for account in near)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Tasks of queues that keep their guarantee and hold more than they, and near ancestors, deserve."""
        job = self._jobs.get(reclaimer.job)
        taker = self._holders.get(job.queue) if job and job.queue not in self._faults else None
        if taker is None:
            return ()
        return may_take(Taking(taker, reclaimer.shape.requests, self._level), candidates, self._holder_of)

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task]:
        """For a gang of the same queue all; of another, as `reclaimable`, without looking at ancestors."""
        if purpose is Purpose.PREEMPT:
            return candidates
        taker = self._holders.get(job.queue) if job.queue not in self._faults else None
        return () if taker is None else may_take(Taking(taker, None, 0), candidates, self._holder_of)

    def job_valid(self, job: Job) -> Verdict:
        """Whether the job's queue has its place in the tree."""
        return self._faults.get(job.queue, PERMIT)

    def job_enqueueable(self, job: Job) -> Verdict:
        """Whether queue and ancestors could ever hold the job's minResources beside what they have and admitted."""
        if fault := self._faults.get(job.queue):
            return fault
        holder = self._holders.get(job.queue)
        if holder is None or not holder.account.queue.open:
            return reject(QUEUE_CLOSED, f"queue {job.queue} is not open")
        if job.min_resources is None:
            return PERMIT
        for account in holder.chain:
            if over := account.refused(job.min_resources):
                return reject(QUOTA_INSUFFICIENT, shortage("queue resource quota insufficient", "insufficient", over))
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        if holder := self._holders.get(job.queue):
            demand = minimum(job)
            for account in holder.chain:
                account.admit(demand)

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """Count what was placed or reserved."""
        if holder := self._holders.get(job.queue):
            for account in holder.chain:
                account.add(shape.requests, count)

    def promised(self, job: Job, shape: Shape, count: int) -> None:
        """Count what is kept for tasks whose gates are open."""
        if holder := self._holders.get(job.queue):
            for account in holder.chain:
                account.promise(shape.requests, count)

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """Count what was taken back."""
        if holder := self._holders.get(job.queue):
            for account in holder.chain:
                account.add(shape.requests, -count)
        if self._released is not None:
            self._released.add("", 1)

    def report(self, probe: Probe) -> None:
        """Tell what each queue has, wants and may have."""
        idle = [(queue, queue.deserved) for name, queue in self._queues.items() if name not in self._holders]
        self._gauges.tell(probe, [holder.account for holder in self._holders.values()], idle)

    def _holder_of(self, task: Task) -> Holder | None:
        job = self._jobs.get(task.job)
        return self._holders.get(job.queue) if job else None

    def _flat(self, session: SessionView) -> dict[str, Holder]:
        """Queues with jobs, each on its own."""
        guaranteed = total(queue.guarantee for queue in session.queues.values())
        table = partial(session.table, self.name)
        holders = {}
        for name in sorted(session.queues):
            queue = session.queues[name]
            if queue.jobs:
                ceiling = reachable(session.total, guaranteed, queue.guarantee, queue.capability)
                deserved = {
                    resource: min(amount, ceiling.get(resource, amount)) for resource, amount in queue.deserved.items()
                }
                account = Account(queue, maximum(deserved, queue.guarantee), ceiling, table, guarantee=queue.guarantee)
                holders[name] = Holder((account,))
        return holders

    def _in_tree(self, session: SessionView) -> dict[str, Holder]:
        """All queues whose way up is whole, with what those below them hold and want."""
        known = limits(self._branches, session.total)
        held: dict[str, Amounts] = {name: {} for name in known}
        wanted: dict[str, Amounts] = {name: {} for name in known}
        for name in known:
            queue = session.queues[name]
            for above in (name, *self._branches[name].ancestors):
                add(held[above], queue.allocated)
                add(wanted[above], queue.requested)
        accounts = {name: self._account(session, known[name], name, held[name], wanted[name]) for name in known}
        return {
            name: Holder((accounts[name], *(accounts[above] for above in self._branches[name].ancestors)))
            for name in known
        }

    def _account(self, session: SessionView, limit: Limits, name: str, held: Amounts, wanted: Amounts) -> Account:
        return Account(
            session.queues[name],
            limit.deserved,
            limit.ceiling,
            partial(session.table, self.name),
            guarantee=limit.guarantee,
            held=held,
            wanted=wanted,
        )

    def _count_admitted(self, session: SessionView) -> Checkpoints:
        """Take over what is admitted and what jobs hold beyond their minimum."""
        yield from self._demand.follow(session)
        for name, holder in self._holders.items():
            surplus, queued = self._demand.of(name)
            if not self._hierarchical:
                holder.account.elastic, holder.account.queued = surplus, queued
            elif surplus or queued:
                for account in holder.chain:
                    account.elastic = total((account.elastic, surplus))
                    account.queued = total((account.queued, queued))


def _standing(account: Account) -> tuple[float, bool]:
    """The share of what the queue deserves that it holds; 1 where it deserves nothing, and it is then after others."""
    if any(amount >= TOLERANCE for amount in account.deserved.values()):
        return account.share(), False
    return 1.0, True


def _fault(branch: Branch) -> Verdict | None:
    """Why no job can run in a queue because of its place in the tree."""
    if branch.fault:
        return reject(NO_WAY_UP, branch.fault)
    if branch.children and branch.queue.jobs:
        below = ", ".join(branch.children)
        return reject(NOT_A_LEAF, f'queue "{branch.queue.name}" has queues below it; submit to one of these: {below}')
    return None
