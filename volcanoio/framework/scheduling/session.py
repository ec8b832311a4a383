"""The session as actions use it: statements, the order of jobs, and the search for victims.

An action has a `name`, a constructor that takes its arguments, and `run(session)`, a generator that yields where other
work may run; it is registered under the entry point group `volcanoio.actions`. Plugins get the read-only part,
`sessionview.SessionView`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from volcanoio.framework.scheduling.heap import PriorityQueue
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.points import Purpose, SortKey
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Verdict
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, SubJob, Task

Eligible: TypeAlias = Callable[[Sequence[Task], Task], list[Task]]
"""Filter the tasks on a node to those that an action's own rules allow to evict for a task, keeping their order.

The input may contain tasks that are evicted already.
"""


class CandidateNodes(Protocol):
    """Nodes where evictions may make room for alike tasks, by score.

    A candidate passes every filter that evictions cannot change, and its free, releasing and evictable resources are
    enough for one task.
    """

    def best(self) -> str:
        """Return the remaining node with the highest score, "" when none is left."""
        ...

    def exclude(self, node: str) -> None:
        """Remove a node on which no suitable victims were found."""
        ...

    def rescore(self, node: str) -> None:
        """Compute a node's score again after an eviction or placement there."""
        ...

    def from_seeded_offset(self) -> Sequence[str]:
        """Return all remaining nodes, rotated to start at a seeded offset."""
        ...


class FittingTasks(Protocol):
    """Upper bounds for how many alike tasks the cluster can hold; effects of the tasks on each other are ignored."""

    @property
    def free(self) -> int:
        """How many fit in what is free or being released now."""
        ...

    @property
    def with_evictions(self) -> int:
        """How many fitted at creation if everything evictable were evicted."""
        ...

    def is_candidate(self, node: str) -> bool:
        """Return whether the node passes every filter that evictions cannot change."""
        ...

    def recount(self, node: str) -> None:
        """Count a node again after an eviction or placement there."""
        ...


class Victims(Protocol):
    """Who may be evicted for whom, and where. Every answer includes what open statements did so far."""

    def prepare(self) -> Iterator[None]:
        """Count the evictable resources per node; exhaust it before the first `candidate_nodes` of an action."""
        ...

    def has_failed(self, purpose: Purpose, job: Job, runs: Sequence[Run]) -> bool:
        """Return whether this action already found too few victims for an alike job.

        Alike jobs have the same queue, demand, priority and keys of the plugins that select victims. Evictions and
        placements since then can only have left less.
        """
        ...

    def record_failure(self, purpose: Purpose, job: Job, runs: Sequence[Run]) -> None:
        """Record that too few victims were found for the job and that its statement was discarded."""
        ...

    def is_unschedulable(self, job: Job) -> bool:
        """Return whether the action failed for the job in an earlier cycle and nothing relevant changed since."""
        ...

    def exclude_node(self, purpose: Purpose, task: Task, node: str) -> None:
        """Leave a node out of later searches for alike tasks.

        Not for a failure that an open statement caused: discarding it may bring the node back.
        """
        ...

    def job_starving(self, job: Job) -> bool:
        """Return whether a job may have others evicted (Volcano: JobStarving)."""
        ...

    def has_nominations(self, job: Job) -> bool:
        """Return whether victims are already terminating for the job; no more are evicted for it until then."""
        ...

    def preemptive(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Return whether the job's queue may reclaim for these tasks (Volcano: Preemptive)."""
        ...

    def queue_allocatable(self, job: Job, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks of a shape the job's queue may allocate now; records no reason."""
        ...

    def candidate_nodes(self, task: Task, purpose: Purpose, *, own_job: bool = False) -> CandidateNodes:
        """Return the nodes to search for victims for tasks like this one, without those excluded before.

        `own_job`: victims belong to the task's own job; exclusions by other jobs then do not apply.
        """
        ...

    def can_gain_victims(self, purpose: Purpose) -> bool:
        """Return whether evictions can make more tasks evictable: of several tiers, an empty one defers to the next."""
        ...

    def is_node_local(self, task: Task) -> bool:
        """Return whether feasibility and score of a node for the task depend on that node alone."""
        ...

    def running_tasks(self) -> Sequence[Task]:
        """Return all Running tasks, by job and then in task order."""
        ...

    def has_room_without(self, node: str, shape: Shape, victims: Iterable[Task]) -> bool:
        """Return whether one task fits on a node once these victims are gone, with what is free or being released."""
        ...

    def victims_on_node(self, purpose: Purpose, preemptor: Task, node: str, eligible: Eligible) -> list[Task]:
        """Return the tasks on a node that may be evicted for the preemptor, in eviction order.

        Volcano: Preemptable or Reclaimable, then BuildVictimsPriorityQueue. Plugins receive the candidates in that
        order too, so that a job that can lose some tasks loses the first ones.
        """
        ...

    def fitting_tasks(self, task: Task, purpose: Purpose, hyper_node: str = CLUSTER) -> FittingTasks:
        """Count how many tasks like this one fit in a HyperNode, with and without evictions."""
        ...

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task], *, partial: bool = False) -> list[Task]:
        """Return the candidates that plugins allow the gang actions to evict for a job.

        `partial`: more candidates follow. Verdicts of a tier that is only asked because an earlier one selected no task
        are then ignored.
        """
        ...

    def victim_queue_ranks(self, queues: Iterable[str], preemptor_queue: str) -> dict[str, int]:
        """Return the rank of each queue among those that lose tasks to the preemptor's queue; 0 loses first."""
        ...

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that plugins want to evict without a preemptor (Volcano: VictimTasks)."""
        ...

    def movable(self, job: Job, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that no plugin protects from being evicted for a job, and whose budgets permit it."""
        ...

    def fit_elsewhere(self, tasks: Sequence[Task], hyper_nodes: Collection[str]) -> bool:
        """Return whether all these evicted tasks fit on nodes outside HyperNodes, beside everything that is placed.

        False if the nodes for one of them depend on other pods, on ports or on volumes: that is not simulated.
        """
        ...

    def fits(self, task: Task, node: str) -> bool:
        """Return whether a task passes every filter on a node and fits what is free or being released there."""
        ...

    def can_simulate(self, task: Task, node: str) -> bool:
        """Return whether a dry run of evictions on the node can make the task fit.

        False where a filter that does not support simulation (`points.SIMULATED`) rejects the node as it is now.
        """
        ...

    def keeps_guarantee(self, victim: Task) -> bool:
        """Return whether the queue of the victim keeps its guarantee of what the victim requests without it."""
        ...

    def would_evict_back(self, purpose: Purpose, evicted: Sequence[Task], placed: Sequence[Task]) -> bool:
        """Return whether any evicted task could immediately have a placed task evicted for itself."""
        ...

    def record_attempt(self, victims: int) -> None:
        """Count an attempt on a node and the victims it found (Volcano's preemption metrics)."""
        ...


class Run(NamedTuple):
    """Consecutive pending tasks of a job in task order with the same shape, role and nominated node."""

    shape: Shape
    role: str
    tasks: Sequence[Task]
    nominated: str = ""


class Placed(NamedTuple):
    """Result of an allocation: how many tasks got a node, and whether it stopped because the job is ready."""

    number: int
    ready: bool


class Assignment(NamedTuple):
    """Result of a search for a gang: tasks with their nodes, and what identifies the gang that was searched for."""

    nodes: Sequence[tuple[Task, str]]
    signature: tuple[object, ...]


class Statement(Protocol):
    """Operations on tasks of one job that are committed or discarded as a whole.

    A statement that is neither committed, discarded nor kept is undone when the session closes.
    """

    def allocate(  # noqa: PLR0913 - keywords that restrict one allocation; actions name those they need
        self,
        run: Run,
        start: int,
        count: int,
        *,
        until_ready: bool = True,
        idle_only: bool = False,
        sub_job: SubJob | None = None,
        within: str = CLUSTER,
    ) -> Placed:
        """Allocate up to `count` tasks of a run from index `start`, each on the best node at that moment.

        Nodes with enough idle resources come before nodes whose resources are being released; on the latter a task is
        pipelined, unless `idle_only`. Stops when the job or sub-job is ready (`until_ready`; checked after each task)
        or when no node is left in the HyperNode `within`; the fit errors are then recorded on the job.
        """
        ...

    def pipeline(  # noqa: PLR0913 - keywords that restrict one placement; actions name those they need
        self,
        run: Run,
        start: int,
        count: int,
        *,
        while_starving: bool = True,
        idle_first: bool = False,
        within: str = CLUSTER,
    ) -> int:
        """Pipeline up to `count` tasks of a run from index `start`; return how many got a node.

        Each goes to the best node in the HyperNode `within` that has enough free or releasing resources; with
        `idle_first` idle resources come first. Stops when no node is left and, with `while_starving`, when the job is
        no longer starving.
        """
        ...

    def evict(self, task: Task, reason: str) -> None:
        """Make a Bound or Running task of any job Releasing; `reason` is the action's name."""
        ...

    def unevict(self, task: Task) -> None:
        """Undo one eviction of this statement."""
        ...

    def pipeline_on(self, task: Task, node: str, *, evicted: bool) -> None:
        """Pipeline a pending task on a given node where it fits; `evicted`: the statement evicted for it."""
        ...

    def savepoint(self) -> Any:
        """Return a savepoint for `rollback`."""
        ...

    def rollback(self, savepoint: Any, *, record_attempts: bool = False) -> None:
        """Undo everything since a savepoint, exactly; later savepoints become invalid.

        `record_attempts`: keep for messages where tasks would have been placed, as `discard` does.
        """
        ...

    @property
    def evicted(self) -> Sequence[Task]:
        """The tasks it evicts."""
        ...

    @property
    def pipelined(self) -> Sequence[Task]:
        """The tasks it has pipelined."""
        ...

    def commit(self) -> None:
        """Send the evictions, and bind the allocated tasks as one batch; pipelined tasks stay until the close.

        With evictions, pipelined tasks are nominated: later cycles keep the room for them until they are bound.
        """
        ...

    def discard(self) -> None:
        """Undo everything; where tasks would have been placed is recorded for messages."""
        ...

    def keep_until_close(self) -> None:
        """Let the operations affect later decisions of this session, and undo them when it closes."""
        ...


class Backlog(Protocol):
    """The pending jobs of one queue, in job order."""

    def pop(self) -> Job | None:
        """Return the next job that was not popped in this action; None when there is none."""
        ...

    def push(self, job: Job) -> None:
        """Put a job back at its current position for another turn."""
        ...

    def changed_jobs(self) -> Iterator[Job]:
        """Yield the jobs that changed or were popped since this method last yielded them."""
        ...


class Domains(Protocol):
    """The HyperNodes in which gangs with a network topology are placed (see `hypernodes`)."""

    def are_known(self, job: Job) -> bool:
        """Return whether the HyperNodes form a tree; if not, this is recorded as the reason why the job waits."""
        ...

    def levels(self, gang: Job | SubJob, within: str = CLUSTER, *, evicting: bool) -> Sequence[Sequence[str]]:
        """Return the HyperNodes to try for a gang inside one, in levels: the first level with a solution is used.

        The HyperNode itself where the gang has no network topology, or no plugin divides the cluster.
        """
        ...

    def promising(self, gang: Job | SubJob, names: Sequence[str], runs: Sequence[Run]) -> list[str]:
        """Return those of these HyperNodes that may have room for what the gang still needs, best first."""
        ...

    def search(
        self,
        job: Job,
        statement: Statement,
        levels: Sequence[Sequence[str]],
        runs_by_sub_job: Mapping[str, Sequence[Run]],
    ) -> Generator[None, None, Assignment | None]:
        """Search nodes for what a job still needs in the HyperNodes of these levels.

        For gangs of different tasks with a hard topology, after placing one after the other failed: assignments are
        tried under a step limit. None where there is none, only the quota was short, nothing is to be searched, or the
        limit was reached, which is recorded on the job, unless the statement has evictions. Pending tasks are given by
        the sub-job's key, "" for a job without sub-jobs. The statement must hold none of the job's tasks, and is
        unchanged afterwards.
        """
        ...

    def refuse_found(self, job: Job, found: Assignment) -> None:
        """Record that the nodes that `search` found cannot be used: they are not searched again for some time."""
        ...

    def roomiest(self, names: Sequence[str], runs: Sequence[Run]) -> str:
        """Return the HyperNode with room for most tasks of these runs."""
        ...

    def score(self, gang: Job | SubJob, name: str) -> float:
        """Return the sum of the plugins' scores of a HyperNode for a gang."""
        ...

    def nodes(self, name: str) -> frozenset[str]:
        """Return the names of the nodes in a HyperNode."""
        ...


class Session(SessionView, Protocol):
    """The session of one cycle."""

    @property
    def domains(self) -> Domains:
        """The HyperNodes in which gangs with a network topology are placed."""
        ...

    def is_action_configured(self, action: str) -> bool:
        """Return whether the configuration contains the action."""
        ...

    def is_action_pending(self, action: str) -> bool:
        """Return whether the action will still run in this cycle."""
        ...

    @property
    def victims(self) -> Victims:
        """Who may be evicted for whom, for actions that evict."""
        ...

    def is_budget_exhausted(self) -> bool:
        """Return whether the cycle's budget is used up; after True the action returns.

        Call it between jobs, while no statement is open: latency-bound pods that arrived are placed meanwhile.
        """
        ...

    def jobs_to_enqueue(self) -> Sequence[Job]:
        """Return the jobs of phase Pending whose queue exists.

        After a cycle that was cut short, jobs that it rejected are left out.
        """
        ...

    def jobs_with_pending_tasks(self) -> Sequence[Job]:
        """Return the jobs with pending tasks whose queue exists.

        After a cycle that was cut short in this action, jobs that it tried without success are left out.
        """
        ...

    def runs(self, job: Job, *, best_effort: bool, sub_job: SubJob | None = None) -> list[Run]:
        """Return the pending tasks of a job or sub-job as runs in task order: the best-effort ones, or the others.

        Tasks with scheduling gates and tasks that back off after a refused bind are left out.
        """
        ...

    def queue_key(self, queue: QueueView) -> SortKey:
        """Return the queue's current sort key; smaller first."""
        ...

    def job_key(self, job: Job) -> SortKey:
        """Return the job's current sort key within its queue; smaller first."""
        ...

    @property
    def has_stable_job_keys(self) -> bool:
        """Whether a job's sort key changes in this session only when the job itself changes."""
        ...

    def ordered_queues(self, names: Iterable[str]) -> PriorityQueue[QueueView]:
        """Return a priority queue of queues by their current sort key."""
        ...

    def empty_job_order(self) -> PriorityQueue[Job]:
        """Return an empty priority queue for jobs of one queue."""
        ...

    def backlogs(self, *, admitted: bool) -> Generator[None, None, Mapping[str, Backlog]]:
        """Return the backlog of each queue: admitted jobs with pending tasks, or jobs of phase Pending.

        After a cycle that was cut short, jobs that the action tried or rejected without success are left out.
        """
        ...

    def overused(self, queue: QueueView) -> bool:
        """Return whether the queue may allocate nothing more in this session (Volcano: Overused)."""
        ...

    def allocatable(self, job: Job, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks of a shape the job's queue may allocate now; a shortfall is recorded."""
        ...

    def open_queue_gates(self, job: Job) -> Iterator[None]:
        """Remove the scheduling gate of tasks that only wait for their queue, as many as the queue may allocate.

        They are allocated in a later cycle. Does nothing without the feature gate SchedulingGatesQueueAdmission.
        """
        ...

    def batch_size(self, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks of a shape to place per call, so that other work can run in between."""
        ...

    def allocate_and_bind(self, job: Job, run: Run, start: int) -> bool:
        """Allocate the task at index `start` on idle resources and bind it, if that makes the job ready.

        A fast path without a statement. Returns False, with nothing done, where a statement is needed: the job needs
        more tasks, no idle node fits, the queue is at its limit, and in rarer cases.
        """
        ...

    def job_valid(self, job: Job) -> bool:
        """Return whether the job is valid for scheduling; the reason is recorded on the job if it is not."""
        ...

    def job_ready(self, job: Job) -> bool:
        """Return whether a statement of the job may be committed."""
        ...

    def job_pipelined(self, job: Job) -> bool:
        """Return whether enough of the job is allocated or pipelined to keep its room (Volcano: JobPipelined)."""
        ...

    def sub_job_key(self, sub_job: SubJob) -> SortKey:
        """Return the sub-job's current sort key within its job; smaller first."""
        ...

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        """Return whether enough tasks of a sub-job are allocated."""
        ...

    def sub_job_pipelined(self, sub_job: SubJob) -> bool:
        """Return whether enough tasks of a sub-job are allocated or pipelined."""
        ...

    def job_enqueueable(self, job: Job) -> Verdict:
        """Return the combined vote on making a Pending job Inqueue."""
        ...

    def certain_rejection(self, job: Job) -> Verdict | None:
        """Return the enqueue rejection that applies to the job for this whole session; None if there is none."""
        ...

    def enqueue(self, job: Job) -> None:
        """Make the job Inqueue and notify the plugins."""
        ...

    def enqueue_without_vote(self, job: Job) -> None:
        """Make the job Inqueue where no enqueue action is configured: no vote, no notification."""
        ...

    def reject_enqueue(self, job: Job, verdict: Verdict) -> None:
        """Record why the job was not enqueued; the reason becomes a Kubernetes Event of its PodGroup."""
        ...

    def begin_attempt(self, job: Job, sub_job: SubJob | None = None) -> None:
        """Clear the fit errors of an earlier attempt at the job; for a sub-job only which roles failed."""
        ...

    def mark_unschedulable(self, job: Job, runs: Sequence[Run]) -> None:
        """Record that an attempt at all runs placed nothing, if only new room or quota can change the result."""
        ...

    def is_unschedulable(self, job: Job) -> bool:
        """Return whether the last attempt failed and since then no room appeared, or the queue still has no quota."""
        ...

    def pipeline_nominated(self, job: Job) -> bool:
        """Pipeline all tasks of a job on their nominated nodes while its victims terminate.

        False, with nothing done, where the job is to be allocated like any other.
        """
        ...

    def has_role_failed(self, job: Job, role: str) -> bool:
        """Return whether a task of this role (not "") found no node since `begin_attempt`."""
        ...

    def can_become_ready(self, job: Job, sub_job: SubJob | None = None) -> bool:
        """Return whether the job can still become ready after one of its tasks, or of the sub-job's, found no node.

        Volcano: NeedContinueAllocating.
        """
        ...

    def statement(self, job: Job) -> Statement:
        """Return a new statement for the job."""
        ...


class Action(Protocol):
    """A step of the scheduling cycle."""

    name: str

    def run(self, session: Session) -> Iterator[None]:
        """Run the action; at every yield the runtime may let other work run."""
        ...


ActionFactory: TypeAlias = Callable[[Mapping[str, Any]], Action]
