"""What an action may do in a session. Plugins see the read-only part, `sessionview.SessionView`.

An action is `name`, a constructor with its arguments and `run(session)`, a generator that yields where other work may
run; it is registered under the entry point group `volcanoio.actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from volcanoio.framework.scheduling.heap import Turns
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.verdicts import Verdict
from volcanoio.framework.scheduling.victims import Victims
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, Task


class Run(NamedTuple):
    """Consecutive pending tasks of a job, in task order, that are alike: same shape, role and nominated node."""

    shape: Shape
    role: str
    tasks: Sequence[Task]
    nominated: str = ""


class Placed(NamedTuple):
    """How far a placement came: `number` tasks found a node; `ready`: it stopped because the job is ready."""

    number: int
    ready: bool


class Statement(Protocol):
    """Placements that are committed or discarded whole. What is neither is undone when the session closes."""

    def place(
        self,
        run: Run,
        start: int,
        count: int,
        *,
        until_ready: bool = True,
        idle_only: bool = False,
        part: SubJob | None = None,
    ) -> Placed:
        """Place up to `count` tasks of a run from index `start` on, each on the best node as of then.

        Nodes with idle room come before nodes whose room is being released; on the latter a task is Pipelined, unless
        `idle_only`. Stops when the job, or that part of it, is ready (`until_ready`; checked after each task) or when
        no node is left, which is recorded on the job as the reason.
        """
        ...

    def reserve(self, run: Run, start: int, count: int, *, starving: bool = True, idle_first: bool = False) -> int:
        """Make up to `count` tasks of a run from index `start` on Pipelined, be room free or being released.

        Each on the best node as of then, with `idle_first` on those whose room is free while there are any. Stops when
        no node is left, and when the job starves no longer, unless that does not matter (`starving` false). How many
        were placed.
        """
        ...

    def evict(self, task: Task, reason: str) -> None:
        """Make a Bound or Running task, of any job, Releasing; `reason` is the action."""
        ...

    def spare(self, task: Task) -> None:
        """Take back one of its evictions."""
        ...

    def pipeline(self, task: Task, node: str, *, evicted: bool) -> None:
        """Make a pending task of the job Pipelined on a node that it fits; `evicted`: evictions paid for it."""
        ...

    def mark(self) -> Any:
        """A savepoint, for `rollback`."""
        ...

    def rollback(self, mark: Any, *, told: bool = False) -> None:
        """Take back what was done since a savepoint, bit by bit; later savepoints are of no use then.

        `told`: what was tried is remembered for the messages, as by `discard`.
        """
        ...

    @property
    def evicted(self) -> Sequence[Task]:
        """What it evicts."""
        ...

    @property
    def pipelined(self) -> Sequence[Task]:
        """The tasks it has Pipelined."""
        ...

    def commit(self) -> None:
        """Send evictions, and what is Allocated as one batch of binds; what is Pipelined stays to the session's close.

        With evictions, what is Pipelined has its room kept for it over later cycles until it is bound.
        """
        ...

    def discard(self) -> None:
        """Take everything back; what was tried is remembered for the messages."""
        ...

    def keep(self) -> None:
        """Leave it as it is: it affects later decisions of this session and is undone at its close."""
        ...


class Backlog(Protocol):
    """The jobs of one queue that wait, in the order of their turns."""

    def pop(self) -> Job | None:
        """The job that stands first and had not its turn yet; None when there is none."""
        ...

    def push(self, job: Job) -> None:
        """It is to have another turn: put it back where it stands now."""
        ...

    def news(self) -> Iterator[Job]:
        """Jobs of which an action is to say anew how they stand: who changed or had a turn since they were last told.

        Whoever is told is new no longer.
        """
        ...


class Session(SessionView, Protocol):
    """One cycle's session."""

    def configured(self, action: str) -> bool:
        """Whether that action is in the configuration."""
        ...

    def to_come(self, action: str) -> bool:
        """Whether that action is still to run in this cycle."""
        ...

    @property
    def victims(self) -> Victims:
        """What actions that evict ask."""
        ...

    def exhausted(self) -> bool:
        """Whether the cycle's budget is used up. Asked between jobs; after True the action returns."""
        ...

    def waiting(self) -> Sequence[Job]:
        """Jobs of phase Pending whose queue exists; where a cycle was cut meanwhile, without those that it refused."""
        ...

    def pending(self) -> Sequence[Job]:
        """Jobs with pending tasks whose queue exists."""
        ...

    def runs(self, job: Job, *, best_effort: bool, part: SubJob | None = None) -> list[Run]:
        """The pending tasks of a job, or of a part of it, in task order as runs: those that request nothing, or others.

        Gated tasks are left out, and those that wait after a refused bind.
        """
        ...

    def queue_key(self, queue: QueueView) -> SortKey:
        """Where a queue stands now; smaller first."""
        ...

    def job_key(self, job: Job) -> SortKey:
        """Where a job stands now in its queue; smaller first."""
        ...

    @property
    def steady_job_keys(self) -> bool:
        """Whether where a job stands changes in this session only with the job itself."""
        ...

    def queue_turns(self, names: Iterable[str]) -> Turns[QueueView]:
        """Queues in the order in which they have their turns, as it is at each."""
        ...

    def job_turns(self) -> Turns[Job]:
        """An empty order of jobs of one queue: whoever is pushed has a turn when it stands first."""
        ...

    def backlogs(self, *, admitted: bool) -> Generator[None, None, Mapping[str, Backlog]]:
        """By queue the jobs that wait: those with pending tasks that were admitted, or those of phase Pending.

        Where a cycle was cut meanwhile, without those that the action tried, or refused, in vain.
        """
        ...

    def overused(self, queue: QueueView) -> bool:
        """Whether the queue gets nothing more in this session."""
        ...

    def allocatable(self, job: Job, shape: Shape, count: int) -> int:
        """How many of `count` tasks of a shape the job's queue may take now; too few is kept as a reason."""
        ...

    def let_in(self, job: Job) -> Iterator[None]:
        """Open the gates of tasks that wait for the job's queue alone, as many as it may take.

        They are placed in a later cycle. Nothing without the feature gate SchedulingGatesQueueAdmission.
        """
        ...

    def at_once(self, shape: Shape, count: int) -> int:
        """How many of `count` tasks of a shape to place in one call at most: between calls other work may run."""
        ...

    def place_next(self, job: Job, run: Run, start: int) -> bool:
        """Place one task of a run, that with this index, on idle room and bind it at once, if the job is ready with it.

        False, with nothing done, where that takes a statement: when the job lacks more, when the task finds no idle
        room, when its queue may take none, and in rarer cases. It spares most turns the work of one.
        """
        ...

    def job_valid(self, job: Job) -> bool:
        """Whether the job is worth looking at; why not is kept on the job."""
        ...

    def job_ready(self, job: Job) -> bool:
        """Whether a statement of the job may be committed."""
        ...

    def job_pipelined(self, job: Job) -> bool:
        """Whether the job's reservations are worth keeping."""
        ...

    def sub_job_key(self, part: SubJob) -> SortKey:
        """Where a sub-job stands now in its job; smaller first."""
        ...

    def sub_job_ready(self, part: SubJob) -> bool:
        """Whether enough of a sub-job is placed."""
        ...

    def sub_job_pipelined(self, part: SubJob) -> bool:
        """Whether what is placed and reserved of a sub-job is worth keeping."""
        ...

    def job_enqueueable(self, job: Job) -> Verdict:
        """The combined vote on making a Pending job Inqueue."""
        ...

    def foreseen(self, job: Job) -> Verdict | None:
        """The rejection of a Pending job that is certain whenever in this session it has its turn; None else."""
        ...

    def enqueue(self, job: Job) -> None:
        """Make the job Inqueue and tell the plugins."""
        ...

    def promote(self, job: Job) -> None:
        """Make the job Inqueue where no enqueue action is configured: no vote, nobody is told."""
        ...

    def refuse(self, job: Job, verdict: Verdict) -> None:
        """Keep why the job was not enqueued, and say it as an event of its PodGroup."""
        ...

    def start(self, job: Job, part: SubJob | None = None) -> None:
        """Forget what an earlier attempt at the job recorded about nodes; for a part of it which roles failed."""
        ...

    def give_up(self, job: Job, runs: Sequence[Run]) -> None:
        """An attempt at all the job's runs placed nothing: if that cannot change before room appears, remember it."""
        ...

    def hopeless(self, job: Job) -> bool:
        """Whether an attempt is known to be of no use: the last one failed, and no room has appeared since."""
        ...

    def resume(self, job: Job) -> bool:
        """Give a job that waits for its victims the places it claims, whole; False where it is to be placed as any
        other.
        """
        ...

    def role_failed(self, job: Job, role: str) -> bool:
        """Whether a task of this role (not "") found no node since `start`."""
        ...

    def need_continue(self, job: Job, part: SubJob | None = None) -> bool:
        """Whether the job may still become ready though a task, of that part, found no node.

        Volcano: NeedContinueAllocating.
        """
        ...

    def statement(self, job: Job) -> Statement:
        """A new statement for the job."""
        ...


class Action(Protocol):
    """One action."""

    name: str

    def run(self, session: Session) -> Iterator[None]:
        """Do it; every yield is a place where the runtime may let other work run."""
        ...


ActionFactory: TypeAlias = Callable[[Mapping[str, Any]], Action]
