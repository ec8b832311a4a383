"""The extension points of the scheduler, each a small Protocol. A plugin implements those it needs.

Registered under the entry point group `volcanoio.scheduler_plugins`; the constructor takes the plugin's `arguments`
mapping from the configuration. How several plugins' answers are combined is Volcano's, by tier (see
`volcanoio.engine.scheduling.combine`); each point's switch is named in `SWITCHES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import Source
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility, Verdict
from volcanoio.framework.scheduling.views import Job, NodeRow, Nodes, QueueView, Shape, Task
from volcanoio.framework.scheduling_effects import PreBindStep

SortKey: TypeAlias = Any
"""A key that sorts; smaller comes first."""


Checkpoints: TypeAlias = Iterator[None]
"""What an action's generator, or a plugin's while the session opens, yields: places where other work may run."""

KEPT_KEYS = "keeps_job_keys"
"""The attribute of `JobOrder`."""
KEPT_VERDICTS = "keeps_verdicts"
"""The attribute of plugins whose answers about victims, queues' limits and whether jobs starve, are valid and pipelined
follow from nodes, pods, jobs and queues alone, not from the time: jobs for which actions that evict found nothing are
asked for again when something changed, or after a minute or two. True for all such plugins, or each cycle asks."""
REFUSES_ALIKE = "refuses_alike"
"""The attribute of `JobEnqueueable`."""


class Plugin(Protocol):
    """Every plugin: a name and a constructor with arguments.

    One that reads objects of further kinds names them in an attribute, of the class or set by the constructor:
    `watches = ("persistentvolumeclaims", "storageclasses.storage.k8s.io")`, `Kind.resource` of `volcanoio.model.kinds`.
    They are listed before anything is decided, `SessionView.objects` has them, and answers that depend on
    `Depends.SOURCE` are asked for again when one of them changed.
    """

    name: str


@runtime_checkable
class Hierarchical(Protocol):
    """Works on the tree of queues (spec.parent) where its switch `enableHierarchy` says so."""

    def use_hierarchy(self, enabled: bool) -> None:
        """Called once, before any session: the switch, false where it is not written."""
        ...


@runtime_checkable
class Sources(Protocol):
    """Brings facts of its own (see `sources`).

    A session has them under `PLUGIN/NAME`. A plugin names all facts that its filter and scorer follow from, also the
    product's, in an attribute `reads = ("node-metrics", "my-plugin/prices")`: answers that depend on `Depends.SOURCE`
    are then kept until one of these changes.
    """

    def sources(self) -> Mapping[str, Source]:
        """The sources by name; asked once, when the plugin takes effect."""
        ...


@runtime_checkable
class Opens(Protocol):
    """Sees each session open: recompute what the cycle's answers need."""

    def open(self, session: SessionView) -> Checkpoints | None:
        """Called before the first action of a cycle, in tier order.

        May be a generator where that can take more than a few milliseconds: at each `yield` other work may run.
        """
        ...


@runtime_checkable
class Closes(Protocol):
    """Sees each session close, after the last action."""

    def close(self, session: SessionView) -> None:
        """Called in tier order, as often as it takes: each time `session.touched` holds the next few jobs.

        May set conditions.
        """
        ...


@runtime_checkable
class Reports(Protocol):
    """Tells figures of its own."""

    def report(self, probe: Probe) -> Checkpoints | None:
        """Called after a session has closed, at most once a schedule period; write-only, decides nothing.

        May be a generator where there is much to tell, as `Opens.open`.
        """
        ...


@runtime_checkable
class QueueOrder(Protocol):
    """Orders queues. Fallback: creation time, then uid.

    A plugin by which a turn of one queue moves others too (they share a parent, say) also has
    `queue_epoch() -> int | None`: while it returns the same number, keys only grow. None: no queue moves others.
    """

    def queue_key(self, queue: QueueView) -> SortKey:
        """Smaller first."""
        ...


@runtime_checkable
class JobOrder(Protocol):
    """Orders jobs within a queue. Fallback: creation time, then uid.

    A plugin whose keys follow from the job itself (its PodGroup, queue, priority, phase, tasks with their counts and
    amounts) and the session's `total` may say so with the attribute `keeps_job_keys = True`. Its keys are then kept
    across cycles until one of these changes, where all plugins that order jobs say so.
    """

    def job_key(self, job: Job) -> SortKey:
        """Smaller first."""
        ...


@runtime_checkable
class NamespaceOrder(Protocol):
    """Orders the namespaces within a queue: part of the order of jobs, at the plugin's place in it.

    A turn of one job moves all others of its namespace, but not their order among themselves. So namespaces of a queue
    take turns, and in them jobs (see `heap.GroupedHeap`).
    """

    def namespace_key(self, job: Job) -> SortKey:
        """Where the job's namespace stands now in its queue, smaller first: the same for all its jobs of a phase."""
        ...

    def namespace_epoch(self) -> int:
        """While it returns the same number, keys only grow."""
        ...


@runtime_checkable
class TaskOrder(Protocol):
    """Orders tasks within a job. Fallback: the index in the name, creation time, uid."""

    def task_key(self, task: Task) -> SortKey:
        """Smaller first."""
        ...


@runtime_checkable
class Filter(Protocol):
    """Says which nodes a shape may go to. Fit of resources is the session's own and needs no plugin."""

    def feasible_depends(self, shape: Shape) -> Depends:
        """What the answer depends on."""
        ...

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The answer for all nodes at once."""
        ...


@runtime_checkable
class Follows(Protocol):
    """A `Filter` whose answers depend on PODS may have this beside `feasible`: it is asked for every placement."""

    def allowed(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        """The `ok` of `feasible` for all nodes of the session.

        It may be an array that the plugin keeps and changes in place: whoever gets it neither writes to it nor keeps
        it.
        """
        ...


@runtime_checkable
class FilterOne(Protocol):
    """The scalar form of Filter, for one node: "" or the reason why not. Enough on its own; adapted to Filter."""

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        """The answer for one node."""
        ...


@runtime_checkable
class Filters(Protocol):
    """Several filters of one plugin, asked in this order: each is kept and asked again by its own dependencies.

    A plugin has these instead of being a filter itself.
    """

    @property
    def filters(self) -> Sequence[Filter | FilterOne]:
        """The same ones as long as the plugin lives."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Scores nodes for a shape; scores of all plugins are added."""

    def score_depends(self, shape: Shape) -> Depends:
        """What the answer depends on."""
        ...

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """One score a node, the plugin's weight applied; entries of infeasible nodes do not matter."""
        ...


@runtime_checkable
class ScorerOne(Protocol):
    """The scalar form of Scorer. Alone it is adapted; beside `score` it must agree with it, and rescores one row."""

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """The score of one node."""
        ...


@runtime_checkable
class Scorers(Protocol):
    """Several scorers of one plugin, whose scores are added: each is kept and asked again by its own dependencies.

    A plugin has these instead of being a scorer itself.
    """

    @property
    def scorers(self) -> Sequence[Scorer | ScorerOne]:
        """The same ones as long as the plugin lives."""
        ...


@runtime_checkable
class TaskScorer(Protocol):
    """Scores nodes for one task, where that depends on which task of which job it is and on what was placed before.

    Such tasks take the slow path: every node is asked about for every one of them.
    """

    def scores_task(self, task: Task) -> bool:
        """Whether the plugin has a say about this task, and all of its job that have its shape and role."""
        ...

    def score_task(self, task: Task, nodes: Nodes) -> NDArray[np.float64]:
        """One score a node, the plugin's weight applied."""
        ...


@runtime_checkable
class Traits(Protocol):
    """Says what the plugin's filter and scorer read of a task beside its shape, such as an annotation or its queue.

    Tasks of one shape with equal traits share their answers; `Shape.traits` has the trait under the plugin's name. Keep
    the number of different traits small: never put the name of a job or pod into one.
    A plugin whose tasks have none for now may say so with the attribute `has_traits = False`: then none is asked about.
    """

    def trait(self, task: Task, job: Job) -> str:
        """A text that follows from the pod, its PodGroup and its queue; "" for most tasks."""
        ...


@runtime_checkable
class Overused(Protocol):
    """Says that a queue gets nothing more this cycle; any plugin's yes counts."""

    def overused(self, queue: QueueView) -> bool:
        """Whether the queue holds its share already."""
        ...


@runtime_checkable
class Allocatable(Protocol):
    """Says how many more tasks of a shape a queue may take; all plugins must agree."""

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        """How many of `count` tasks are within the queue's limits (0..count), given what is allocated now."""
        ...


@runtime_checkable
class JobValid(Protocol):
    """Says whether a job is worth looking at; the first rejection counts."""

    def job_valid(self, job: Job) -> Verdict:
        """PERMIT, ABSTAIN or a rejection with its reason."""
        ...


@runtime_checkable
class JobReady(Protocol):
    """Says whether a job's statement may be committed; all must agree.

    It is asked after every task that is placed, unless the plugin also has `job_lacks(job) -> int`: how many more tasks
    must be placed at least before `job_ready` can be true. Then it is asked when so many were.
    """

    def job_ready(self, job: Job) -> bool:
        """Whether enough of it is placed."""
        ...


@runtime_checkable
class JobPipelined(Protocol):
    """Says whether a job's reservations are worth keeping; votes by tier."""

    def job_pipelined(self, job: Job) -> Verdict:
        """The vote."""
        ...


@runtime_checkable
class SubJobOrder(Protocol):
    """Orders sub-jobs within a job. Fallback: `SubJob.match_index`, then the key."""

    def sub_job_key(self, sub_job: SubJob) -> SortKey:
        """Smaller first."""
        ...


@runtime_checkable
class SubJobReady(Protocol):
    """Says whether enough of a sub-job is placed; all must agree. Where a job has none, `JobReady` alone decides.

    As `JobReady` it may say how many more tasks are needed at least: `sub_job_lacks(sub_job) -> int`.
    """

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        """Whether enough of it is placed."""
        ...


@runtime_checkable
class SubJobPipelined(Protocol):
    """Says whether a sub-job's reservations are worth keeping; votes by tier."""

    def sub_job_pipelined(self, sub_job: SubJob) -> Verdict:
        """The vote."""
        ...


@runtime_checkable
class JobStarving(Protocol):
    """Says whether a job may evict others; all of the first tier with an opinion must agree."""

    def job_starving(self, job: Job) -> bool:
        """Whether it lacks what it needs."""
        ...


@runtime_checkable
class JobEnqueueable(Protocol):
    """Says whether a Pending job may become Inqueue; votes by tier.

    A plugin whose votes follow from the session and of the job only from its queue, its namespace and `min_resources`,
    and whose rejection stands whatever else is admitted in the session, may say so with the attribute
    `refuses_alike = True`. Where all plugins asked say so, what is rejected is so before turns are taken, and jobs that
    are alike are asked about once.
    """

    def job_enqueueable(self, job: Job) -> Verdict:
        """The vote; a rejection's message is the text of the PodGroup's event."""
        ...


@runtime_checkable
class JobEnqueued(Protocol):
    """Is told that a job became Inqueue in this session."""

    def job_enqueued(self, job: Job) -> None:
        """Count its demand."""
        ...


@runtime_checkable
class Accounting(Protocol):
    """Is told of every placement and release in the session; state belongs into `SessionView.table`."""

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """`count` tasks of a shape were allocated or pipelined."""
        ...

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """`count` tasks of a shape were evicted or taken back outside a discard (those are undone by the log)."""
        ...


@runtime_checkable
class Promising(Protocol):
    """Keeps room in queues for tasks whose gate of queue admission was opened and which have no node yet.

    It is told after it opened of all there are, and of each that comes or is placed later; state belongs into
    `SessionView.table`. `Allocatable.fits` is asked about such tasks while their own promises are taken back.
    """

    def promised(self, job: Job, shape: Shape, count: int) -> None:
        """`count` more tasks of a shape have room kept for them; fewer when negative."""
        ...


@runtime_checkable
class TaskAccounting(Protocol):
    """Is told of every task that is placed or evicted in the session; state belongs into `SessionView.table`.

    Dearer than `Accounting`: for plugins that must know the node. Where one answers `Depends.PODS` for a shape, it is
    told of each task of the shape before it is asked about the next one.
    """

    def task_placed(self, task: Task) -> None:
        """The task was allocated or pipelined: its status and node say so."""
        ...

    def task_evicted(self, task: Task) -> None:
        """The task is Releasing; not called for what a discard takes back (that is undone by the log)."""
        ...


@runtime_checkable
class PreBind(Protocol):
    """Names what must be done before a task's bind, such as binding its volume claims.

    The steps are data: they are journalled with the decision and carried out at the edge, for all tasks of a statement
    before its first bind is sent. When one fails, the statement's binds are refused and what was written is undone.
    """

    def prebinds(self, shape: Shape) -> bool:
        """Whether tasks of a shape may need anything; asked once a shape."""
        ...

    def prebind(self, task: Task) -> Sequence[PreBindStep]:
        """The steps for a task that is bound to its node now, in order."""
        ...


@runtime_checkable
class Preemptable(Protocol):
    """Names the tasks a preemptor of the same queue may evict; None abstains. Tiers intersect."""

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """The permitted victims, in the given order."""
        ...


@runtime_checkable
class Reclaimable(Protocol):
    """Names the tasks a job of another queue may evict; None abstains. Tiers intersect."""

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """The permitted victims, in the given order."""
        ...


@runtime_checkable
class Preemptive(Protocol):
    """Says whether a queue may take back from other queues for these tasks; all plugins must agree."""

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Whether the queue, holding what it holds now and these tasks, would still be within what it may have."""
        ...


@runtime_checkable
class VictimOrder(Protocol):
    """Orders queues by which of them loses its tasks first to a taker's queue.

    Volcano: VictimQueueOrder; it has no switch. Fallback: the queue that is last by `QueueOrder` loses first.
    """

    def victim_key(self, queue: QueueView, taker: QueueView) -> SortKey:
        """Smaller loses first."""
        ...


class Purpose(StrEnum):
    """What tasks are evicted for."""

    PREEMPT = "preempt"
    """For a job of the same queue."""
    RECLAIM = "reclaim"
    """For a job of another queue."""


@runtime_checkable
class Evictable(Protocol):
    """Names the tasks that a job may have evicted by the gang actions; None abstains. Tiers intersect, no switch.

    Candidates come in the order in which they go, and those that go first may be asked about without the others: what
    is said of them must not depend on these. Volcano: UnifiedEvictable.
    """

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """The permitted victims, in the given order."""
        ...


@runtime_checkable
class VictimTasks(Protocol):
    """Names running tasks to end for their own sake (action shuffle): a tier's are united, the first tier that names
    any decides.
    """

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Those of the candidates (all running tasks) that are to be evicted."""
        ...


@runtime_checkable
class VictimGuard(Protocol):
    """Has the last word on tasks that others named to be ended for their own sake; all plugins must permit."""

    def permitted(self, victims: Sequence[Task]) -> Sequence[Task]:
        """Those of the named victims that may be evicted, in the given order."""
        ...


SWITCHES: Mapping[str, tuple[type, ...]] = {
    "enableJobOrder": (JobOrder, NamespaceOrder),
    "enableQueueOrder": (QueueOrder,),
    "enableTaskOrder": (TaskOrder,),
    "enableJobReady": (JobReady,),
    "enableJobPipelined": (JobPipelined,),
    "enableJobStarving": (JobStarving,),
    "enableJobEnqueued": (JobEnqueueable, JobEnqueued),
    "enablePredicate": (Filter, FilterOne, Filters),
    "enableNodeOrder": (Scorer, ScorerOne, Scorers, TaskScorer),
    "enablePreemptable": (Preemptable,),
    "enableReclaimable": (Reclaimable,),
    "enablePreemptive": (Preemptive,),
    "enabledVictim": (VictimTasks, VictimGuard),
    "enabledOverused": (Overused,),
    "enabledAllocatable": (Allocatable,),
    "enabledSubJobReady": (SubJobReady,),
    "enabledSubJobPipelined": (SubJobPipelined,),
    "enabledSubJobOrder": (SubJobOrder,),
}
"""Volcano's switches (`pkg/scheduler/conf/scheduler_conf.go`, mixed spelling and all) to the points they gate."""

POINTS: tuple[type, ...] = tuple(
    each
    for each in tuple(globals().values())
    if isinstance(each, type) and each.__module__ == __name__ and getattr(each, "_is_runtime_protocol", False)
)
"""All extension points."""


def implements(plugin: object, point: type) -> bool:
    """Whether a plugin, or the class of one, has all that an extension point names."""
    members = (name for name in (*vars(point), *point.__annotations__) if not name.startswith("_"))
    return all(getattr(plugin, name, None) is not None for name in members)


PluginFactory: TypeAlias = Callable[[Mapping[str, Any]], Plugin]
