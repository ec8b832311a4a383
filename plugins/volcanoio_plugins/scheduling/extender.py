"""Plugin extender: an HTTP server has a say in scheduling (Volcano: pkg/scheduler/plugins/extender).

Questions are asked as `asks` says: a cycle that lacks an answer ends, and the next one opens with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.scheduling.asks import Answer
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Depends, Feasibility, Vote, reject
from volcanoio.framework.scheduling.verdicts import Verdict as JobVerdict
from volcanoio.framework.scheduling.views import Job, Nodes, QueueView, Shape, Task, TaskStatus
from volcanoio.framework.scheduling_effects import Question
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.parts.extenderarguments import ExtenderArguments
from volcanoio_plugins.scheduling.parts.extenderverdicts import Verdicts, kind_of, number, part
from volcanoio_plugins.scheduling.parts.gostructs import Json, job_info, node_infos, queue_info, task_info

REFUSED = "ExtenderRefused"
_WAITING = (PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN)
_OCCUPYING = (TaskStatus.BOUND, TaskStatus.RUNNING)


class Extender:
    """Asks the verbs that are configured; the others are none of its business."""

    name = "extender"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, ExtenderArguments, self.name)
        if not given.url.startswith(("http://", "https://")):
            msg = f'{self.name}: extender.urlPrefix "{given.url}" is no URL; write it as http://HOST:PORT/PATH'
            raise ArgumentError(msg, key="extender.urlPrefix")
        self._given = given
        self._managed = {item if isinstance(item, str) else item.name for item in given.managed}
        self._session: SessionView | None = None
        self._verdicts = Verdicts(given.predicate, given.prioritize, ignorable=given.ignorable, ask=self._question)
        self._judges = bool(given.predicate or given.prioritize)
        self._examples: dict[str, Task] = {}
        self._placed: list[Task] = []
        self._evicted: list[Task] = []
        self._told_close = False

    def open(self, session: SessionView) -> None:
        """Tell the extender, if it wants to know."""
        self._session = session
        self._verdicts.open(session)
        self._examples, self._placed, self._evicted, self._told_close = {}, [], [], False
        if self._given.session_open:
            nodes = node_infos(session.nodes, range(len(session.nodes)), session.total)
            body = {
                "Jobs": {key: job_info(job) for key, job in session.jobs.items()},
                "Nodes": {info["Name"]: info for info in nodes},
                "Queues": {name: queue_info(queue) for name, queue in session.queues.items()},
                "NodeList": list(session.nodes.names),
            }
            session.tell(self._question(self._given.session_open, "", body))

    def close(self, session: SessionView) -> None:
        """Tell the extender what was bound and evicted, and that the session is over."""
        if self._told_close:
            return
        self._told_close = True
        for task in self._placed:
            if task.status is TaskStatus.BINDING:
                session.tell(self._question(self._given.allocated, task.uid, {"task": task_info(task)}))
        for task in self._evicted:
            if task.status is TaskStatus.RELEASING:
                session.tell(self._question(self._given.deallocated, task.uid, {"task": task_info(task)}))
        if self._given.session_close:
            session.tell(self._question(self._given.session_close, "", {}))

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - the pod says what it is
        """What an extender may read of the pod, where it is asked about nodes for it."""
        if not self._judges or not self._manages(task):
            return ""
        kind = kind_of(task)
        self._examples.setdefault(kind, task)
        return kind

    def feasible_depends(self, shape: Shape) -> Depends:
        """The extender, which may say something else in each cycle."""
        return Depends.NOW if shape.traits.get(self.name) else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes that the extender permits."""
        kind = shape.traits.get(self.name)
        if not kind or kind not in self._examples:
            return Feasibility(np.ones(len(nodes), np.bool_))
        verdict = self._verdicts.of(kind, self._waiting)
        rows = self._verdicts.rows(nodes)
        return Feasibility(
            verdict.permitted[rows], tuple((text, failed[rows]) for text, failed in verdict.objections.items())
        )

    def score_depends(self, shape: Shape) -> Depends:
        """As `feasible_depends`."""
        return Depends.NOW if self._given.prioritize and shape.traits.get(self.name) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - it is asked about all nodes
        """The extender's scores as they are."""
        kind = shape.traits.get(self.name)
        if not self._given.prioritize or not kind or kind not in self._examples:
            return np.zeros(len(nodes))
        return self._verdicts.of(kind, self._waiting).scores[self._verdicts.rows(nodes)]

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Those of the candidates that the extender names, of all tasks of the queue."""
        jobs = self._jobs
        queue = jobs[preemptor.job].queue if preemptor.job in jobs else ""
        others = [job for job in jobs.values() if job.queue == queue]
        return self._victims(self._given.preemptable, preemptor, others, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Those of the candidates that the extender names, of all tasks of other queues."""
        jobs = self._jobs
        queue = jobs[reclaimer.job].queue if reclaimer.job in jobs else ""
        others = [job for job in jobs.values() if job.queue != queue]
        return self._victims(self._given.reclaimable, reclaimer, others, candidates)

    def overused(self, queue: QueueView) -> bool:
        """Whether the extender says so; one that fails and cannot be ignored does."""
        verb = self._given.queue_overused
        if not verb:
            return False
        assert self._session is not None
        queues = self._session.queues
        known = {name: self._question(verb, name, {"queue": queue_info(each)}) for name, each in queues.items()}
        answer = dict(zip(known, self._session.ask(list(known.values())), strict=True))[queue.name]
        return not self._given.ignorable if answer.fault else bool(part(answer, "overused"))

    def job_enqueueable(self, job: Job) -> JobVerdict:
        """The extender's vote; all jobs that wait are asked about at once."""
        verb = self._given.job_enqueueable
        if not verb:
            return ABSTAIN
        assert self._session is not None
        waiting = {each.key: each for each in self._session.jobs_in(PodGroupPhase.PENDING)} | {job.key: job}
        questions = [self._question(verb, key, {"job": job_info(each)}) for key, each in waiting.items()]
        answer = dict(zip(waiting, self._session.ask(questions), strict=True))[job.key]
        if answer.fault:
            return PERMIT if self._given.ignorable else reject(REFUSED, f"the extender failed: {answer.fault}")
        vote = number(part(answer, "status"))
        if vote < Vote.ABSTAIN:
            return reject(REFUSED, "the extender does not admit it")
        return PERMIT if vote > Vote.ABSTAIN else ABSTAIN

    def job_enqueued(self, job: Job) -> None:
        """Tell the extender."""
        if verb := self._given.job_enqueued:
            assert self._session is not None
            self._session.tell(self._question(verb, job.key, {"job": job_info(job)}))

    def job_ready(self, job: Job) -> bool:
        """Whether the extender says so, given what is placed by now."""
        verb = self._given.job_ready
        if not verb:
            return True
        assert self._session is not None
        state = f"{job.key}/{job.ready_count}/{job.count(TaskStatus.PIPELINED)}"
        question = self._question(verb, state, {"job": job_info(job)}, {"status": True})
        answer = self._session.ask([question])[0]
        return self._given.ignorable if answer.fault else bool(part(answer, "status"))

    def task_placed(self, task: Task) -> None:
        """The extender is told when the session closes, if the task was bound."""
        if self._given.allocated:
            self._placed.append(task)

    def task_evicted(self, task: Task) -> None:
        """The extender is told when the session closes."""
        if self._given.deallocated:
            self._evicted.append(task)

    @property
    def _jobs(self) -> Mapping[str, Job]:
        assert self._session is not None
        return self._session.jobs

    def _manages(self, task: Task) -> bool:
        return not self._managed or any(task.shape.requests.get(name) for name in self._managed)

    def _waiting(self) -> dict[str, Task]:
        """A task of each kind that waits for a node."""
        assert self._session is not None
        for phase in _WAITING:
            for job in self._session.jobs_in(phase):
                if job.count(TaskStatus.PENDING):
                    for task in job.tasks:
                        if task.status is TaskStatus.PENDING:
                            self.trait(task, job)
        return self._examples

    def _victims(
        self, verb: str, taker: Task, jobs: Sequence[Job], candidates: Sequence[Task]
    ) -> Sequence[Task] | None:
        """The permitted candidates; None where the extender has no opinion."""
        if not verb or not self._manages(taker):
            return None
        assert self._session is not None
        evictees = [task for job in jobs for task in job.tasks if task.preemptable and task.status in _OCCUPYING]
        body = {"evictor": task_info(taker), "evictees": [task_info(task) for task in evictees]}
        answer = self._session.ask([self._question(verb, f"{taker.job}/{kind_of(taker)}", body)])[0]
        if answer.fault:
            return None if self._given.ignorable else []
        vote = number(part(answer, "status"))
        if vote == Vote.ABSTAIN:
            return None
        named = _uids(answer)
        return [task for task in candidates if vote > Vote.ABSTAIN and task.uid in named]

    def _question(self, verb: str, key: str, body: Json, default: Any = None) -> Question:
        """A question under a verb; where nobody asks, the extender has no objection."""
        return Question(
            plugin=self.name,
            key=f"{verb}/{key}",
            url=f"{self._given.url.rstrip('/')}/{verb}",
            body=body,
            timeout=float(self._given.timeout),
            default=default or {},
        )


def _uids(answer: Answer) -> set[str]:
    """The uids of the victims an answer names."""
    victims = part(answer, "victims")
    listed = victims if isinstance(victims, list) else []
    return {str(victim["UID"]) for victim in listed if isinstance(victim, dict) and "UID" in victim}
