"""The extension points of the scheduler, each a small Protocol. A plugin implements those it needs.

Plugins are registered under the entry point group `volcanoio.scheduler_plugins`; the constructor takes the plugin's
`arguments` mapping from the configuration. The answers of several plugins are combined by tier, as in Volcano (see
`volcanoio.engine.scheduling.config.plugin_rules`); `SWITCHES` has the switch of each point.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import Source
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility, Verdict
from volcanoio.framework.scheduling.views import (
    AmountColumns,
    Amounts,
    Job,
    NodeRow,
    Nodes,
    QueueView,
    Shape,
    SubJob,
    Task,
)
from volcanoio.framework.scheduling_effects import PreBindStep

Checkpoints: TypeAlias = Iterator[None]
"""Yields of an action's generator, or of a plugin's while the session opens, at which other work may run."""


class Plugin(Protocol):
    """Every plugin: a name and a constructor with arguments.

    A plugin that reads objects of further kinds names them in an attribute, of the class or set by the constructor:
    `watches = ("persistentvolumeclaims", "storageclasses.storage.k8s.io")`, `Kind.resource` of `volcanoio.model.kinds`.
    They are listed before the first cycle, `SessionView.objects` returns them, and answers that depend on
    `Depends.SOURCE` are computed again when one of them changed.
    """

    name: str


@runtime_checkable
class Hierarchical(Protocol):
    """Uses the tree of queues (spec.parent) if its switch `enableHierarchy` is on."""

    def use_hierarchy(self, enabled: bool) -> None:
        """Receive the switch, false by default; called once, before any session."""
        ...


@runtime_checkable
class Sources(Protocol):
    """Has sources of facts (see `sources`).

    A session has them under `PLUGIN/NAME`. A plugin names all facts that its filter and scorer read, built-in ones too,
    in an attribute `reads = ("node-metrics", "my-plugin/prices")`: answers that depend on `Depends.SOURCE` are then
    cached until one of these changes.
    """

    def sources(self) -> Mapping[str, Source]:
        """Return the sources by name; called once, when the plugin takes effect."""
        ...


@runtime_checkable
class Opens(Protocol):
    """Runs when a session opens: compute what the cycle's answers need."""

    def open(self, session: SessionView) -> Checkpoints | None:
        """Prepare for the session; called before the first action of a cycle, in tier order.

        May be a generator if it can take more than a few milliseconds: at each `yield` other work may run.
        """
        ...


@runtime_checkable
class Closes(Protocol):
    """Runs when a session closes, after the last action."""

    def close(self, session: SessionView) -> None:
        """Handle the jobs in `session.jobs_to_review`; may set conditions.

        Called in tier order, and repeatedly: each time `session.jobs_to_review` contains the next few jobs.
        """
        ...


@runtime_checkable
class Reports(Protocol):
    """Reports metrics of its own."""

    def report(self, probe: Probe) -> Checkpoints | None:
        """Report values; called after a session has closed, at most once a schedule period.

        May be a generator if there is much to report, as `Opens.open`; cycles may run between its steps.
        """
        ...


PluginFactory: TypeAlias = Callable[[Mapping[str, Any]], Plugin]
IGNORED_RESOURCES = "ignored_resources"
"""The attribute of plugins, of the class or set by the constructor, that names resources which are no plain amounts.

The plugin accounts for them itself, such as the memory of each device. They are no part of the requests of pods, of
what nodes have, or of a PodGroup's minResources; `Shape.limits` still has them.
"""
PER_DEVICE_RESOURCES = "per_device_resources"
"""The attribute of plugins, as above, with the resources that a container requests of each of its devices.

It maps each to the resource that is the number of devices. A pod requests the product on its node and of its queue:
two devices of 4096 MiB are 8192 MiB. `Shape.limits` has what the pod names.
"""


SortKey: TypeAlias = Any
"""A key that sorts; smaller comes first."""
KEPT_JOB_KEYS = "keeps_job_keys"
"""The attribute of `JobOrder`."""


@runtime_checkable
class QueueOrder(Protocol):
    """Orders queues. Fallback: creation time, then name.

    If placing a job of one queue changes the keys of others (they share a parent, say), the plugin also has
    `queue_generation() -> int | None`: while it returns the same number, keys only grow. None: no queue changes
    another's key.
    """

    def queue_key(self, queue: QueueView) -> SortKey:
        """Return the queue's sort key; smaller first."""
        ...


@runtime_checkable
class JobOrder(Protocol):
    """Orders jobs within a queue. Fallback: creation time, then `namespace/name` of the PodGroup.

    A plugin may set the attribute `keeps_job_keys = True` if its keys depend only on the job itself (its PodGroup,
    queue, priority, phase, tasks with their counts and amounts) and the session's `total`. If all plugins that order
    jobs have it, keys are cached across cycles until one of these changes.
    """

    def job_key(self, job: Job) -> SortKey:
        """Return the job's sort key; smaller first."""
        ...


@runtime_checkable
class NamespaceOrder(Protocol):
    """Orders the namespaces within a queue: part of the order of jobs, at the plugin's place in it.

    Placing a job changes the keys of all other jobs of its namespace, but not their order among themselves. So the
    namespaces of a queue take turns, and within them the jobs (see `heap.GroupedHeap`).
    """

    def namespace_key(self, job: Job) -> SortKey:
        """Return the current key of the job's namespace in its queue: the same for all its jobs of a phase."""
        ...

    def namespace_generation(self) -> int:
        """Return a number; while it is the same, keys only grow."""
        ...


@runtime_checkable
class TaskOrder(Protocol):
    """Orders tasks within a job. Fallback: the index in the name, creation time, uid."""

    def task_key(self, task: Task) -> SortKey:
        """Return the task's sort key; smaller first."""
        ...


@runtime_checkable
class SubJobOrder(Protocol):
    """Orders sub-jobs within a job. Fallback: `SubJob.match_index`, then the key."""

    def sub_job_key(self, sub_job: SubJob) -> SortKey:
        """Return the sub-job's sort key; smaller first."""
        ...


KEPT_VERDICTS = "keeps_verdicts"
"""The attribute of plugins whose answers about victims, queue limits and starving, valid and pipelined jobs are
independent of time.

Such answers depend only on nodes, pods, jobs and queues. If all such plugins have it, jobs for which an evicting action
found no victims are tried again only when something changed, or after a minute or two; otherwise in each cycle.
"""
KEPT_ENQUEUE_VERDICTS = "keeps_enqueue_verdicts"
"""The attribute of `JobEnqueueable`."""


@runtime_checkable
class Overused(Protocol):
    """Excludes queues from further allocation in this cycle; one plugin's yes is enough."""

    def overused(self, queue: QueueView) -> bool:
        """Return whether the queue has its share already."""
        ...


@runtime_checkable
class Allocatable(Protocol):
    """Limits how many more tasks of a shape a queue may take; all plugins must agree.

    A plugin may also have `room_details(queue, shape, count) -> str`: a text with the amounts that keep some of these
    tasks out, such as `queue q: needs cpu 4, in use 14, limit 16`. It is called when the text is written, at most about
    once a minute for a job.
    """

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks are within the queue's limits (0..count), given what is allocated now."""
        ...


@runtime_checkable
class JobValid(Protocol):
    """Decides whether a job is considered at all; the first rejection counts."""

    def job_valid(self, job: Job) -> Verdict:
        """Return PERMIT, ABSTAIN or a rejection with its reason."""
        ...


@runtime_checkable
class JobReady(Protocol):
    """Decides whether a job's statement may be committed; all plugins must agree.

    It is called after every task that is placed, unless the plugin also has `job_missing(job) -> int`: how many more
    tasks must be placed at least before `job_ready` can be true. Then it is called after that many.
    """

    def job_ready(self, job: Job) -> bool:
        """Return whether enough of the job is placed."""
        ...


@runtime_checkable
class JobPipelined(Protocol):
    """Votes on whether a job's pipelined tasks are kept; votes are combined by tier."""

    def job_pipelined(self, job: Job) -> Verdict:
        """Return the vote."""
        ...


@runtime_checkable
class SubJobReady(Protocol):
    """Decides whether enough of a sub-job is placed; all plugins must agree. Without any, `JobReady` alone decides.

    As for `JobReady`, the plugin may have `sub_job_missing(sub_job) -> int`: how many more tasks are needed at least.
    """

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        """Return whether enough of it is placed."""
        ...


@runtime_checkable
class SubJobPipelined(Protocol):
    """Votes on whether a sub-job's pipelined tasks are kept; votes are combined by tier."""

    def sub_job_pipelined(self, sub_job: SubJob) -> Verdict:
        """Return the vote."""
        ...


@runtime_checkable
class JobStarving(Protocol):
    """Decides whether tasks may be evicted for a job; all plugins of the first tier that has any must agree."""

    def job_starving(self, job: Job) -> bool:
        """Return whether the job has less than it needs."""
        ...


@runtime_checkable
class JobEnqueueable(Protocol):
    """Votes on whether a Pending job may become Inqueue; votes are combined by tier.

    A plugin may set the attribute `keeps_enqueue_verdicts = True` if its votes depend only on the session and on the
    job's queue, namespace and `min_resources`, and if a rejection stands whatever else is admitted in the session.
    Where all plugins that vote have it, jobs with equal values share one verdict, and rejected jobs are skipped before
    the queues take turns.
    """

    def job_enqueueable(self, job: Job) -> Verdict:
        """Return the vote; a rejection's message and details are the text of the PodGroup's condition and Event."""
        ...


@runtime_checkable
class JobEnqueued(Protocol):
    """Is called when a job became Inqueue in this session."""

    def job_enqueued(self, job: Job) -> None:
        """Count the job's demand."""
        ...


SIMULATED = "simulated"
"""The attribute of filters for which Volcano simulates evictions in preempt's dry run (`SimulateRemoveTask`).

It does so if one of the plugin's switches in `SIMULATING` is on. If all are off, a dry run calls such a filter as if no
task were evicted.
"""
SIMULATING = ("enablePreemptable", "enabledAllocatable")
"""The switches that enable the simulation."""
APPLIES_TO = "applies_to"
"""The attribute of filters and scorers that names the fields of `Shape` they are about, such as `("host_ports",)`.

For a shape in which all of these are empty the filter passes every node, or the scorer scores all nodes 0: neither it
nor its `feasible_depends` or `score_depends` need be called. Without the attribute it applies to every shape.
"""


@runtime_checkable
class Filter(Protocol):
    """Rules out nodes for a shape. Fit of resources is checked by the session and needs no plugin.

    Optional attribute: `applies_to` (see `APPLIES_TO`).
    """

    def feasible_depends(self, shape: Shape) -> Depends:
        """Return the dependencies of the answer."""
        ...

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the answer for all nodes at once."""
        ...


@runtime_checkable
class IncrementalFilter(Protocol):
    """An optional method of a `Filter` whose answers depend on PODS, called for every placement."""

    def allowed(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        """Return the `ok` of `feasible` for all nodes of the session.

        It may be an array that the plugin keeps and changes in place: callers neither write to it nor keep it.
        """
        ...


@runtime_checkable
class ImmediateFilter(Protocol):
    """An optional method of an `IncrementalFilter` for what terminating pods still hold, such as devices.

    Its other answers count on their release: `allowed` are nodes where a task may be pipelined.
    """

    def allowed_now(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        """Return those of the nodes in `allowed` where a task may be bound at once; an array as of `allowed`."""
        ...


@runtime_checkable
class FilterOne(Protocol):
    """The scalar form of Filter, for one node. Sufficient by itself; it is adapted to Filter."""

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        """Return the reason why the node is not feasible, "" if it is."""
        ...


@runtime_checkable
class Filters(Protocol):
    """Several filters of one plugin, called in this order: each is cached by its own dependencies.

    A plugin has these instead of being a filter itself.
    """

    @property
    def filters(self) -> Sequence[Filter | FilterOne]:
        """The filters, the same ones for the life of the plugin."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Scores nodes for a shape; scores of all plugins are added.

    Optional attribute: `applies_to` (see `APPLIES_TO`).
    """

    def score_depends(self, shape: Shape) -> Depends:
        """Return the dependencies of the answer."""
        ...

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return one score per node, with the plugin's weight applied; entries of infeasible nodes are ignored."""
        ...


@runtime_checkable
class ScorerOne(Protocol):
    """The scalar form of Scorer. Alone it is adapted; beside `score` it must agree with it and rescores one row."""

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """Return the score of one node."""
        ...


@runtime_checkable
class ScorerOfAmounts(Protocol):
    """The fastest form of a scorer that depends on amounts alone (`Depends.NODE_AMOUNTS`), beside `score`.

    It replaces `score_on`: a node whose amounts changed is scored by calling the function returned for its shape.
    """

    def score_from(self, shape: Shape, at: AmountColumns) -> Callable[[Sequence[int]], float]:
        """Return a function from all amounts of a node to its score; called again when the indexes change."""
        ...


@runtime_checkable
class Scorers(Protocol):
    """Several scorers of one plugin, whose scores are added: each is cached by its own dependencies.

    A plugin has these instead of being a scorer itself.
    """

    @property
    def scorers(self) -> Sequence[Scorer | ScorerOne]:
        """The scorers, the same ones for the life of the plugin."""
        ...


@runtime_checkable
class TaskScorer(Protocol):
    """Scores nodes for one task, if that depends on the task itself, its job, or on earlier placements.

    Such tasks take the slow path: every node is scored for each of them.
    """

    def scores_task(self, task: Task) -> bool:
        """Return whether the plugin scores this task, and all tasks of its job with the same shape and role."""
        ...

    def score_task(self, task: Task, nodes: Nodes) -> NDArray[np.float64]:
        """Return one score per node, with the plugin's weight applied."""
        ...


@runtime_checkable
class Traits(Protocol):
    """Returns what the plugin's filter and scorer read of a task beside its shape, such as an annotation or its queue.

    Tasks of one shape with equal traits share their answers; `Shape.traits` has the trait under the plugin's name. Keep
    the number of different traits small: never include the name of a job or pod. A plugin may set the attribute
    `has_traits = False` while none of its tasks has one: then it is not called.
    """

    def trait(self, task: Task, job: Job) -> str:
        """Return a text that depends on the pod, its PodGroup and its queue only; "" for most tasks.

        It is called again in each session that tries the job, so it may also depend on what is fixed for a session.
        """
        ...


@runtime_checkable
class Preemptable(Protocol):
    """Selects the tasks that a preemptor of the same queue may evict; None abstains. Tiers intersect."""

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return the permitted victims, in the given order."""
        ...


@runtime_checkable
class Reclaimable(Protocol):
    """Selects the tasks that a job of another queue may evict; None abstains. Tiers intersect."""

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return the permitted victims, in the given order."""
        ...


@runtime_checkable
class Preemptive(Protocol):
    """Decides whether a queue may reclaim from other queues for these tasks; all plugins must agree."""

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Return whether the queue, with its current allocation and these tasks, stays within its limits."""
        ...


@runtime_checkable
class VictimOrder(Protocol):
    """Orders queues by which of them loses tasks first to a preemptor's queue.

    Volcano: VictimQueueOrder; it has no switch. Fallback: the queue that is last by `QueueOrder` loses first.
    """

    def victim_key(self, queue: QueueView, preemptor: QueueView) -> SortKey:
        """Return the sort key of a victim queue; smaller loses first."""
        ...


@runtime_checkable
class HyperNodeLevels(Protocol):
    """Divides the cluster into HyperNodes in which all tasks of a job or sub-job are placed.

    The first plugin that has it decides. Volcano: HyperNodeGradientForJob and HyperNodeGradientForSubJob.
    """

    def hyper_node_levels(self, gang: Job | SubJob, within: str, *, evicting: bool) -> Sequence[Sequence[str]]:
        """Return the HyperNodes to try inside one, in levels: of the first level with a solution the best is used.

        Called for gangs with a network topology. `evicting`: tasks will be evicted to make room. No level: the gang
        cannot be placed inside `within`.
        """
        ...


@runtime_checkable
class HyperNodeOrder(Protocol):
    """Scores HyperNodes of one level for a job or sub-job; scores of all plugins are added."""

    def hyper_node_scores(self, gang: Job | SubJob, names: Sequence[str]) -> NDArray[np.float64]:
        """Return one score per HyperNode, with the plugin's weight applied."""
        ...


class Purpose(StrEnum):
    """Why tasks are evicted."""

    PREEMPT = "preempt"
    """For a job of the same queue."""
    RECLAIM = "reclaim"
    """For a job of another queue."""


@runtime_checkable
class Evictable(Protocol):
    """Selects the tasks that the gang actions may evict for a job; None abstains. Tiers intersect, no switch.

    Candidates are in the order of eviction, and a call may have only the first of them: the answer for a task must not
    depend on later candidates. Volcano: UnifiedEvictable.
    """

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return the permitted victims, in the given order."""
        ...


@runtime_checkable
class VictimTasks(Protocol):
    """Selects running tasks to evict without a preemptor (action shuffle).

    The selections of a tier are united; the first tier that selects any decides.
    """

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return those of the candidates (all running tasks) that are to be evicted."""
        ...


@runtime_checkable
class VictimGuard(Protocol):
    """Vetoes evictions that have no preemptor; all plugins must permit."""

    def permitted(self, victims: Sequence[Task]) -> Sequence[Task]:
        """Return those of the selected victims that may be evicted, in the given order."""
        ...


@runtime_checkable
class Accounting(Protocol):
    """Receives every allocation and release in the session; state belongs into `SessionView.table`."""

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """Count `count` tasks of a shape that were allocated or pipelined."""
        ...

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """Count `count` tasks of a shape that were evicted or unallocated, except by a discard (the undo log covers
        those).
        """
        ...


@runtime_checkable
class QueueUsage(Protocol):
    """Adds to `status.allocated` of queues what is not among the requests of tasks, such as claimed devices."""

    def queue_usage(self, queue: QueueView) -> Amounts:
        """Return these amounts for the queue's own tasks, without those of queues below it."""
        ...


@runtime_checkable
class ReservationAccounting(Protocol):
    """Reserves quota for tasks whose queue admission gate was removed and which have no node yet.

    Called after `open` for all such tasks, and for each that is added or placed later; state belongs into
    `SessionView.table`. `Allocatable.fits` is called for such tasks while their own reservations are released.
    """

    def reserved(self, job: Job, shape: Shape, count: int) -> None:
        """Add reservations for `count` tasks of a shape; a negative count releases them."""
        ...


@runtime_checkable
class TaskAccounting(Protocol):
    """Receives every task that is placed or evicted in the session; state belongs into `SessionView.table`.

    More expensive than `Accounting`: for plugins that need the node. If a plugin's answer for a shape depends on
    `Depends.PODS`, it receives each task of the shape before it is called for the next one. If it also has
    `tracks_shape(shape) -> bool`, that is called once a shape, and only tasks of those shapes are reported.
    """

    def task_placed(self, task: Task) -> None:
        """Handle a task that was allocated or pipelined: its status and node are set."""
        ...

    def task_evicted(self, task: Task) -> None:
        """Handle a task that became Releasing; not called for a discard (the undo log covers that)."""
        ...


@runtime_checkable
class BindAnnotations(Protocol):
    """Chooses what a task gets of its node, such as devices, as annotations of the pod that are sent with its bind.

    The choice is in `Task.bind_annotations` as long as the task is on the node in the session, also while the bind is
    in flight: a discarded statement or a refused bind removes it.
    """

    def annotates(self, shape: Shape) -> bool:
        """Return whether tasks of a shape may need annotations; called once a shape."""
        ...

    def bind_annotations(self, task: Task) -> Mapping[str, str]:
        """Return the annotations of a task that was just allocated or pipelined: its status and node are set.

        Called before `TaskAccounting.task_placed`.
        """
        ...


@runtime_checkable
class PreBind(Protocol):
    """Returns steps that must be done before a task's bind, such as binding its volume claims.

    The steps are data: they are journalled with the decision and carried out by the runtime, for all tasks of a
    statement before its first bind is sent. When one fails, the statement's binds are refused and the writes are
    reverted.
    """

    def prebinds(self, shape: Shape) -> bool:
        """Return whether tasks of a shape may need steps; called once a shape."""
        ...

    def prebind(self, task: Task) -> Sequence[PreBindStep]:
        """Return the steps, in order, for a task that is now bound to its node."""
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
    "enableNodeOrder": (Scorer, ScorerOne, ScorerOfAmounts, Scorers, TaskScorer),
    "enablePreemptable": (Preemptable,),
    "enableReclaimable": (Reclaimable,),
    "enablePreemptive": (Preemptive,),
    "enabledVictim": (VictimTasks, VictimGuard),
    "enabledOverused": (Overused,),
    "enabledAllocatable": (Allocatable,),
    "enabledHyperNodeOrder": (HyperNodeOrder,),
    "enabledHyperNodeGradient": (HyperNodeLevels,),
    "enabledSubJobReady": (SubJobReady,),
    "enabledSubJobPipelined": (SubJobPipelined,),
    "enabledSubJobOrder": (SubJobOrder,),
}
"""Volcano's switches (`pkg/scheduler/conf/scheduler_conf.go`, including its mixed spelling) and the points they gate.
"""

POINTS: tuple[type, ...] = tuple(
    each
    for each in tuple(globals().values())
    if isinstance(each, type) and each.__module__.startswith(__name__) and getattr(each, "_is_runtime_protocol", False)
)


def implements(plugin: object, point: type) -> bool:
    """Return whether a plugin, or a plugin class, has all members of an extension point."""
    members = (name for name in (*vars(point), *point.__annotations__) if not name.startswith("_"))
    return all(getattr(plugin, name, None) is not None for name in members)
