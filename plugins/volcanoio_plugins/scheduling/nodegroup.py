"""Plugin nodegroup: node groups that a queue may, should and should not use (Volcano: plugins/nodegroup).

A node belongs to the group in its label `volcano.sh/nodegroup-name`. The rules of a queue are in its spec.affinity, the
limits in an annotation.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, NodeRow, Nodes, QueueView, Shape, Task
from volcanoio.model.documents import decode_json
from volcanoio.model.names import ROOT_QUEUE
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import amounts
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Column, NodeIndex

GROUP_LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"
REQUIRED_SCORE, PREFERRED_SCORE, AVOIDED_SCORE = 100.0, 50.0, -1.0
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class GroupRules(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's rules. `has_affinity`: its own or inherited. `queue` is "" if there are no limits.

    `limits` are amounts by group and resource; `unreadable`: the annotation cannot be parsed.
    """

    has_affinity: bool = False
    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    limits: dict[str, dict[str, int]] = {}
    unreadable: bool = False
    queue: str = ""

    def trait(self) -> str:
        """Return the rules as a text: queues with equal rules share answers, unless they have limits."""
        return msgspec.json.encode(self, order="deterministic").decode()

    def allows(self, group: str | None, *, strict: bool) -> bool:
        """Return whether nodes of a group may be used, None for nodes of no group.

        A group that is to be avoided may be used even if it is forbidden.
        """
        if group is None:
            return not strict and not self.has_affinity
        if group in self.avoided:
            return True
        return group not in self.forbidden and (group in self.required or group in self.preferred)

    def score(self, group: str | None, *, ordered: bool) -> float:
        """Score nodes of a group; `ordered`: preferred groups score less the later they are listed."""
        if group is None:
            return 0.0
        if group in self.avoided:
            return AVOIDED_SCORE
        total = REQUIRED_SCORE if group in self.required else 0.0
        if group in self.preferred:
            count = len(self.preferred)
            total += PREFERRED_SCORE * (count - self.preferred.index(group)) / count if ordered else PREFERRED_SCORE
        return total


def rules_of(queues: Mapping[str, QueueView], name: str, *, hierarchical: bool) -> GroupRules:
    """Return the rules of a queue; `hierarchical`: affinity is inherited from the nearest ancestor that has one."""
    affinity = queues[name].object.spec.affinity
    seen = {name}
    at = name
    while affinity is None and hierarchical and at != ROOT_QUEUE:
        at = queues[at].object.spec.parent or ROOT_QUEUE
        if at in seen or at not in queues:
            break
        seen.add(at)
        affinity = queues[at].object.spec.affinity
    limits = _limits(queues[name].object.metadata.annotations.get(LIMITS, ""))
    wanted, unwanted = _part(affinity, "nodeGroupAffinity"), _part(affinity, "nodeGroupAntiAffinity")
    return GroupRules(
        has_affinity=affinity is not None,
        required=_names(wanted, _REQUIRED),
        preferred=_names(wanted, _PREFERRED),
        forbidden=_names(unwanted, _REQUIRED),
        avoided=_names(unwanted, _PREFERRED),
        limits=limits or {},
        unreadable=limits is None,
        queue=name if limits else "",
    )


def _limits(text: str) -> dict[str, dict[str, int]] | None:
    """Return amounts by group and resource; None if the annotation cannot be parsed."""
    if not text:
        return {}
    try:
        given = decode_json(text, dict[str, dict[str, str | int | float]])
        return {group: amounts(listed) for group, listed in given.items()}
    except (msgspec.DecodeError, QuantityError):
        return None


def _part(affinity: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    part = (affinity or {}).get(name)
    return part if isinstance(part, dict) else {}


def _names(part: Mapping[str, Any], name: str) -> tuple[str, ...]:
    listed = part.get(name)
    return tuple(str(item) for item in listed) if isinstance(listed, list | tuple) else ()


NO_AFFINITY = "node group affinity not specified"
NO_GROUP = "node group label not found"
NOT_ALLOWED = "node does not satisfy the node group affinity"
LIMITED = "node(s) are in a node group whose limit for the queue is reached"
UNREADABLE = "node(s) cannot be used: the queue's annotation volcano.sh/nodegroup-resource-limits is not readable"


class NodegroupArguments(msgspec.Struct, frozen=True):
    """`strict`: nodes of no group are unused. `enablePreferredOrder`: the first preferred group is best."""

    strict: bool = True
    preferred_order: bool = msgspec.field(default=False, name="enablePreferredOrder")


class Nodegroup:
    """Keeps a queue's tasks on the node groups of its affinity, prefers some, and limits their amounts per group."""

    name = "nodegroup"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, NodegroupArguments, self.name)
        self._strict = given.strict
        self._ordered = given.preferred_order
        self._hierarchical = False
        self._index = NodeIndex()
        self._session: SessionView | None = None
        self._traits: dict[str, str] = {}
        self._rules: dict[str, GroupRules] = {}
        self._groups: Mapping[str, str | None] = {}
        self._limited: dict[str, GroupRules] = {}
        self._allocated: Table | None = None

    def use_hierarchy(self, enabled: bool) -> None:
        """Set whether queues inherit the affinity of their nearest ancestor that has one."""
        self._hierarchical = enabled

    def open(self, session: SessionView) -> None:
        """Read the queues, and count allocations by group for those with limits."""
        self._session = session
        self._index.open(session)
        self._allocated = session.table(self.name, "allocated")
        rules_by_queue = {
            name: rules_of(session.queues, name, hierarchical=self._hierarchical) for name in sorted(session.queues)
        }
        if (traits := {name: rules.trait() for name, rules in rules_by_queue.items()}) != self._traits:
            self._traits = traits
            self._rules = {traits[name]: rules for name, rules in rules_by_queue.items()}
        self._limited = {name: rules for name, rules in rules_by_queue.items() if rules.limits}
        if self._limited:
            column = self._index.update().label(GROUP_LABEL)
            groups = [column.values[code] for code in column.codes.tolist()]
            self._groups = dict(zip(session.nodes.names, groups, strict=True))
            for name in self._limited:
                for job in session.queues[name].jobs:
                    for task in job.tasks:
                        if task.status in ALLOCATED_STATUSES:
                            self._count(name, task, 1)

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - depends on the queue only
        """Return the node group rules of the job's queue."""
        return self._traits.get(job.queue, "")

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on labels; with a limit, also on other placements."""
        rules = self._rules_of(shape)
        return Depends.NODE_SPEC | (Depends.PODS if rules is not None and rules.limits else Depends.NOTHING)

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return nodes of the groups that the queue may use and whose limit is not reached."""
        rules = self._rules_of(shape)
        size = len(nodes)
        if rules is None:
            return Feasibility(np.ones(size, np.bool_))
        if rules.unreadable:
            return Feasibility(np.zeros(size, np.bool_), ((UNREADABLE, np.ones(size, np.bool_)),))
        column = self._index.over(nodes).label(GROUP_LABEL)
        allowed = _by_group(column, lambda group: rules.allows(group, strict=self._strict))
        full = _by_group(column, lambda group: group is not None and self._exceeds(rules, group, shape)) & allowed
        grouped = _by_group(column, lambda group: group is not None)
        other = NOT_ALLOWED if rules.has_affinity else NO_AFFINITY
        return Feasibility(
            allowed & ~full, ((NO_GROUP, ~allowed & ~grouped), (other, ~allowed & grouped), (LIMITED, full))
        )

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on labels."""
        return Depends.NODE_SPEC if self._rules_of(shape) is not None else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Score nodes by the queue's rules about their group."""
        if (rules := self._rules_of(shape)) is None:
            return np.zeros(len(nodes))
        column = self._index.over(nodes).label(GROUP_LABEL)
        scores = [rules.score(group, ordered=self._ordered) for group in column.values]
        return np.array(scores, np.float64)[column.codes]

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """Score one node by the queue's rules about its group."""
        rules = self._rules_of(shape)
        group = node.object.metadata.labels.get(GROUP_LABEL)
        return 0.0 if rules is None else rules.score(group, ordered=self._ordered)

    def task_placed(self, task: Task) -> None:
        """Count the task if its queue has limits."""
        if self._limited and (queue := self._queue_of(task)):
            self._count(queue, task, 1)

    def task_evicted(self, task: Task) -> None:
        """Stop counting the task."""
        if self._limited and (queue := self._queue_of(task)):
            self._count(queue, task, -1)

    def _rules_of(self, shape: Shape) -> GroupRules | None:
        return self._rules.get(shape.traits.get(self.name, ""))

    def _queue_of(self, task: Task) -> str:
        assert self._session is not None
        job = self._session.jobs.get(task.job)
        return job.queue if job is not None and job.queue in self._limited else ""

    def _count(self, queue: str, task: Task, sign: int) -> None:
        assert self._allocated is not None
        group = self._groups.get(task.node)
        limits = self._limited[queue].limits
        if group in limits:
            for name in limits[group]:
                if amount := task.shape.requests.get(name, 0):
                    self._allocated.add(f"{queue}/{group}/{name}", sign * amount)

    def _exceeds(self, rules: GroupRules, group: str, shape: Shape) -> bool:
        """Return whether one more task of the shape would exceed the queue's limit of a group."""
        assert self._allocated is not None
        allocated = self._allocated
        return any(
            allocated.get(f"{rules.queue}/{group}/{name}") + shape.requests.get(name, 0) > limit
            for name, limit in rules.limits.get(group, {}).items()
        )


def _by_group(column: Column[str | None], ask: Callable[[str | None], bool]) -> NDArray[np.bool_]:
    """Evaluate a condition on groups for all nodes."""
    return np.array([ask(group) for group in column.values], np.bool_)[column.codes]
