"""The session of one cycle, on the live columns. What is neither committed nor needed is undone at its close."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain

from volcanoio.engine.scheduling import hopes
from volcanoio.engine.scheduling.asking import Asking
from volcanoio.engine.scheduling.budget import Budget
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.cyclestats import CycleStats
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.outbox import Outbox
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.queuegates import Promises
from volcanoio.engine.scheduling.resuming import resume
from volcanoio.engine.scheduling.runs import runs_of
from volcanoio.engine.scheduling.sessionvotes import SessionVotes
from volcanoio.engine.scheduling.statement import JobStatement
from volcanoio.engine.scheduling.subjobs import SubJobInfo
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.engine.scheduling.undo import Tables, UndoLog
from volcanoio.engine.scheduling.victims import Victims
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling.sessionview import Text
from volcanoio.framework.scheduling.views import Amounts
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.times import rfc3339

UNDONE = 8
"""How many tasks are taken back in one step."""


class CycleSession(SessionVotes):
    """Implements `sessionview.SessionView` and `session.Session`.

    `conditions` are what plugins set, by job key and type; `refusals` why jobs were not enqueued; `leftovers` the
    logs of statements that stay until the close, `unended` of those neither committed, discarded nor kept;
    `homeless` tasks that request nothing and found no node, by job; `at_hand` the jobs that plugins close just
    now; `tried` the keys of jobs it came to, `unfinished` of those that got some places and are to have more turns;
    `asks_waiting` whether the action at work goes through the waiting jobs; `cut` whether the budget ended it, or a
    question without answer; `questions` what plugins ask others; `action` the one at work, `coming` those still to
    come; `vain` the keys of jobs that it tried in vain; `victims` what actions that evict ask; `claimed` the tasks
    for which it evicted.
    """

    def __init__(
        self, state: ClusterState, profile: Profile, opening: CycleOpened, budget: Budget, period: float = 1.0
    ) -> None:
        self.state = state
        self.profile = profile
        self.rules: Rules = state.rules_of(profile)
        self.cycle = opening.cycle
        self.now = opening.at
        self.period = period
        self.timestamp = rfc3339(opening.at)
        self.uid = blake2b(f"{opening.seed}/{opening.cycle}".encode(), digest_size=16).hexdigest()
        self.outbox = Outbox(opening.cycle)
        self.stats = CycleStats()
        self.tables = Tables()
        self.leftovers: list[UndoLog] = []
        self.unended: list[UndoLog] = []
        self.conditions: dict[str, dict[str, tuple[str, Text]]] = {}
        self.refusals: dict[str, str] = {}
        self.homeless: list[tuple[JobInfo, Sequence[TaskInfo]]] = []
        self.at_hand: Sequence[JobInfo] = ()
        self.cut = False
        self.asks_waiting = False
        self.vain: set[str] = set()
        self.tried: set[str] = set()
        self.unfinished: set[str] = set()
        self.claimed: list[TaskInfo] = []
        self.questions = Asking(state.answers, self.outbox, answering=opening.answering)
        self.ask, self.tell = self.questions.ask, self.questions.tell
        self.facts, self.version = state.inputs.facts, state.inputs.version
        self._budget = budget
        self._actions = frozenset(action.name for action in profile.actions)
        self.action = ""
        self.coming: frozenset[str] = self._actions
        state.calm(self.now)
        state.settle_prebinding()
        state.placer.open(self.rules, opening.cycle, opening.seed)
        self.total: Amounts = self.nodes.totals(Quantity.ALLOCATABLE)
        self._rulings = state.rulings(self.rules, self.total)
        self._urgent = state.urgent
        self._foreseen = {}
        self._urgent_queues: set[str] = set()
        self.victims = Victims(self)
        self.promises = Promises(self) if state.queue_gates.enabled else None

    def open(self) -> Iterator[str]:
        """Count pods and claims as they are now, then let plugins open, one at a time: its name, "" before them."""
        claimed = len(self.state.claims.by_task)
        self.state.ledger.volumes.settle()
        for _ in chain(self.state.ledger.pods.settle(), self.state.claims.open(self.now)):
            yield ""
        self.state.rests.news += claimed - len(self.state.claims.by_task)
        if self.state.claims.jobs:
            self._urgent = {**self.state.urgent, **self.state.claims.jobs}
        self._urgent_queues = {job.queue for job in self._urgent.values()}
        yield ""  # what was done so far is not the first plugin's
        for name, opens in self.rules.opens:
            for _ in opens(self) or ():
                yield name
            yield name
        if self.promises is not None:
            self.promises.open()

    def runs(self, job: JobInfo, *, best_effort: bool, part: SubJobInfo | None = None) -> list[Run]:
        """As `session.Session`."""
        members = job.waiting.values() if part is None else part.waiting
        return runs_of(self, job, members, best_effort=best_effort)

    def start(self, job: JobInfo, part: SubJobInfo | None = None) -> None:
        """As `session.Session`."""
        if part is None:
            if not job.attempts.blank or job.attempts.resumed:
                job.attempts.clear()
            self._look_again(job)
        else:
            job.attempts.failed_roles = frozenset()

    def give_up(self, job: JobInfo, runs: Sequence[Run]) -> None:
        """As `session.Session`."""
        hopes.give_up(self, job, runs)

    def hopeless(self, job: JobInfo) -> bool:
        """As `session.Session`; after a minute or two (`hopes.REST`) it is tried all the same."""
        return hopes.hopeless(self, job)

    def resume(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        return bool(self.state.claims.jobs) and job.key in self.state.claims.jobs and resume(self, job)

    def role_failed(self, job: JobInfo, role: str) -> bool:
        """As `session.Session`."""
        return bool(role) and role in job.attempts.failed_roles

    def need_continue(self, job: JobInfo, part: SubJobInfo | None = None) -> bool:
        """As `session.Session`."""
        return hopes.may_become_ready(job, part)

    def statement(self, job: JobInfo) -> JobStatement:
        """As `session.Session`."""
        self.tried.add(job.key)
        return JobStatement(self, job)

    def unwind(self) -> Iterator[None]:
        """Take back what was not committed, a few tasks at a time: Allocated and Pipelined never leave the session."""
        ledger = self.state.ledger
        for logs in (self.unended, self.leftovers):
            while logs:
                seated = logs[-1].seated
                while seated:
                    last = seated[: -UNDONE - 1 : -1]  # from the end, as it was done
                    del seated[-UNDONE:]
                    ledger.unseat_all(last)
                    yield
                logs.pop().rollback(ledger, self.state.holds)
        yield from self.state.claims.close()

    def undo(self) -> None:
        """`unwind` to the end."""
        for _ in self.unwind():
            pass
        for job, stranded in self.homeless:
            job.house(stranded)
            self.state.ledger.changes.mark(job)
        self.homeless.clear()
        self.conditions.clear()
        self.state.backlogs.part()
        self.tables.part()  # else everything said and counted would be left to the garbage collector
