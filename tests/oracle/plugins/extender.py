"""Plugin extender: a service takes part in decisions; here it is an object, without HTTP.

Unlike Volcano: a failed request of an ignorable extender counts as consent, also for readiness and victims; a task is
not placed if the scores of an extender that is not ignorable are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import READY, Job, Node, Queue, Task
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.services import Service, kind


class Extender(Plugin):
    def open(self) -> None:
        self.service: Service = self.session.memory["service"]
        self.ignorable = self.arguments.get("extender.ignorable", False)

    def predicate(self, task: Task, node: Node) -> bool:
        if not self._manages(task):
            return True
        if self._fails("prioritize") and not self.ignorable:
            return False
        if self._fails("predicate"):
            return bool(self.ignorable)
        return not self._asks("predicate") or self.service.permits(_kind(task), node.name)

    def score(self, task: Task, node: Node) -> float:
        if not self._asks("prioritize") or not self._manages(task) or self._fails("prioritize"):
            return 0.0
        return self.service.score(_kind(task), node.name)

    def enqueueable(self, job: Job) -> int:
        if self._fails("jobEnqueueable"):
            return 1 if self.ignorable else -1
        return self.service.admits(_key(job)) if self._asks("jobEnqueueable") else 0

    def overused(self, queue: Queue) -> bool:
        if self._fails("queueOverused"):
            return not self.ignorable
        return self._asks("queueOverused") and self.service.overused(queue.name)

    def ready(self, job: Job) -> bool:
        if self._fails("jobReady"):
            return bool(self.ignorable)
        return not self._asks("jobReady") or self.service.ready(_key(job), job.count(*READY))

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        return self._victims("preemptable", preemptor, candidates)

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        return self._victims("reclaimable", preemptor, candidates)

    def _victims(self, verb: str, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        if not self._asks(verb) or not self._manages(preemptor):
            return None
        if self._fails(verb):
            return None if self.ignorable else []
        vote = self.service.vote(_kind(preemptor))
        if vote == 0:
            return None
        return [task for task in candidates if vote > 0 and self.service.names(_kind(preemptor), task.name)]

    def _asks(self, verb: str) -> bool:
        return f"extender.{verb}Verb" in self.arguments

    def _fails(self, verb: str) -> bool:
        return self._asks(verb) and verb in self.service.down

    def _manages(self, task: Task) -> bool:
        managed = self.arguments.get("extender.managedResources", [])
        return not managed or any(task.requests.get(each["name"]) for each in managed)


def _key(job: Job) -> str:
    return f"{job.namespace}/{job.name}"


def _kind(task: Task) -> str:
    assert task.job is not None
    return kind(_key(task.job), task.role, task.requests.get("cpu", 0))
