"""What would help a waiting job, found and proven by simulation.

Each remedy was applied to a copy of the state and the job was placed; where a remedy is an amount, one unit less did
not place it. A trial runs some cycles, in which evicted and terminating pods end at once and nothing else happens. Pods
that do not exist yet are not simulated: a job without them counts as helped when it is admitted to its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.topology.domains import SOFT
from volcanoio.framework.arguments import pluralize
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Node, Pod, ResourceList, ResourceQuota, Toleration
from volcanoio.model.resources import CPU, LARGEST, MEMORY, PODS, amount_text, format_amount, stored_amounts
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue, QueueSpec, QueueState, QueueStatus

Build: TypeAlias = Callable[[Sequence[ApiObject]], Offline]
"""Returns a scheduler that has read these objects and has run no cycle yet."""
CYCLES = 4
"""Cycles of a trial: one to admit and place, others until the pods that it evicts are gone."""
MAX_TRIALS = 400
_MAX_NODES, _MAX_ENDS, _MAX_ALONE = 64, 48, 3
"""Most further nodes, most jobs whose end is tried alone, and how many of those are named."""
_MAX_WEIGHT = 1 << 10
"""Largest addition to a weight that is tried; it leaves other queues a thousandth."""
_MEBI = 1 << 20
NODE_TAINTS = "node.kubernetes.io/"
"""Beginning of the keys of taints that follow from a node's state."""
_NOT_ADMITTED = ("", PodGroupPhase.PENDING)
_MILLI = 1000


class RemedyKind(StrEnum):
    """What is changed."""

    WAIT = "wait"
    """Nothing: it is placed once pods that terminate, and those evicted for it, are gone."""
    CREATE_QUEUE = "create-queue"
    OPEN_QUEUE = "open-queue"
    CAPABILITY = "capability"
    """The capability of its queue, or of one above it, grows."""
    DESERVED = "deserved"
    """What its queue, or one above it, deserves grows."""
    WEIGHT = "weight"
    """The weight of its queue is larger."""
    QUOTA = "quota"
    """A ResourceQuota of its namespace grows."""
    NODES = "nodes"
    """There are further nodes like one that exists."""
    RESOURCE = "resource"
    """There is one further node, of which only these amounts matter."""
    MIN_AVAILABLE = "min-available"
    """Its minimum is lower."""
    TIER = "tier"
    """Its hard network topology allows a higher tier."""
    END = "end"
    """Other jobs end."""
    UNCORDON = "uncordon"
    TOLERATE = "tolerate"
    """Its pods tolerate a taint."""
    UNGATE = "ungate"
    """Its pods lose their scheduling gates."""


class Remedy(msgspec.Struct, frozen=True):
    """A change after which the job is placed. `change` has the new or added values by field, `text` is for people."""

    kind: RemedyKind
    target: str
    change: dict[str, str]
    text: str


_OTHERWISE = (RemedyKind.MIN_AVAILABLE, RemedyKind.END)
_MAKE_ROOM = (RemedyKind.NODES, RemedyKind.RESOURCE, RemedyKind.MIN_AVAILABLE, RemedyKind.UNCORDON, RemedyKind.END)
_SHARES = (RemedyKind.DESERVED, RemedyKind.WEIGHT)
_KINDS: Mapping[str, tuple[RemedyKind, ...]] = {
    codes.QUEUE_NOT_FOUND: (RemedyKind.CREATE_QUEUE,),
    "QueueClosed": (RemedyKind.OPEN_QUEUE,),
    "QueueQuotaInsufficient": (RemedyKind.CAPABILITY, RemedyKind.MIN_AVAILABLE, RemedyKind.END),
    codes.QUEUE_QUOTA: (RemedyKind.CAPABILITY, *_SHARES, *_MAKE_ROOM),
    codes.QUEUE_OVERUSED: (RemedyKind.CAPABILITY, *_SHARES, *_MAKE_ROOM),
    "ClusterInsufficient": _MAKE_ROOM,
    "ClusterOverused": _MAKE_ROOM,
    "ResourceQuotaInsufficient": (RemedyKind.QUOTA, RemedyKind.MIN_AVAILABLE),
    "NamespaceHoldsBack": (RemedyKind.END,),
    codes.SCHEDULING_GATED: (RemedyKind.UNGATE,),
    codes.NOT_TRIED: (*_SHARES, *_MAKE_ROOM),
    codes.LARGER_THAN_ANY_NODE: (RemedyKind.RESOURCE,),
    codes.INSUFFICIENT: (*_MAKE_ROOM, *_SHARES),
    codes.FRAGMENTED: (*_MAKE_ROOM, *_SHARES),
    codes.TOO_MANY_PODS: _MAKE_ROOM,
    codes.NETWORK_TOPOLOGY: (RemedyKind.TIER, *_MAKE_ROOM),
    codes.SEARCH_INCOMPLETE: (RemedyKind.TIER, *_MAKE_ROOM),
    codes.INVALID_HYPER_NODES: (),
    codes.NO_NODES: (),
    "NodeUnschedulable": (RemedyKind.UNCORDON, RemedyKind.MIN_AVAILABLE, RemedyKind.END),
    "UntoleratedTaint": (RemedyKind.TOLERATE, RemedyKind.MIN_AVAILABLE, RemedyKind.END),
    "PodAntiAffinity": (RemedyKind.NODES, RemedyKind.MIN_AVAILABLE, RemedyKind.END),
    "TopologySpread": (RemedyKind.NODES, RemedyKind.MIN_AVAILABLE, RemedyKind.END),
    "HostPort": (RemedyKind.NODES, RemedyKind.MIN_AVAILABLE, RemedyKind.END),
    codes.PODS_MISSING: (),
    "NotEnoughTasks": (RemedyKind.MIN_AVAILABLE,),
    "NotEnoughPodsOfTask": (),
    codes.POD_GROUP_NOT_FOUND: (),
    "NodeNotReady": _OTHERWISE,
}
"""Which kinds are tried for which code, in order; none where only other programs can help."""


class TooManyTrialsError(Exception):
    """The limit of trials is reached."""


class RemedySearch:
    """Searches remedies for one job.

    `later` are pods that the job gets once it is admitted. Until its controller has created them, other jobs may take
    the room: a trial adds them a cycle after the admission.

    `is_complete` becomes False when the limit of trials ended the search: what was found holds, more may help.
    """

    def __init__(
        self,
        objects: Sequence[ApiObject],
        build: Build,
        job: str,
        diagnosis: Diagnosis,
        *,
        later: Sequence[ApiObject] = (),
    ) -> None:
        self._objects = list(objects)
        self._build = build
        self._job = job
        self._diagnosis = diagnosis
        self._later = later
        self.trials = MAX_TRIALS
        """Trials that are left."""
        self.is_complete = True
        self._known = build(self._objects).state.ledger
        self._waits_for_admission = self._known.jobs[job].phase in _NOT_ADMITTED

    @property
    def has_pods(self) -> bool:
        """Whether the minimum of pods exists, so that a remedy places them; otherwise it has the job admitted."""
        job = self._known.jobs[self._job]
        return len(job.members) + len(self._later) >= max(job.min_available, 1)

    def search(self) -> list[Remedy]:
        """Return the smallest remedy of each kind; of several queues, taints or jobs, each that suffices alone."""
        found: list[Remedy] = []
        if not (tried := _KINDS.get(self._diagnosis.code, _OTHERWISE)):
            return found
        try:
            if self._helps({}):
                return [self._wait()]
            for kind in tried:
                found += self._SEARCHES[kind](self)
        except TooManyTrialsError:
            self.is_complete = False
        return found

    # Trials.

    def _helps(
        self,
        replaced: Mapping[tuple[str, str], ApiObject],
        added: Sequence[ApiObject] = (),
        gone: frozenset[str] = frozenset(),
    ) -> bool:
        """Return whether the job is placed with these objects replaced and added, and without the pods of `gone` jobs.

        Raises TooManyTrialsError.
        """
        if not self.trials:
            raise TooManyTrialsError
        self.trials -= 1
        leaving = {task.uid for key in gone for task in self._known.jobs[key].members.values()}
        objects = [
            replaced.get((kinds.of(obj).resource, obj.metadata.key), obj)
            for obj in self._objects
            if obj.metadata.uid not in leaving and not (isinstance(obj, PodGroup) and obj.metadata.key in gone)
        ]
        offline, later = self._build([*objects, *added]), self._later
        for _ in range(CYCLES + bool(later)):
            offline.run(1)
            job = offline.state.ledger.jobs.get(self._job)
            if later and job is not None and job.phase not in _NOT_ADMITTED:
                for obj in later:
                    offline.put(obj)
                later = ()
            elif not later and job is not None and self._is_placed(job):
                return True
            for obj in [obj for obj in offline.objects.values() if isinstance(obj, Pod)]:
                if obj.metadata.deletion_timestamp:
                    offline.remove(kinds.POD, obj.metadata.key)
        return False

    def _is_placed(self, job: JobInfo) -> bool:
        """Return whether more pods than before run, and the minimum; without enough pods, whether it is admitted."""
        if len(job.members) < job.min_available or not job.members:
            if self._diagnosis.code == codes.QUEUE_NOT_FOUND:
                return job.schedulable
            return self._waits_for_admission and job.phase not in _NOT_ADMITTED
        return job.ready_count >= max(job.min_available, self._diagnosis.ready + 1)

    def _smallest(self, unit: int, works: Callable[[int], bool], *, most: int = LARGEST // 8) -> int | None:
        """Return the smallest multiple of a unit above zero that works; None if even `most` does not."""
        high = unit
        while not works(high):
            high *= 4
            if high > most:
                return None
        low = 0 if high == unit else high // 4
        while high - low > unit:
            middle = (low + high) // 2 // unit * unit
            low, high = (low, middle) if works(middle) else (middle, high)
        return high

    def _amounts(self, names: Sequence[str], works: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
        """Return the smallest amounts of these resources that work together, {} if none do.

        One resource after the other is made as small as the others then allow; those not needed are left out.
        """
        amounts = dict.fromkeys(names, LARGEST // 8)
        if not names or not works(amounts):
            return {}
        for name in names:
            if works({**amounts, name: 0}):
                amounts[name] = 0
                continue
            found = self._smallest(_unit(name), lambda amount, name=name: works({**amounts, name: amount}))  # type: ignore[misc]
            amounts[name] = amounts[name] if found is None else found
        return {name: amount for name, amount in amounts.items() if amount}

    # Kinds of remedies.

    def _wait(self) -> Remedy:
        is_for_victims = self._diagnosis.code == codes.WAITING_FOR_VICTIMS
        when = (
            "when the pods that end or are evicted for it are gone" if is_for_victims else "in one of the next cycles"
        )
        return Remedy(RemedyKind.WAIT, "", {}, f"nothing has to change: it is placed {when}")

    def _create_queue(self) -> Iterator[Remedy]:
        name = self._diagnosis.queue
        if self._helps({}, [new_queue(name)]):
            yield Remedy(RemedyKind.CREATE_QUEUE, f"queue/{name}", {"spec.weight": "1"}, f"create queue {name}")

    def _open_queue(self) -> Iterator[Remedy]:
        if (queue := self._queue(self._diagnosis.queue)) is None:
            return
        name = queue.metadata.name
        status = msgspec.structs.replace(queue.status, state=QueueState.OPEN)
        if self._helps(_as_replaced(msgspec.structs.replace(queue, status=status))):
            yield Remedy(RemedyKind.OPEN_QUEUE, f"queue/{name}", {"status.state": "Open"}, f"open queue {name}")

    def _capability(self) -> Iterator[Remedy]:
        return self._queue_amounts(RemedyKind.CAPABILITY, "capability")

    def _deserved(self) -> Iterator[Remedy]:
        return self._queue_amounts(RemedyKind.DESERVED, "deserved")

    def _queue_amounts(self, kind: RemedyKind, field: str) -> Iterator[Remedy]:
        """Yield larger amounts in a field of its queue, or of the nearest one above it where that helps."""
        name, seen = self._diagnosis.queue, set[str]()
        while name not in seen and (queue := self._queue(name)) is not None:
            seen.add(name)
            amounts = stored_amounts(getattr(queue.spec, field))

            def grown(extra: Mapping[str, int], queue: Queue = queue) -> Queue:
                larger = {field: _plus(getattr(queue.spec, field), extra)}
                return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, **larger))

            extra = self._amounts(sorted(amounts), lambda extra: self._helps(_as_replaced(grown(extra))))
            if extra:
                change = {f"spec.{field}.{each}": format_amount(each, amounts[each] + extra[each]) for each in extra}
                yield Remedy(kind, f"queue/{name}", change, f"{field} of queue {name}: {_listed(extra)} more")
                return
            name = queue.spec.parent

    def _weight(self) -> Iterator[Remedy]:
        if (queue := self._queue(self._diagnosis.queue)) is None:
            return
        name, weight = queue.metadata.name, queue.spec.weight

        def helps(extra: int) -> bool:
            spec = msgspec.structs.replace(queue.spec, weight=weight + extra)
            return self._helps(_as_replaced(msgspec.structs.replace(queue, spec=spec)))

        if helps(_MAX_WEIGHT) and (extra := self._smallest(1, helps, most=_MAX_WEIGHT)) is not None:
            change = {"spec.weight": str(weight + extra)}
            text = f"weight {weight + extra} of queue {name} instead of {weight}"
            yield Remedy(RemedyKind.WEIGHT, f"queue/{name}", change, text)

    def _quota(self) -> Iterator[Remedy]:
        namespace = self._job.partition("/")[0]
        for quota in self._objects:
            if not isinstance(quota, ResourceQuota) or quota.metadata.namespace != namespace:
                continue

            def grown(extra: Mapping[str, int], quota: ResourceQuota = quota) -> ResourceQuota:
                spec = msgspec.structs.replace(quota.spec, hard=_plus(quota.spec.hard, extra))
                status = msgspec.structs.replace(quota.status, hard=_plus(quota.status.hard, extra))
                return msgspec.structs.replace(quota, spec=spec, status=status)

            hard = stored_amounts({**quota.spec.hard, **quota.status.hard})
            extra = self._amounts(sorted(hard), lambda extra: self._helps(_as_replaced(grown(extra))))
            if extra:
                name = quota.metadata.name
                change = {f"spec.hard.{each}": format_amount(each, hard[each] + extra[each]) for each in extra}
                text = f"ResourceQuota {name}: {_listed(extra)} more"
                yield Remedy(RemedyKind.QUOTA, f"resourcequota/{namespace}/{name}", change, text)

    def _nodes(self) -> Iterator[Remedy]:
        if (like := self._example_node()) is None:
            return

        def helps(count: int) -> bool:
            return self._helps({}, [another_node(like, f"{like.metadata.name}-further-{at}") for at in range(count)])

        if (count := self._smallest(1, helps, most=_MAX_NODES)) is None:
            return
        name = like.metadata.name
        yield Remedy(
            RemedyKind.NODES, f"node/{name}", {"nodes": str(count)}, f"{pluralize(count, 'more node')} like {name}"
        )

    def _resource(self) -> Iterator[Remedy]:
        if (like := self._example_node()) is None:
            return
        further = another_node(like, f"{like.metadata.name}-further")
        extra = self._amounts(self._requested(), lambda amounts: self._helps({}, [_with_amounts(further, amounts)]))
        if extra:
            name = like.metadata.name
            change = {each: format_amount(each, amount) for each, amount in extra.items()}
            yield Remedy(
                RemedyKind.RESOURCE, f"node/{name}", change, f"one more node like {name} with {_listed(extra)}"
            )

    def _group(self) -> PodGroup | None:
        return next((obj for obj in self._objects if isinstance(obj, PodGroup) and obj.metadata.key == self._job), None)

    def _tier(self) -> Iterator[Remedy]:
        if (group := self._group()) is None or (topology := group.spec.network_topology) is None:
            return
        tree = self._known.hyper_nodes.tree()
        now = topology.highest_tier_allowed
        now = tree.tier_names.get(topology.highest_tier_name) if now is None else now
        if topology.mode == SOFT or now is None:
            return
        for tier in sorted(set(tree.tiers.tolist())):
            wider = NetworkTopology(mode=topology.mode, highest_tier_allowed=tier)
            changed = msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, network_topology=wider))
            if tier > now and self._helps(_as_replaced(changed)):
                change = {"spec.networkTopology.highestTierAllowed": str(tier)}
                text = f"highestTierAllowed {tier} instead of {now}"
                yield Remedy(RemedyKind.TIER, f"podgroup/{self._job}", change, text)
                return

    def _min_available(self) -> Iterator[Remedy]:
        group = self._group()
        if group is None or group.spec.min_member <= 1:
            return
        least, low = group.spec.min_member, 0
        if not self._helps(_as_replaced(_with_minimum(group, 1))):
            return
        low, high = 1, least
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._helps(_as_replaced(_with_minimum(group, middle))) else (low, middle)
        resources = _with_minimum(group, low).spec.min_resources or {}
        change = {"spec.minMember": str(low)} | {
            f"spec.minResources.{name}": str(resources[name]) for name in resources
        }
        text = f"minAvailable {low} instead of {least}{', minResources alike' if resources else ''}"
        yield Remedy(RemedyKind.MIN_AVAILABLE, f"podgroup/{self._job}", change, text)

    def _end(self) -> Iterator[Remedy]:
        running = [
            job for job in self._known.jobs.values() if job.key != self._job and job.has_group and job.ready_count
        ]
        total = self._known.columns.totals(Quantity.ALLOCATABLE)

        def share(job: JobInfo) -> tuple[float, str]:
            """Return the largest part of the cluster that the job has of a resource that is needed, to sort by it."""
            return max(job.allocated.get(name, 0) / max(total.get(name, 0), 1) for name in self._requested()), job.key

        by_size = sorted(running, key=share)
        if len(by_size) > _MAX_ENDS:
            by_size = [*by_size[: _MAX_ENDS // 2], *by_size[-_MAX_ENDS // 2 :]]
            self.is_complete = False
        alone = 0
        for job in by_size:
            if self._helps({}, gone=frozenset([job.key])):
                alone += 1
                yield Remedy(RemedyKind.END, f"podgroup/{job.key}", {}, f"the end of {job.key}")
                if alone == _MAX_ALONE:
                    return
        if alone:
            return
        oldest = [job.key for job in sorted(running, key=lambda job: (job.created, job.key))]
        if len(oldest) < 2 or not self._helps({}, gone=frozenset(oldest)):
            return
        low, high = 1, len(oldest)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._helps({}, gone=frozenset(oldest[:middle])) else (middle, high)
        named = ", ".join(oldest[:high])
        yield Remedy(RemedyKind.END, "", {"jobs": named}, f"the end of the {high} oldest running jobs: {named}")

    def _uncordon(self) -> Iterator[Remedy]:
        cordoned = [obj for obj in self._objects if isinstance(obj, Node) and obj.spec.unschedulable]
        freed = {kinds.NODE.resource + "/" + node.metadata.name: _uncordoned(node) for node in cordoned}
        for name, node in list(freed.items())[:_MAX_NODES]:
            if self._helps(_as_replaced(node)):
                target = name.replace(kinds.NODE.resource, "node")
                yield Remedy(
                    RemedyKind.UNCORDON, target, {"spec.unschedulable": "false"}, f"uncordon {node.metadata.name}"
                )
                return
        if len(freed) > 1 and self._helps(_as_replaced(*freed.values())):
            yield Remedy(RemedyKind.UNCORDON, "", {}, f"uncordon all {len(freed)} cordoned nodes")

    def _tolerate(self) -> Iterator[Remedy]:
        taints = {
            (taint.key, taint.effect) for obj in self._objects if isinstance(obj, Node) for taint in obj.spec.taints
        }
        pods = [task.pod for task in self._known.jobs[self._job].pending.values()]
        for key, effect in sorted(taints):
            toleration = Toleration(key=key, operator="Exists", effect=effect)
            changed = [
                msgspec.structs.replace(
                    pod, spec=msgspec.structs.replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration))
                )
                for pod in pods
            ]
            if self._helps(_as_replaced(*changed)):
                change = {"spec.tolerations": f"{key}:{effect}"}
                yield Remedy(
                    RemedyKind.TOLERATE, f"podgroup/{self._job}", change, f"its pods tolerate the taint {key}:{effect}"
                )

    def _ungate(self) -> Iterator[Remedy]:
        pods = [task.pod for task in self._known.jobs[self._job].pending.values() if task.is_gated]
        freed = [
            msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=())) for pod in pods
        ]
        if self._helps(_as_replaced(*freed)):
            gates = ", ".join(sorted({gate.name for pod in pods for gate in pod.spec.scheduling_gates}))
            yield Remedy(
                RemedyKind.UNGATE, f"podgroup/{self._job}", {"gates": gates}, f"its pods lose the gates {gates}"
            )

    _SEARCHES: Mapping[RemedyKind, Callable[[RemedySearch], Iterator[Remedy]]] = {
        RemedyKind.CREATE_QUEUE: _create_queue,
        RemedyKind.OPEN_QUEUE: _open_queue,
        RemedyKind.CAPABILITY: _capability,
        RemedyKind.DESERVED: _deserved,
        RemedyKind.WEIGHT: _weight,
        RemedyKind.QUOTA: _quota,
        RemedyKind.NODES: _nodes,
        RemedyKind.RESOURCE: _resource,
        RemedyKind.MIN_AVAILABLE: _min_available,
        RemedyKind.TIER: _tier,
        RemedyKind.END: _end,
        RemedyKind.UNCORDON: _uncordon,
        RemedyKind.TOLERATE: _tolerate,
        RemedyKind.UNGATE: _ungate,
    }

    # The state.

    def _queue(self, name: str) -> Queue | None:
        return next((obj for obj in self._objects if isinstance(obj, Queue) and obj.metadata.name == name), None)

    def _requested(self) -> list[str]:
        """Return the resources that the job still needs."""
        job = self._known.jobs[self._job]
        names = {name for task in job.pending.values() for name in task.shape.requests}
        return sorted(names | set(job.min_resources or ()))

    def _example_node(self) -> Node | None:
        """Return the node that comes nearest to having room, else the largest one that has what the job needs."""
        nodes = [obj for obj in self._objects if isinstance(obj, Node)]
        nearest = {each.node for each in self._diagnosis.nearest}
        if near := [node for node in nodes if node.metadata.name in nearest]:
            return near[0]
        wanted = self._requested()

        def suits(node: Node) -> tuple[int, bool, int]:
            has = stored_amounts(node.status.allocatable)
            kinds_of = sum(1 for name in wanted if has.get(name))
            return kinds_of, not node.spec.taints and not node.spec.unschedulable, has.get(CPU, 0)

        return max(nodes, key=suits, default=None)


def _unit(name: str) -> int:
    """Return the step of an amount: one millicore, one Mi, one pod, or one of any other resource."""
    if name == CPU or name.endswith(".cpu"):
        return 1
    if name == MEMORY or name.endswith(".memory"):
        return _MEBI
    return 1 if name == PODS else _MILLI


def _listed(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(amounts.items()))


def _plus(stored: ResourceList, extra: Mapping[str, int]) -> ResourceList:
    amounts = stored_amounts(stored)
    grown = {name: min(amounts[name] + amount, LARGEST) for name, amount in extra.items() if name in amounts}
    return {**stored, **{name: format_amount(name, amount) for name, amount in grown.items()}}


def _as_replaced(*objects: ApiObject) -> dict[tuple[str, str], ApiObject]:
    return {(kinds.of(obj).resource, obj.metadata.key): obj for obj in objects}


def new_queue(name: str) -> Queue:
    """Return an open queue of weight 1."""
    meta = ObjectMeta(name=name, uid=f"{kinds.QUEUE.resource}//{name}")
    return Queue(metadata=meta, spec=QueueSpec(reclaimable=True), status=QueueStatus(state=QueueState.OPEN))


def another_node(like: Node, name: str) -> Node:
    """Return another node like this one: empty, ready and not cordoned."""
    labels = {**like.metadata.labels, "kubernetes.io/hostname": name}
    meta = msgspec.structs.replace(like.metadata, name=name, uid=f"{kinds.NODE.resource}//{name}", labels=labels)
    return _uncordoned(msgspec.structs.replace(like, metadata=meta))


def _uncordoned(node: Node) -> Node:
    """Return the node without what keeps new pods out because of its state, which the node controller writes."""
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(NODE_TAINTS))
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=False, taints=taints))


def _with_amounts(node: Node, amounts: Mapping[str, int]) -> Node:
    given = {name: format_amount(name, amount) for name, amount in amounts.items()}
    status = msgspec.structs.replace(node.status, allocatable=given, capacity=given)
    return msgspec.structs.replace(node, status=status)


def _with_minimum(group: PodGroup, minimum: int) -> PodGroup:
    """Return the group with a lower minimum; minResources shrink alike, rounded up, as for pods of equal requests."""
    before, resources = group.spec.min_member, group.spec.min_resources
    if resources is not None:
        scaled = {name: -(-amount * minimum // before) for name, amount in stored_amounts(resources).items()}
        resources = {name: format_amount(name, amount) for name, amount in scaled.items()}
    spec = msgspec.structs.replace(group.spec, min_member=minimum, min_resources=resources)
    return msgspec.structs.replace(group, spec=spec)
