"""One session of Volcano's scheduling loop: plugins' answers combined tier by tier, and operations on tasks.

Reference: rules of combination, statements. Nothing is cached: every result is computed again each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.oracle.cluster import Amounts, Cluster, Job, Node, Queue, Task
from tests.oracle.parts import Part
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.table import PLUGINS

Tie = Callable[[Task, Node], int]
"""Rank of a node among nodes of equal score: the smallest is chosen."""
Key = tuple[Any, ...]


class Session:
    """The session of plugins and actions; at its end `binds`, `evictions` and `pipelined` are the decisions, by uid."""

    def __init__(self, cluster: Cluster, conf: str, tie: Tie, *, now: float, memory: dict[str, Any]) -> None:
        document = json.loads(conf)
        self.cluster = cluster
        self.tie = tie
        self.now = now
        self.memory = memory
        """State that plugins keep from session to session."""
        self.actions = [name.strip() for name in document["actions"].split(",")]
        self.coming: list[str] = []
        """The actions that come after the current one."""
        given = {each["name"]: each.get("arguments", {}) for each in document.get("configurations", [])}
        self.arguments: Mapping[str, Mapping[str, Any]] = given
        self.total = cluster.total()
        self.tiers: list[list[Plugin]] = [
            [PLUGINS[each["name"]](self, each, each.get("arguments", {})) for each in tier["plugins"]]
            for tier in document["tiers"]
        ]
        self.binds: dict[str, str] = {}
        self.evictions: dict[str, str] = {}
        for plugin in self.every():
            plugin.open()

    def every(self, method: str = "") -> Iterator[Plugin]:
        """Yield the plugins that have a method whose switch is on, tier by tier."""
        return (plugin for tier in self.tiers for plugin in tier if not method or plugin.offers(method))

    def tiers_with(self, method: str) -> Iterator[list[Plugin]]:
        for tier in self.tiers:
            yield [plugin for plugin in tier if plugin.offers(method)]

    # Orders: the first plugin that makes a difference decides, then creation time and name.

    def queue_key(self, queue: Queue) -> Key:
        return (*[p.queue_key(queue) for p in self.every("queue_key")], queue.created, queue.name)

    def job_key(self, job: Job) -> Key:
        return (*[p.job_key(job) for p in self.every("job_key")], job.created, job.uid)

    def task_key(self, task: Task) -> Key:
        return (*[p.task_key(task) for p in self.every("task_key")], task.order)

    def part_key(self, part: Part) -> Key:
        return (*[p.part_key(part) for p in self.every("part_key")], part.number, part.key)

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> Key:
        return tuple([p.victim_queue_key(queue, preemptor) for p in self.every("victim_queue_key")])

    # Votes.

    def overused(self, queue: Queue) -> bool:
        return any(p.overused(queue) for p in self.every("overused"))

    def allocatable(self, queue: Queue, requests: Amounts) -> bool:
        return all(p.allocatable(queue, requests) for p in self.every("allocatable"))

    def preemptive(self, queue: Queue, requests: Amounts) -> bool:
        return all(p.preemptive(queue, requests) for p in self.every("preemptive"))

    def valid(self, job: Job) -> bool:
        return all(p.valid(job) for p in self.every("valid"))

    def ready(self, job: Job) -> bool:
        return all(p.ready(job) for p in self.every("ready"))

    def pipelined(self, job: Job) -> bool:
        return self._poll("pipelined", job)

    def part_ready(self, part: Part) -> bool:
        return all(p.part_ready(part) for p in self.every("part_ready"))

    def part_stands(self, part: Part) -> bool:
        """Whether a sub-job is ready, or waits for resources that are being released."""
        return self.part_ready(part) or self._poll("part_pipelined", part)

    def enqueueable(self, job: Job) -> bool:
        return self._poll("enqueueable", job)

    def _poll(self, method: str, job: Job | Part) -> bool:
        """Combine votes: the first tier with a vote decides, and a rejection wins in it; without a vote it is yes."""
        for tier in self.tiers_with(method):
            votes = [getattr(plugin, method)(job) for plugin in tier]
            if any(vote < 0 for vote in votes):
                return False
            if any(vote > 0 for vote in votes):
                return True
        return True

    def starving(self, job: Job) -> bool:
        """Whether all plugins of the first tier with a vote agree; False if no tier has one."""
        for tier in self.tiers_with("starving"):
            if tier:
                return all(plugin.starving(job) for plugin in tier)
        return False

    def victims(self, method: str, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the victims that plugins allow for a task; the method is preemptable or reclaimable."""
        return self._named(method, candidates, preemptor, candidates)

    def evictable(self, job: Job, action: str, candidates: Sequence[Task]) -> list[Task]:
        """Return the victims that plugins allow for a gang; the action is gangpreempt or gangreclaim."""
        return self._named("evictable", candidates, job, action, candidates)

    def _named(self, method: str, candidates: Sequence[Task], *given: Any) -> list[Task]:
        """Return the intersection of the first tier that has victims; a plugin without victims ends its tier."""
        for tier in self.tiers_with(method):
            named: list[Task] | None = None
            for plugin in tier:
                answer = getattr(plugin, method)(*given)
                if answer is None:
                    continue
                if not answer:
                    named = None
                    break
                named = [task for task in (candidates if named is None else named) if task in answer]
            if named:
                return named
        return []

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        """Return the union of the victims of the first tier that has any, as far as guards permit."""
        for tier in self.tiers_with("victim_tasks"):
            named = [task for plugin in tier for task in plugin.victim_tasks(candidates)]
            if named:
                victims = [task for task in candidates if task in named]
                for guard in self.every("permitted"):
                    victims = guard.permitted(victims)
                return victims
        return []

    # Nodes.

    def passes(self, task: Task, node: Node) -> bool:
        """Whether a task fits into idle and releasing resources of a node, and passes every filter."""
        return all(node.future(name) >= amount for name, amount in task.requests.items()) and self.allowed(task, node)

    def allowed(self, task: Task, node: Node) -> bool:
        return all(p.predicate(task, node) for p in self.every("predicate"))

    def score(self, task: Task, node: Node, group: list[Node]) -> float:
        """Sum the scores: of the node, relative to the candidate nodes, and of the task."""
        total = 0.0
        for plugin in self.every("score"):
            total += plugin.score(task, node)
        for plugin in self.every("relative_scores"):
            for part in plugin.relative_scores(task, node, group):
                total += part
        for plugin in self.every("own_score"):
            total += plugin.own_score(task, node)
        return total

    def best(self, task: Task, group: list[Node]) -> Node:
        return min(group, key=lambda node: (-self.score(task, node, group), self.tie(task, node)))

    def find(self, task: Task, *, idle_only: bool = False) -> tuple[Node, str] | None:
        """Return node and status for a task: the nominated node, else one with idle resources, else any that fits."""

        def idle(node: Node) -> bool:
            return all(node.idle(name) >= amount for name, amount in task.requests.items())

        candidates = [node for node in self.cluster.nodes if self.passes(task, node)]
        idling = [node for node in candidates if idle(node)]
        if idle_only:
            candidates = idling
        for node in candidates:
            if node.name == task.nominated:
                return node, "allocated" if idle(node) else "pipelined"
        for group, state in ((idling, "allocated"), (candidates, "pipelined")):
            if group:
                return self.best(task, group), state
        return None

    # What happens to tasks.

    def assume(self, task: Task, node: Node, state: str) -> None:
        task.state, task.node = state, node.name
        node.tasks.append(task)
        for plugin in self.every("placed"):
            plugin.placed(task)

    def forget(self, task: Task) -> None:
        for plugin in self.every("removed"):
            plugin.removed(task)
        self.cluster.node(task.node).tasks.remove(task)
        task.state, task.node = "pending", ""

    def pending(self, job: Job, *, best_effort: bool) -> list[Task]:
        """Return the tasks of a job that are to be placed, in order."""
        tasks = [t for t in job.tasks if t.state == "pending" and not t.gated and t.best_effort == best_effort]
        return sorted(tasks, key=self.task_key)


class Statement:
    """The operations for one job, which are committed or undone together."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.placed: list[Task] = []
        self.evicted: list[tuple[Task, str, str]] = []
        """The evicted tasks, each with its earlier state and the reason."""

    def place(self, task: Task, node: Node, state: str) -> None:
        self._session.assume(task, node, state)
        self.placed.append(task)

    def evict(self, task: Task, reason: str) -> None:
        self.evicted.append((task, task.state, reason))
        task.state, task.evicted = "releasing", True

    def spare(self, task: Task) -> None:
        """Undo one eviction."""
        entry = next(entry for entry in self.evicted if entry[0] is task)
        self.evicted.remove(entry)
        task.state, task.evicted = entry[1], False

    @property
    def victims(self) -> list[Task]:
        return [task for task, _, _ in self.evicted]

    def mark(self) -> tuple[int, int]:
        return len(self.placed), len(self.evicted)

    def rollback(self, mark: tuple[int, int] = (0, 0)) -> None:
        for task in reversed(self.placed[mark[0] :]):
            self._session.forget(task)
        del self.placed[mark[0] :]
        for task in reversed(self.victims[mark[1] :]):
            self.spare(task)

    def commit(self) -> None:
        for task in self.placed:
            if task.state == "allocated":
                self._session.binds[task.uid] = task.node
        for task, _, reason in self.evicted:
            self._session.evictions[task.uid] = reason


def run(session: Session, actions: Mapping[str, Callable[[Session], None]]) -> Session:
    """Run the whole session."""
    for at, name in enumerate(session.actions):
        session.coming = session.actions[at + 1 :]
        actions[name](session)
    return session


def first(items: Iterable[Any], key: Callable[[Any], Key]) -> Any:
    """Return the first element in the current order."""
    return min(items, key=key)
