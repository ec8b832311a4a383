"""Making room for all of a gang at once: evict bundle by bundle until everything it lacks can be placed.

Trying is done on the session and taken back. What was found is then done anew with only those evictions that the places
found need. Source: Volcano, pkg/scheduler/actions/utils (BuildNominationPlanInDomain).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Run, Session, Statement
from volcanoio.framework.scheduling.victims import Slots
from volcanoio.framework.scheduling.views import Job, Task
from volcanoio.model.resources import add
from volcanoio_plugins.actions.bundles import Bundle
from volcanoio_plugins.actions.offers import Domain, Offers
from volcanoio_plugins.actions.taking import conclude, worth_keeping

BETWEEN = 32
"""After how many evictions or placements other work may run."""


class _Wanted(NamedTuple):
    """How many tasks of a shape there are to place, and for how many there is room."""

    number: int
    slots: Slots


class GangTaking:
    """Makes room for these pending tasks of a job, all or none, in one statement; `reason` is the action's name."""

    def __init__(
        self, session: Session, job: Job, runs: Sequence[Run], purpose: Purpose, offers: Offers, reason: str
    ) -> None:
        self._session = session
        self._victims = session.victims
        self._job = job
        self._runs = runs
        self._purpose = purpose
        self._offers = offers
        self._reason = reason
        self._statement: Statement
        self._wanted: list[_Wanted] = []

    def within(self, domain: Domain) -> Generator[None, None, bool]:
        """Take what is needed on the nodes of a domain; whether that was done."""
        self._wanted = self._count()
        if any(wanted.slots.most < wanted.number for wanted in self._wanted):
            return False
        need: dict[str, int] = {}
        for run in self._runs:
            add(need, run.shape.requests, len(run.tasks))
        ordered = self._offers.ordered(self._job, domain, need)
        self._statement = self._session.statement(self._job)
        start = self._statement.mark()
        taken = yield from self._search(ordered)
        if taken is None:
            self._statement.discard()
            return False
        whole = [bundle for bundle in taken if bundle.whole]
        if 0 < len(whole) < len(taken):
            taken = yield from self._without_spare(start, whole, taken)
        targets = {task.uid: task.node for task in self._statement.pipelined}
        yield from self._settle(start, targets, taken)
        lost = {task.job for task in self._statement.evicted}
        done = conclude(self._session, self._statement, self._job, self._purpose, without=False)
        if done:
            self._offers.lost(lost)
        return done

    def _count(self) -> list[_Wanted]:
        numbers: dict[int, int] = {}
        first: dict[int, Task] = {}
        for run in self._runs:
            numbers[run.shape.id] = numbers.get(run.shape.id, 0) + len(run.tasks)
            first.setdefault(run.shape.id, run.tasks[0])
        return [_Wanted(number, self._victims.slots(first[shape], self._purpose)) for shape, number in numbers.items()]

    def _search(self, ordered: Iterator[Bundle | None]) -> Generator[None, None, list[Bundle] | None]:
        """Evict until all tasks can be placed, and place them; what was evicted, None where nothing suffices."""
        statement, taken = self._statement, []
        number = 0
        for bundle in self._offers.permitted(self._job, ordered):
            if bundle is None:
                yield
                continue
            evicted = yield from self._evict(bundle)
            if not evicted:
                continue
            taken.append(Bundle(bundle.job, bundle.whole, evicted))
            number += len(evicted)
            if any(wanted.slots.now < wanted.number for wanted in self._wanted):
                continue
            mark = statement.mark()
            if (yield from self._place()):
                self._victims.attempted(number)
                return taken
            statement.rollback(mark)
        self._victims.attempted(number)
        return None

    def _evict(self, bundle: Bundle) -> Generator[None, None, list[Task]]:
        """Evict a bundle, as far as that can make room and no queue falls below its guarantee; what was evicted."""
        useful = {
            task.node for task in bundle.tasks if any(wanted.slots.possible(task.node) for wanted in self._wanted)
        }
        if not useful:
            return []
        mark = self._statement.mark()
        evicted: list[Task] = []
        for task in bundle.tasks:
            if not bundle.whole and task.node not in useful:
                continue
            if self._purpose is Purpose.RECLAIM and not self._victims.keeps_guarantee(task):
                if bundle.whole:
                    self._statement.rollback(mark)
                    evicted = []
                    break
                continue
            self._statement.evict(task, self._reason)
            evicted.append(task)
            if len(evicted) % BETWEEN == 0:
                yield
        for node in useful:
            for wanted in self._wanted:
                wanted.slots.changed(node)
        return evicted

    def _place(self) -> Generator[None, None, bool]:
        """Reserve a place for every task; whether all have one, and the job would then be worth keeping."""
        session = self._session
        for run in self._runs:
            number = 0
            while number < len(run.tasks):
                some = session.at_once(run.shape, len(run.tasks) - number)
                if self._victims.within_limits(self._job, run.shape, some) < some:
                    return False
                if self._statement.reserve(run, number, some, starving=False, idle_first=True) < some:
                    return False
                number += some
                yield
        return worth_keeping(session, self._job, self._statement.pipelined)

    def _without_spare(
        self, start: Any, whole: list[Bundle], taken: list[Bundle]
    ) -> Generator[None, None, list[Bundle]]:
        """Where gangs must end, that may be enough: then what others can spare stays. The bundles that go."""
        for some in (whole, taken):
            self._statement.rollback(start)
            yield from self._evict_all(some)
            if (yield from self._place()):
                return some
        return taken

    def _evict_all(self, taken: list[Bundle]) -> Generator[None, None, None]:
        """Evict bundles that may be evicted together."""
        for bundle in taken:
            for at, task in enumerate(bundle.tasks, 1):
                self._statement.evict(task, self._reason)
                if at % BETWEEN == 0:
                    yield

    def _settle(self, start: Any, targets: dict[str, str], taken: list[Bundle]) -> Generator[None, None, None]:
        """Do anew, from a savepoint on, what was found, with no more evictions than its places need."""
        statement = self._statement
        statement.rollback(start)
        yield
        if (yield from self._seat(targets, taken)):
            return
        statement.rollback(start)
        yield from self._evict_all(taken)
        for run in self._runs:
            for task in run.tasks:
                statement.pipeline(task, targets[task.uid], evicted=True)
            yield

    def _seat(self, targets: dict[str, str], taken: list[Bundle]) -> Generator[None, None, bool]:
        """Put each task on its node, evicting until its queue may have it and it fits there.

        For the queue anyone goes, for the node those on it; in the order in which they were taken. False when that is
        not enough for a task.
        """
        gone: set[str] = set()
        anyone: list[tuple[Task, Bundle]] = [(task, bundle) for bundle in taken for task in bundle.tasks][::-1]
        there: dict[str, list[tuple[Task, Bundle]]] = {}
        for victim, bundle in anyone:
            there.setdefault(victim.node, []).append((victim, bundle))
        placed = 0
        for run in self._runs:
            for task in run.tasks:
                node = targets[task.uid]
                while not self._allowed(task):
                    if not self._next(anyone, gone):
                        return False
                while not self._victims.fits(task, node):
                    if not self._next(there.get(node, []), gone):
                        return False
                self._statement.pipeline(task, node, evicted=True)
                placed += 1
                if placed % BETWEEN == 0:
                    yield
        return True

    def _next(self, left: list[tuple[Task, Bundle]], gone: set[str]) -> bool:
        """Evict the next of these that is not gone yet, of a gang all; False when there is none."""
        while left:
            victim, bundle = left.pop()
            if victim.uid not in gone:
                for other in bundle.tasks if bundle.whole else [victim]:
                    self._statement.evict(other, self._reason)
                    gone.add(other.uid)
                return True
        return False

    def _allowed(self, task: Task) -> bool:
        return self._victims.within_limits(self._job, task.shape, 1) > 0
