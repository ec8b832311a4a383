"""gangpreempt and gangreclaim: room for all tasks that a job needs, or none of it, from gangs.

Ours: for the job's minimum alone; what was found is repeated with only the evictions that its nodes need.
"""

from __future__ import annotations

from tests.oracle.actions.bundles import Bundle, bundles_for
from tests.oracle.actions.demands import demanded
from tests.oracle.actions.taking import preemptors
from tests.oracle.actions.worth import keeps_guarantee, of_use, would_return
from tests.oracle.cluster import Job, Node, Task, total
from tests.oracle.session import Session, Statement, first


def gangpreempt(session: Session) -> None:
    _gangs(session, "gangpreempt")


def gangreclaim(session: Session) -> None:
    _gangs(session, "gangreclaim")


def _gangs(session: Session, action: str) -> None:
    starving: dict[str, list[Job]] = {}
    for job in preemptors(session):
        starving.setdefault(job.queue, []).append(job)
    while starving:
        queue = first([session.cluster.queues[name] for name in starving], session.queue_key)
        jobs = starving.pop(queue.name)
        if action == "gangreclaim" and session.overused(queue):
            continue
        while jobs:
            job = first(jobs, session.job_key)
            jobs.remove(job)
            tasks = demanded(session, job)
            if not tasks or any(task.never_preempts for task in tasks):
                continue
            if action == "gangreclaim" and not session.preemptive(queue, total(task.requests for task in tasks)):
                continue
            _Gang(session, job, tasks, action).take()


class _Gang:
    """A search for room for these tasks of a job."""

    def __init__(self, session: Session, job: Job, tasks: list[Task], action: str) -> None:
        self.session = session
        self.job = job
        self.queue = session.cluster.queues[job.queue]
        self.tasks = tasks
        self.action = action
        self.statement = Statement(session)

    def take(self) -> None:
        whole = self.session.arguments.get(self.action, {}).get("allowWholeBundle", True)
        need = total(task.requests for task in self.tasks)
        taken = self._search(bundles_for(self.session, self.job, self.action, need, whole=whole))
        if not taken:
            return
        ended = [bundle for bundle in taken if bundle.whole]
        if ended and len(ended) < len(taken):
            taken = self._without_spare(ended, taken)
        places = {task.uid: task.node for task in self.statement.placed}
        self.statement.rollback()
        if not self._pipeline(places, taken):
            self.statement.rollback()
            self._evict_all(taken)
            for task in self.tasks:
                self.statement.place(task, self._node(places[task.uid]), "pipelined")
        self._end()

    def _end(self) -> None:
        placed, victims = self.statement.placed, self.statement.victims
        method = "preemptable" if self.action == "gangpreempt" else "reclaimable"
        worth = of_use(self.session, self.job, placed) and bool(victims)
        if worth and not would_return(self.session, method, self.queue, victims, placed):
            self.statement.commit()
        else:
            self.statement.rollback()

    def _search(self, bundles: list[Bundle]) -> list[Bundle]:
        """Evict bundle after bundle until every task has a node, and return the victims, or nothing."""
        taken: list[Bundle] = []
        for bundle in bundles:
            if evicted := self._evict(bundle):
                taken.append(Bundle(bundle.job, bundle.whole, evicted))
                if self._place():
                    return taken
        self.statement.rollback()
        return []

    def _evict(self, bundle: Bundle) -> list[Task]:
        """Evict the tasks of a bundle that make room. Ours: no queue falls below its guarantee."""
        useful = [task for task in bundle.tasks if any(self._might_go(one, task.node) for one in self.tasks)]
        mark, evicted = self.statement.mark(), list[Task]()
        for task in bundle.tasks if bundle.whole and useful else useful:
            if self.action == "gangreclaim" and not keeps_guarantee(self.session, task):
                if bundle.whole:
                    self.statement.rollback(mark)
                    return []
                continue
            self.statement.evict(task, self.action)
            evicted.append(task)
        return evicted

    def _might_go(self, task: Task, name: str) -> bool:
        """Whether a task passes the filters of a node that evictions cannot change."""
        return all(plugin.passes_statically(task, self._node(name)) for plugin in self.session.every("predicate"))

    def _place(self) -> bool:
        """Find a node for every task, idle ones first, and undo all if that fails."""
        mark = self.statement.mark()
        for task in self.tasks:
            found = self.session.find(task) if self._allowed(task) else None
            if found is None:
                break
            self.statement.place(task, found[0], "pipelined")
        else:
            if of_use(self.session, self.job, self.statement.placed):
                return True
        self.statement.rollback(mark)
        return False

    def _without_spare(self, ended: list[Bundle], taken: list[Bundle]) -> list[Bundle]:
        """Return the whole gangs if they are enough without the spare tasks, else all bundles."""
        for some in (ended, taken):
            self.statement.rollback()
            self._evict_all(some)
            if self._place():
                return some
        raise AssertionError(taken)

    def _evict_all(self, bundles: list[Bundle]) -> None:
        for bundle in bundles:
            for task in bundle.tasks:
                self.statement.evict(task, self.action)

    def _pipeline(self, places: dict[str, str], taken: list[Bundle]) -> bool:
        """Place each task on its node, evicting in order tasks that are in the way, or any task for the queue limit."""
        for task in self.tasks:
            node = self._node(places[task.uid])
            while not self._allowed(task):
                if not self._next(taken):
                    return False
            while not self.session.passes(task, node):
                if not self._next(taken, node.name):
                    return False
            self.statement.place(task, node, "pipelined")
        return True

    def _next(self, taken: list[Bundle], node: str = "") -> bool:
        for bundle in taken:
            for task in bundle.tasks:
                if not task.evicted and node in ("", task.node):
                    for other in bundle.tasks if bundle.whole else [task]:
                        self.statement.evict(other, self.action)
                    return True
        return False

    def _allowed(self, task: Task) -> bool:
        return self.session.allocatable(self.queue, task.requests)

    def _node(self, name: str) -> Node:
        return self.session.cluster.node(name)
