"""Plugin nodegroup: which groups of nodes a queue may, should and should not use (Volcano: plugins/nodegroup).

A node is of the group that its label `volcano.sh/nodegroup-name` names. What a queue says is in `grouprules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, NodeRow, Nodes, Shape, Task
from volcanoio_plugins.scheduling.nodes.nodeindex import Column, NodeIndex
from volcanoio_plugins.scheduling.parts.grouprules import GROUP_LABEL, GroupRules, rules_of

NO_AFFINITY = "node group affinity not specified"
NO_GROUP = "node group label not found"
NOT_ALLOWED = "node does not satisfy the node group affinity"
LIMITED = "node(s) are in a node group whose limit for the queue is reached"
UNREADABLE = "node(s) cannot be used: the queue's annotation volcano.sh/nodegroup-resource-limits is not readable"


class NodegroupArguments(msgspec.Struct, frozen=True):
    """`strict`: nodes of no group are for nobody. `enablePreferredOrder`: of preferred groups the first is best."""

    strict: bool = True
    preferred_order: bool = msgspec.field(default=False, name="enablePreferredOrder")


class Nodegroup:
    """Keeps a queue's tasks on the node groups of its affinity, prefers some, and limits what they take of each."""

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
        self._held: Table | None = None

    def use_hierarchy(self, enabled: bool) -> None:
        """Whether a queue without affinity has that of its nearest ancestor with one."""
        self._hierarchical = enabled

    def open(self, session: SessionView) -> None:
        """Read the queues, and count what those with limits hold of each group."""
        self._session = session
        self._index.begin(session.nodes)
        self._held = session.table(self.name, "held")
        self._limited = {}
        said = {
            name: rules_of(session.queues, name, hierarchical=self._hierarchical) for name in sorted(session.queues)
        }
        traits = {name: rules.trait() for name, rules in said.items()}
        if traits != self._traits:
            self._traits = traits
            self._rules = {traits[name]: rules for name, rules in said.items()}
        self._limited = {name: rules for name, rules in said.items() if rules.limits}
        if self._limited:
            column = self._index.over(session.nodes).label(GROUP_LABEL)
            groups = [column.values[code] for code in column.codes.tolist()]
            self._groups = dict(zip(session.nodes.names, groups, strict=True))
            for name in self._limited:
                for job in session.queues[name].jobs:
                    for task in job.tasks:
                        if task.status in ALLOCATED_STATUSES:
                            self._count(name, task, 1)

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - the queue alone counts
        """What the job's queue says about node groups."""
        return self._traits.get(job.queue, "")

    def feasible_depends(self, shape: Shape) -> Depends:
        """Labels; where a limit holds, also what else is placed."""
        rules = self._of(shape)
        return Depends.NODE_SPEC | (Depends.PODS if rules is not None and rules.limits else Depends.NOTHING)

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Nodes of the groups that the queue may use and that have not reached the queue's limit."""
        rules = self._of(shape)
        size = len(nodes)
        if rules is None:
            return Feasibility(np.ones(size, np.bool_))
        if rules.unreadable:
            return Feasibility(np.zeros(size, np.bool_), ((UNREADABLE, np.ones(size, np.bool_)),))
        column = self._index.over(nodes).label(GROUP_LABEL)
        allowed = _by_group(column, lambda group: rules.allows(group, strict=self._strict))
        full = _by_group(column, lambda group: group is not None and self._exceeds(rules, group, shape)) & allowed
        grouped = _by_group(column, lambda group: group is not None)
        other = NOT_ALLOWED if rules.affine else NO_AFFINITY
        return Feasibility(
            allowed & ~full, ((NO_GROUP, ~allowed & ~grouped), (other, ~allowed & grouped), (LIMITED, full))
        )

    def score_depends(self, shape: Shape) -> Depends:
        """Labels."""
        return Depends.NODE_SPEC if self._of(shape) is not None else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """What the queue thinks of each node's group."""
        rules = self._of(shape)
        if rules is None:
            return np.zeros(len(nodes))
        column = self._index.over(nodes).label(GROUP_LABEL)
        scores = [rules.score(group, ordered=self._ordered) for group in column.values]
        return np.array(scores, np.float64)[column.codes]

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """What the queue thinks of one node's group."""
        rules = self._of(shape)
        group = node.object.metadata.labels.get(GROUP_LABEL)
        return 0.0 if rules is None else rules.score(group, ordered=self._ordered)

    def task_placed(self, task: Task) -> None:
        """Count it for its queue, if that has limits."""
        if self._limited and (queue := self._queue_of(task)):
            self._count(queue, task, 1)

    def task_evicted(self, task: Task) -> None:
        """Count it no more."""
        if self._limited and (queue := self._queue_of(task)):
            self._count(queue, task, -1)

    def _of(self, shape: Shape) -> GroupRules | None:
        return self._rules.get(shape.traits.get(self.name, ""))

    def _queue_of(self, task: Task) -> str:
        """The task's queue where that has limits, else ""."""
        assert self._session is not None
        job = self._session.jobs.get(task.job)
        return job.queue if job is not None and job.queue in self._limited else ""

    def _count(self, queue: str, task: Task, sign: int) -> None:
        assert self._held is not None
        group = self._groups.get(task.node)
        limits = self._limited[queue].limits
        if group in limits:
            for name in limits[group]:
                if amount := task.shape.requests.get(name, 0):
                    self._held.add(f"{queue}/{group}/{name}", sign * amount)

    def _exceeds(self, rules: GroupRules, group: str, shape: Shape) -> bool:
        """Whether one more task of the shape would take more of a group than the queue may."""
        assert self._held is not None
        held = self._held
        return any(
            held.get(f"{rules.queue}/{group}/{name}") + shape.requests.get(name, 0) > limit
            for name, limit in rules.limits.get(group, {}).items()
        )


def _by_group(column: Column[str | None], ask: Callable[[str | None], bool]) -> NDArray[np.bool_]:
    """An answer about groups as one about nodes."""
    return np.array([ask(group) for group in column.values], np.bool_)[column.codes]
