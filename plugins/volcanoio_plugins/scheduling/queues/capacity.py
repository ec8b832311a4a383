"""Plugin capacity: queues have a deserved amount, a guarantee and a capability of their own, flat or as a tree.

Source: Volcano pkg/scheduler/plugins/capacity (tree: buildHierarchicalQueueAttrs, checkHierarchicalQueue). Unlike
there, a missing parent or a cycle stops the queues below it, not the cluster; and on reclaim, the ancestors of the
queue that loses a task keep their guarantees too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints, Purpose, SortKey
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, Task
from volcanoio.model.names import ROOT_QUEUE
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, add, maximum, total
from volcanoio_plugins.scheduling.queues.attributes import (
    QUEUE_CLOSED,
    QUOTA_INSUFFICIENT,
    DemandSums,
    QueueAttributes,
    QueueLimits,
    admitted,
    compute_real_capability,
    elastic,
    minimum,
    queue_of,
)
from volcanoio_plugins.scheduling.queues.devicequota import DeviceQuota
from volcanoio_plugins.scheduling.queues.gauges import QueueGauges
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities, shortage

UNLIMITED = 2**62
"""An amount larger than any real one: the limit of the root if it has no capability."""


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One queue of the tree.

    `ancestors` are its parent, its parent's parent and so on up to the root; `children` the queues whose parent it is;
    `error` is why nothing can run in it if the path to the root is broken.
    """

    queue: QueueView
    ancestors: tuple[str, ...]
    children: tuple[str, ...]
    error: str = ""


def parent_of(queue: QueueView) -> str:
    """Return the name of a queue's parent: the root by default; "" for the root itself."""
    return "" if queue.name == ROOT_QUEUE else queue.object.spec.parent or ROOT_QUEUE


def build_tree(queues: Mapping[str, QueueView]) -> dict[str, Branch]:
    """Return all queues by name, sorted."""
    children: dict[str, list[str]] = {}
    for name in sorted(queues):
        children.setdefault(parent_of(queues[name]), []).append(name)
    branches = {}
    for name in sorted(queues):
        ancestors, error = _ancestors(queues, name)
        branches[name] = Branch(
            queue=queues[name], ancestors=ancestors, children=tuple(children.get(name, ())), error=error
        )
    return branches


def _ancestors(queues: Mapping[str, QueueView], name: str) -> tuple[tuple[str, ...], str]:
    """Return the ancestors of a queue, and an error text if the path to the root is broken."""
    path: list[str] = []
    at = name
    while at != ROOT_QUEUE:
        if (parent := parent_of(queues[at])) not in queues:
            return tuple(path), (
                f'queue "{at}" has the parent "{parent}", which does not exist; create it, or set spec.parent of "{at}"'
            )
        if parent == name or parent in path:
            circle = " -> ".join((*([name, *path][[name, *path].index(parent) :]), parent))
            return tuple(path), f"queues are their own ancestors: {circle}; set spec.parent of one of them"
        path.append(parent)
        at = parent
    return tuple(path), ""


def limits_of(branches: Mapping[str, Branch], available: Mapping[str, int]) -> dict[str, QueueLimits]:
    """Return the limits of each queue with a valid path to the root; `available` is the cluster's total.

    A capability that a queue does not set is inherited from its parent; the root's is unlimited. Of its parent's
    capability a queue can have what its siblings are not guaranteed.
    """
    capability: dict[str, Amounts] = {}
    result: dict[str, QueueLimits] = {}
    valid = [name for name, branch in branches.items() if not branch.error]
    for name in sorted(valid, key=lambda name: (len(branches[name].ancestors), name)):
        branch = branches[name]
        queue = branch.queue
        own = {
            resource: amount
            for resource, amount in queue.capability.items()
            if amount > 0 or resource not in (CPU, MEMORY)
        }
        if name == ROOT_QUEUE:
            children = [branches[child].queue for child in branch.children]
            capability[name] = {**dict.fromkeys((CPU, MEMORY, *available), UNLIMITED), **own}
            result[name] = QueueLimits(
                real_capability=capability[name],
                deserved=total(maximum(child.deserved, child.guarantee) for child in children),
                guarantee=total(child.guarantee for child in children),
            )
            continue
        parent = branch.ancestors[0]
        capability[name] = {**capability[parent], **own}
        guaranteed: Amounts = {}
        for sibling in branches[parent].children:
            add(guaranteed, branches[sibling].queue.guarantee)
        result[name] = QueueLimits(
            real_capability=compute_real_capability(
                result[parent].real_capability, guaranteed, queue.guarantee, capability[name]
            ),
            deserved=maximum(queue.deserved, queue.guarantee),
            guarantee=dict(queue.guarantee),
        )
    return result


class QueueChain(NamedTuple):
    """The attributes of a queue and of its ancestors up to the root."""

    members: tuple[QueueAttributes, ...]

    @property
    def own(self) -> QueueAttributes:
        """The queue's own attributes."""
        return self.members[0]

    def near(self, level: int) -> tuple[QueueAttributes, ...]:
        """Return the ancestors up to `level` steps above the queue, without the root."""
        return tuple(attr for attr in self.members[1 : 1 + level] if attr.queue.name != ROOT_QUEUE)

    def common(self, other: QueueChain) -> set[str]:
        """Return the names of the ancestors that both have."""
        return {attr.queue.name for attr in self.members[1:]} & {attr.queue.name for attr in other.members[1:]}


class ReclaimRequest(NamedTuple):
    """The reclaiming queue, what its task requests (None: not checked), and how many ancestors count."""

    chain: QueueChain
    requests: Mapping[str, int] | None
    level: int


def reclaimable(
    reclaim: ReclaimRequest, candidates: Sequence[Task], chain_of: Callable[[Task], QueueChain | None]
) -> list[Task]:
    """Return the candidates, in their order, that may be reclaimed together."""
    allocated: dict[str, Amounts] = {}
    victims = []
    for task in candidates:
        if (chain := chain_of(task)) is None:
            continue
        for attr in chain.members:
            allocated.setdefault(attr.queue.name, attr.allocated())
        if _can_lose(reclaim, chain, task.shape.requests, allocated):
            victims.append(task)
            for attr in chain.members:
                add(allocated[attr.queue.name], task.shape.requests, -1)
    return victims


def _can_lose(
    reclaim: ReclaimRequest, chain: QueueChain, requests: Mapping[str, int], allocated: Mapping[str, Amounts]
) -> bool:
    """Return whether a queue may lose a task, after the tasks that it and others have lost already."""
    if reclaim.requests is not None and not _have_common_resource(requests, reclaim.requests, ignored=PODS):
        return False
    attr = chain.own
    shared = reclaim.chain.common(chain) | {reclaim.chain.own.queue.name}
    for loser in chain.members:
        if loser.queue.name not in shared and not loser.covers_guarantee(allocated[loser.queue.name], requests):
            return False
    if not _have_common_resource(requests, attr.deserved):
        if _have_common_ancestor(reclaim, chain) and not _have_common_resource(
            reclaim.requests or {}, reclaim.chain.own.deserved
        ):
            return False
    elif not _exceeds(allocated[attr.queue.name], attr.deserved, requests):
        return False
    return all(
        not _have_common_resource(requests, above.deserved)
        or _exceeds(allocated[above.queue.name], above.deserved, requests)
        for above in _unshared_ancestors(reclaim, chain)
    )


def _unshared_ancestors(reclaim: ReclaimRequest, chain: QueueChain) -> list[QueueAttributes]:
    """Return the near ancestors of a queue that are not at the same level above the reclaiming queue."""
    own = reclaim.chain.members
    return [
        attr
        for step, attr in enumerate(chain.members[1 : 1 + reclaim.level], 1)
        if attr.queue.name != ROOT_QUEUE and not (step < len(own) and own[step] is attr)
    ]


def _have_common_ancestor(reclaim: ReclaimRequest, chain: QueueChain) -> bool:
    near = {attr.queue.name for attr in reclaim.chain.near(reclaim.level)}
    return any(attr.queue.name in near for attr in chain.near(reclaim.level))


def _have_common_resource(left: Quantities, right: Quantities, *, ignored: str = "") -> bool:
    return any(
        amount >= TOLERANCE and right.get(name, 0) >= TOLERANCE for name, amount in left.items() if name != ignored
    )


def _exceeds(allocated: Quantities, deserved: Quantities, requests: Mapping[str, int]) -> bool:
    """Return whether a queue exceeds its deserved amount of a requested resource for which it has one."""
    return any(
        amount > 0
        and name != PODS
        and (deserved.get(name, 0) >= TOLERANCE if name in (CPU, MEMORY) else name in deserved)
        and allocated.get(name, 0) > deserved[name]
        for name, amount in requests.items()
    )


HIERARCHY_BROKEN, NOT_A_LEAF = "QueueHierarchyBroken", "QueueNotLeaf"


class CapacityArguments(msgspec.Struct, frozen=True):
    """`ancestorReclaimLevel`: how many ancestors of a queue count on reclaim; below 0 means 0.

    The others: whether claimed devices count against queues, and whether their capacity does, too.
    """

    ancestor_level: int = msgspec.field(default=0, name="ancestorReclaimLevel")
    devices: bool = msgspec.field(default=False, name="capacity.DynamicResourceAllocationEnable")
    device_capacity: bool = msgspec.field(default=False, name="capacity.DRAConsumableCapacityEnable")


class Capacity:
    """Orders queues by their share of the deserved amount; each stays within its own capability and its ancestors'."""

    name = "capacity"
    keeps_enqueue_verdicts = True
    keeps_verdicts = True
    watches: tuple[str, ...] = ()

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, CapacityArguments, self.name)
        self._devices = DeviceQuota(capacity=given.device_capacity) if given.devices else None
        if self._devices is not None:
            self.watches = self._devices.watches
            self.keeps_enqueue_verdicts = False  # the claims of a job's own pods count
        self._level = max(given.ancestor_level, 0)
        self._hierarchical = False
        self._jobs: Mapping[str, Job] = {}
        self._queues: Mapping[str, QueueView] = {}
        self._branches: Mapping[str, Branch] = {}
        self._chains: dict[str, QueueChain] = {}
        self._rejections: dict[str, Verdict] = {}
        self._released: Table | None = None
        self._demand = DemandSums(queue_of, elastic, admitted)
        self._gauges = QueueGauges(lambda attr: attr.share() > 1, UNLIMITED)

    def use_hierarchy(self, enabled: bool) -> None:
        """Set whether queues form a tree."""
        self._hierarchical = enabled

    def open(self, session: SessionView) -> Checkpoints:
        """Compute limits and amounts of each queue; without a tree, of those with jobs only."""
        self._jobs, self._queues = session.jobs, session.queues
        self._released = session.table(self.name, "released")
        self._branches = build_tree(session.queues) if self._hierarchical else {}
        self._rejections = {
            name: error for name, branch in self._branches.items() if (error := _hierarchy_verdict(branch))
        }
        if self._devices is not None:
            above = {name: branch.ancestors for name, branch in self._branches.items()}
            self._devices.open(session, partial(session.table, self.name), above)
        self._chains = self._in_tree(session) if self._hierarchical else self._flat(session)
        return self._count_admitted(session)

    def queue_key(self, queue: QueueView) -> SortKey:
        """Order queues by priority, then by share; in a tree, by that of the first ancestors that differ."""
        if (chain := self._chains.get(queue.name)) is None:
            return -queue.priority, True, ()
        if not self._hierarchical:
            return -queue.priority, False, _share_key(chain.own)
        path = [(*_share_key(attr), attr.tie_breaker) for attr in reversed(chain.members[:-1])]
        return -queue.priority, bool(self._branches[queue.name].children), tuple(path)

    def queue_generation(self) -> int | None:
        """Return a number that changes with each release: in a tree, queues also change with their siblings."""
        return self._released.version if self._hierarchical and self._released is not None else None

    def victim_key(self, queue: QueueView, preemptor: QueueView) -> int:
        """Return the queue's key: in a tree, queues with the nearest ancestor in common with the preemptor's first."""
        if not self._hierarchical or not {queue.name, preemptor.name} <= self._chains.keys():
            return 0
        return -len(self._chains[queue.name].common(self._chains[preemptor.name]))

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        """Return how many tasks stay within the limits of the queue and its ancestors; 0 if it is closed."""
        if (chain := self._chains.get(queue.name)) is None or not queue.is_open or queue.name in self._rejections:
            return 0
        for attr in chain.members:
            count = attr.fits(shape.requests, count, attr.real_capability)
            if self._devices is not None and shape.device_claims:
                count = self._devices.fits(attr, shape, count)
        return count

    def room_details(self, queue: QueueView, shape: Shape, count: int) -> str:
        """Explain the limit of the queue, or of its first ancestor that is exceeded."""
        if not queue.is_open:
            return f"queue {queue.name} is not open"
        chain = self._chains.get(queue.name)
        for attr in chain.members if chain is not None else ():
            if text := attr.explain_limit(shape.requests, count, attr.real_capability, "limit"):
                return text
            if self._devices is not None and (text := self._devices.explain(attr, shape, count)):
                return text
        return ""

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Return whether the queue stays within its limit, and it or a near ancestor within a deserved amount."""
        if (chain := self._chains.get(queue.name)) is None or not queue.is_open or queue.name in self._rejections:
            return False
        requests = total(task.shape.requests for task in tasks)
        if not chain.own.fits(requests, 1, chain.own.real_capability):
            return False
        near = (chain.own, *chain.near(self._level))
        return any(attr.within_deserved(requests) for attr in near)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return tasks of queues that keep their guarantee and have more than they, and near ancestors, deserve."""
        job = self._jobs.get(reclaimer.job)
        chain = self._chains.get(job.queue) if job and job.queue not in self._rejections else None
        if chain is None:
            return ()
        return reclaimable(ReclaimRequest(chain, reclaimer.shape.requests, self._level), candidates, self._chain_of)

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task]:
        """For a gang of the same queue return all; else as `reclaimable`, without ancestors."""
        if purpose is Purpose.PREEMPT:
            return candidates
        chain = self._chains.get(job.queue) if job.queue not in self._rejections else None
        return () if chain is None else reclaimable(ReclaimRequest(chain, None, 0), candidates, self._chain_of)

    def job_valid(self, job: Job) -> Verdict:
        """Reject jobs of queues whose place in the tree is invalid."""
        return self._rejections.get(job.queue, PERMIT)

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit the job if queue and ancestors could hold its minResources beside what is allocated and admitted."""
        if error := self._rejections.get(job.queue):
            return error
        if (chain := self._chains.get(job.queue)) is None or not chain.own.queue.is_open:
            return reject(QUEUE_CLOSED, f"queue {job.queue} is not open")
        devices = self._devices.demand(job) if self._devices is not None else {}
        for attr in chain.members:
            if job.min_resources is not None and (rejection := attr.rejection(job.min_resources, job.queue)):
                return rejection
            if self._devices is not None and (over := self._devices.insufficient(attr, devices)):
                text = shortage("queue resource quota insufficient", "insufficient", over)
                details = partial(self._devices.explain_shortage, attr, devices, over)
                return reject(QUOTA_INSUFFICIENT, text, details)
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        if chain := self._chains.get(job.queue):
            demand = minimum(job)
            if self._devices is not None:
                demand = total((demand, self._devices.demand(job)))
            for attr in chain.members:
                attr.admit(demand)

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """Count allocated and pipelined tasks."""
        if chain := self._chains.get(job.queue):
            for attr in chain.members:
                attr.add(shape.requests, count)
                if self._devices is not None:
                    self._devices.count(attr, shape, count)

    def reserved(self, job: Job, shape: Shape, count: int) -> None:
        """Count reservations of tasks whose gates were removed."""
        if chain := self._chains.get(job.queue):
            for attr in chain.members:
                attr.reserve(shape.requests, count)

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """Count released tasks."""
        if chain := self._chains.get(job.queue):
            for attr in chain.members:
                attr.add(shape.requests, -count)
                if self._devices is not None:
                    self._devices.count(attr, shape, -count)
        if self._released is not None:
            self._released.add("", 1)

    def queue_usage(self, queue: QueueView) -> Amounts:
        """Return the devices that the queue's tasks have claimed, for its status."""
        return self._devices.own_usage(queue.name) if self._devices is not None else {}

    def report(self, probe: Probe) -> None:
        """Report the amounts of each queue."""
        idle = [(queue, queue.deserved) for name, queue in self._queues.items() if name not in self._chains]
        self._gauges.report(probe, [chain.own for chain in self._chains.values()], idle)

    def _chain_of(self, task: Task) -> QueueChain | None:
        job = self._jobs.get(task.job)
        return self._chains.get(job.queue) if job else None

    def _flat(self, session: SessionView) -> dict[str, QueueChain]:
        """Return queues with jobs, each on its own."""
        guaranteed = total(queue.guarantee for queue in session.queues.values())
        table = partial(session.table, self.name)
        chains = {}
        for name in sorted(session.queues):
            queue = session.queues[name]
            if queue.jobs:
                real_capability = compute_real_capability(session.total, guaranteed, queue.guarantee, queue.capability)
                deserved = {
                    resource: min(amount, real_capability.get(resource, amount))
                    for resource, amount in queue.deserved.items()
                }
                limits = QueueLimits(
                    deserved=maximum(deserved, queue.guarantee),
                    real_capability=real_capability,
                    guarantee=queue.guarantee,
                )
                attr = QueueAttributes(queue, limits, table, allocated=self._allocated(queue, queue.allocated))
                chains[name] = QueueChain((attr,))
        return chains

    def _in_tree(self, session: SessionView) -> dict[str, QueueChain]:
        """Return all queues with a valid path to the root, including the amounts of the queues below them."""
        known = limits_of(self._branches, session.total)
        allocated: dict[str, Amounts] = {name: {} for name in known}
        requested: dict[str, Amounts] = {name: {} for name in known}
        for name in known:
            queue = session.queues[name]
            for above in (name, *self._branches[name].ancestors):
                add(allocated[above], queue.allocated)
                add(requested[above], queue.requested)
        table = partial(session.table, self.name)
        attrs = {
            name: QueueAttributes(
                session.queues[name],
                known[name],
                table,
                allocated=self._allocated(session.queues[name], allocated[name]),
                requested=requested[name],
            )
            for name in known
        }
        return {
            name: QueueChain((attrs[name], *(attrs[above] for above in self._branches[name].ancestors)))
            for name in known
        }

    def _allocated(self, queue: QueueView, amounts: Mapping[str, int]) -> Amounts:
        """Return what a queue has allocated, with the devices that its tasks have claimed."""
        return {**amounts, **(self._devices.usage(queue.name) if self._devices is not None else {})}

    def _count_admitted(self, session: SessionView) -> Checkpoints:
        yield from self._demand.update(session)
        for name, chain in self._chains.items():
            surplus, queued = self._demand.of(name)
            if not self._hierarchical:
                chain.own.elastic, chain.own.queued = surplus, queued
            elif surplus or queued:
                for attr in chain.members:
                    attr.elastic = total((attr.elastic, surplus))
                    attr.queued = total((attr.queued, queued))
        for name, demand in (self._devices.admitted() if self._devices is not None else {}).items():
            for attr in self._chains[name].members if name in self._chains else ():
                attr.queued = total((attr.queued, demand))


def _share_key(attr: QueueAttributes) -> tuple[float, bool]:
    """Return the share of the deserved amount, and whether the queue deserves nothing: then it is 1, after others."""
    if any(amount >= TOLERANCE for amount in attr.deserved.values()):
        return attr.share(), False
    return 1.0, True


def _hierarchy_verdict(branch: Branch) -> Verdict | None:
    """Return the rejection of jobs in a queue whose place in the tree is invalid, None if it is valid."""
    if branch.error:
        return reject(HIERARCHY_BROKEN, branch.error)
    if branch.children and branch.queue.jobs:
        below = ", ".join(branch.children)
        return reject(NOT_A_LEAF, f'queue "{branch.queue.name}" has queues below it; submit to one of these: {below}')
    return None
