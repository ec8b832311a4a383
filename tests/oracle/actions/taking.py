"""The common part of preempt and reclaim: victims for the tasks of one job, in one statement.

Ours, beside Volcano: room that is there without evictions goes first, in both actions; a task must then pass every
filter and its queue's limits; no queue falls below its guarantee; the evicted could not at once evict back.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.actions.worth import keeps_guarantee, of_use, would_return
from tests.oracle.cluster import Job, Node, Task
from tests.oracle.session import Session, Statement, first

Eligible = Callable[[Task, Task], bool]
"""Whether the action itself allows a victim for a task."""


def preemptors(session: Session) -> list[Job]:
    """Return enqueued and valid jobs that starve and have pending tasks."""
    return [
        job
        for job in sorted(session.cluster.jobs, key=lambda job: (job.namespace, job.name))
        if job.phase != "Pending" and job.count("pending") and session.starving(job) and session.valid(job)
    ]


def tasks_of(session: Session, job: Job) -> list[Task]:
    """Return the tasks for which others may be evicted."""
    tasks = [*session.pending(job, best_effort=False), *session.pending(job, best_effort=True)]
    return [task for task in tasks if not task.never_preempts]


class Taking:
    """A search for victims for the tasks of a job; with `own`, the victims are tasks of the same job."""

    def __init__(
        self, session: Session, job: Job, method: str, eligible: Eligible, reason: str, *, own: bool = False
    ) -> None:
        self.own = own
        self.made: tuple[Task, Node] | None = None
        """The task for which room was made last, and the node."""
        self.session = session
        self.job = job
        self.queue = session.cluster.queues[job.queue]
        self.method = method
        self.eligible = eligible
        self.reason = reason
        self.statement = Statement(session)

    def place(self, task: Task) -> bool:
        """Pipeline a task: to a node with room, else to one with evictions."""
        if not self.wants(task):
            return False
        if self._after(task):
            return True
        if self._limits(task):
            room = [node for node in self.session.cluster.nodes if self.session.passes(task, node)]
            nominated = [node for node in room if node.name == task.nominated]
            if room:
                self.statement.place(task, (nominated or [self.session.best(task, room)])[0], "pipelined")
                return True
        return self._evict_for(task)

    def _after(self, task: Task) -> bool:
        """Ours: the rest of the room that was made for a task is used for equal tasks first."""
        if self.made is None or (self.made[0].role, self.made[0].spec) != (task.role, task.spec):
            return False
        node = self.made[1]
        if not self.fits(task, node):
            return False
        self.statement.place(task, node, "pipelined")
        return True

    def end(self) -> bool:
        """Whether to commit; without evictions allocate places the job if it comes later in the session."""
        session, statement = self.session, self.statement
        pipelined = [task for task in statement.placed if task.state == "pipelined"]
        worth = of_use(session, self.job, pipelined) and (bool(statement.evicted) or "allocate" not in session.coming)
        if worth and statement.evicted and would_return(session, self.method, self.queue, statement.victims, pipelined):
            worth = False
        if worth:
            statement.commit()
        else:
            statement.rollback()
        return worth

    def wants(self, task: Task) -> bool:
        """Whether the queue may get more; only reclaim asks."""
        return self.method == "preemptable" or self.session.preemptive(self.queue, task.requests)

    def _evict_for(self, task: Task) -> bool:
        nodes = self.nodes(task)
        group = self.static_nodes(task)
        while nodes:
            node = first(nodes, lambda node: (-self.session.score(task, node, group), self.session.tie(task, node)))
            nodes.remove(node)
            if self.take(task, node):
                return True
        return False

    def static_nodes(self, task: Task) -> list[Node]:
        """Return the nodes that pass the filters which evictions cannot change."""
        plugins = list(self.session.every("predicate"))
        return [
            node
            for node in self.session.cluster.nodes
            if all(plugin.passes_statically(task, node) for plugin in plugins)
        ]

    def nodes(self, task: Task) -> list[Node]:
        """Return the nodes where evicting every allowed victim would make enough room."""
        return [node for node in self.static_nodes(task) if self._enough(task, node, self._bound(node))]

    def _bound(self, node: Node) -> list[Task]:
        """Return the tasks of the queue, or of other queues, that run on a node."""
        queues = self.session.cluster.queues
        there = [t for t in node.tasks if t.preemptable and t.state in ("running", "bound") and t.job is not None]
        if self.own:
            return [task for task in there if task.job is self.job]
        if self.method == "preemptable":
            return [task for task in there if task.job is not None and task.job.queue == self.job.queue]
        return [
            task
            for task in there
            if task.job is not None and task.job.queue != self.job.queue and queues[task.job.queue].reclaimable
        ]

    def _there(self, task: Task, node: Node) -> list[Task]:
        return [victim for victim in node.tasks if victim.preemptable and self.eligible(victim, task)]

    @staticmethod
    def _enough(task: Task, node: Node, victims: list[Task]) -> bool:
        return bool(victims) and all(
            node.future(name) + sum(victim.requests.get(name, 0) for victim in victims) >= amount
            for name, amount in task.requests.items()
        )

    def candidates(self, task: Task, node: Node) -> list[Task]:
        """Return the victims that plugins permit, in the order of eviction; none if they are not enough."""
        there = self.ordered(self._there(task, node))
        permitted = self.session.victims(self.method, task, there) if there else []
        return permitted if self._enough(task, node, permitted) else []

    def ordered(self, victims: list[Task]) -> list[Task]:
        """Order victims: by queue, then the last job and the last task first."""
        session, queues = self.session, self.session.cluster.queues
        victims = sorted(
            victims,
            key=lambda task: (session.job_key(task.job) if task.job else (), session.task_key(task)),
            reverse=True,
        )
        names = sorted({task.job.queue for task in victims if task.job})
        ranked = sorted((queues[name] for name in names), key=session.queue_key, reverse=True)
        ranked.sort(key=lambda queue: session.victim_queue_key(queue, self.queue))
        ranks = {queue.name: at for at, queue in enumerate(ranked)}
        return sorted(victims, key=lambda task: ranks[task.job.queue] if task.job else -1)

    def take(self, task: Task, node: Node) -> bool:
        """Evict one by one until the task fits, and undo all if it does not."""
        chosen = self.candidates(task, node)
        mark, evicted = self.statement.mark(), []
        fits = self.fits(task, node)
        for victim in chosen:
            if fits:
                break
            if self.method == "reclaimable" and not keeps_guarantee(self.session, victim):
                continue
            self.statement.evict(victim, self.reason)
            evicted.append(victim)
            fits = self.fits(task, node)
        if fits and self.pipeline(task, node, evicted):
            return True
        self.statement.rollback(mark)
        return False

    def pipeline(self, task: Task, node: Node, evicted: list[Task]) -> bool:
        self.statement.place(task, node, "pipelined")
        self.made = task, node
        return not evicted or not would_return(self.session, self.method, self.queue, evicted, [task])

    def fits(self, task: Task, node: Node) -> bool:
        return self.session.passes(task, node) and self._limits(task)

    def _limits(self, task: Task) -> bool:
        return self.session.allocatable(self.queue, task.requests)
