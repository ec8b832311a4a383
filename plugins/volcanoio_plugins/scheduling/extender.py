"""Plugin extender: an HTTP server takes part in scheduling (Volcano: pkg/scheduler/plugins/extender).

Requests go through `SessionView.ask`: a cycle that needs an answer it does not have ends, and the next one opens with
it. Filters and scores are requested once per cycle for all pending shapes. Tasks, nodes, jobs and queues are sent as
JSON of Volcano's Go structs (pkg/scheduler/api): fields without tags have their Go names, and what this scheduler does
not keep is left out, so that Go's decoder uses the zero value.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.scheduling.sessionview import Answer, SessionView
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Depends, Feasibility, Verdict, Vote, reject
from volcanoio.framework.scheduling.views import Job, Nodes, QueueView, Shape, Task, TaskStatus
from volcanoio.framework.scheduling_effects import Question
from volcanoio.model import kinds
from volcanoio.model.names import JOB_RETRY_COUNT, JOB_VERSION, REVOCABLE_ZONE, TASK_INDEX
from volcanoio.model.resources import CPU, MEMORY, PODS
from volcanoio.model.scheduling import PodGroupPhase

Json = dict[str, Any]
_READY = 1


def resource(amounts: Mapping[str, int]) -> Json:
    """Return a Resource: milli-cores, bytes, pods, and thousandths of everything else."""
    scalars = {name: float(amount) for name, amount in amounts.items() if name not in (CPU, MEMORY)}
    return {
        "MilliCPU": float(amounts.get(CPU, 0)),
        "Memory": float(amounts.get(MEMORY, 0)),
        "ScalarResources": scalars or None,
        "MaxTaskNum": amounts.get(PODS, 0),
    }


def task_info(task: Task) -> Json:
    """Return a TaskInfo; the status is one bit, in the order of the states."""
    requests = resource(task.shape.requests)
    return {
        "UID": task.uid,
        "Job": task.job,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": requests,
        "InitResreq": requests,
        "NodeName": task.node,
        "Status": 1 << int(task.status),
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "BestEffort": task.shape.best_effort,
        "Pod": kinds.POD.manifest(task.pod),
    }


def node_infos(nodes: Nodes, rows: Iterable[int], resources: Iterable[str]) -> list[Json]:
    """Return NodeInfos of some rows, with these resources and without the tasks on them."""
    names = sorted(resources)
    columns: dict[str, Mapping[str, NDArray[np.int64]]] = {
        "Idle": {name: nodes.idle(name) for name in names},
        "Used": {name: nodes.used(name) for name in names},
        "Allocatable": {name: nodes.allocatable(name) for name in names},
        "FutureIdle": {name: nodes.future_idle(name) for name in names},
    }
    found = []
    for row in rows:
        amounts = {what: {name: int(column[row]) for name, column in by.items()} for what, by in columns.items()}
        future = amounts.pop("FutureIdle")
        coming = {name: future[name] - amounts["Idle"][name] for name in names}
        node = nodes.objects[row]
        found.append(
            {
                "Name": nodes.names[row],
                "Node": kinds.NODE.manifest(node),
                "State": {"Phase": _READY, "Reason": ""},
                "Releasing": resource({name: max(amount, 0) for name, amount in coming.items()}),
                "Pipelined": resource({name: max(-amount, 0) for name, amount in coming.items()}),
                "RevocableZone": node.metadata.labels.get(REVOCABLE_ZONE, ""),
                **{what: resource(values) for what, values in amounts.items()},
                "Capacity": resource(amounts["Allocatable"]),
            }
        )
    return found


def job_info(job: Job, *, tasks: bool = True) -> Json:
    """Return a JobInfo, with or without its tasks."""
    return {
        "UID": job.key,
        "PgUID": job.uid,
        "Name": job.key.partition("/")[2],
        "Namespace": job.namespace,
        "Queue": job.queue,
        "Priority": job.priority,
        "MinAvailable": job.min_available,
        "TaskMinAvailable": dict(job.role_minimums),
        "Allocated": resource(job.allocated),
        "TotalRequest": resource(job.requested),
        "CreationTimestamp": job.created or None,
        "PodGroup": kinds.POD_GROUP.manifest(job.group),
        "Tasks": {task.uid: task_info(task) for task in job.tasks} if tasks else None,
    }


def queue_info(queue: QueueView) -> Json:
    """Return a QueueInfo."""
    return {"UID": queue.name, "Name": queue.name, "Weight": queue.weight, "Queue": kinds.QUEUE.manifest(queue.object)}


class ManagedResource(msgspec.Struct, frozen=True):
    """A resource that the extender manages; `ignoredByScheduler` is kube-scheduler's and has no effect here."""

    name: str
    ignored: bool = msgspec.field(default=False, name="ignoredByScheduler")


class ExtenderArguments(msgspec.Struct, frozen=True):
    """The URL and verbs of an extender; a verb that is "" is not called.

    `ignorable`: a failing extender has no objection. With `managedResources` filters, scores and evictions apply only
    to tasks that request one of these.
    """

    url: str = msgspec.field(default="", name="extender.urlPrefix")
    timeout: GoDuration = msgspec.field(default=GoDuration(1), name="extender.httpTimeout")
    ignorable: bool = msgspec.field(default=False, name="extender.ignorable")
    managed: tuple[str | ManagedResource, ...] = msgspec.field(default=(), name="extender.managedResources")
    session_open: str = msgspec.field(default="", name="extender.onSessionOpenVerb")
    session_close: str = msgspec.field(default="", name="extender.onSessionCloseVerb")
    predicate: str = msgspec.field(default="", name="extender.predicateVerb")
    prioritize: str = msgspec.field(default="", name="extender.prioritizeVerb")
    preemptable: str = msgspec.field(default="", name="extender.preemptableVerb")
    reclaimable: str = msgspec.field(default="", name="extender.reclaimableVerb")
    queue_overused: str = msgspec.field(default="", name="extender.queueOverusedVerb")
    job_enqueueable: str = msgspec.field(default="", name="extender.jobEnqueueableVerb")
    job_enqueued: str = msgspec.field(default="", name="extender.jobEnqueuedVerb")
    job_ready: str = msgspec.field(default="", name="extender.jobReadyVerb")
    allocated: str = msgspec.field(default="", name="extender.allocateFuncVerb")
    deallocated: str = msgspec.field(default="", name="extender.deallocateFuncVerb")


_POD_SPECIFIC = {
    TASK_INDEX,
    JOB_VERSION,
    JOB_RETRY_COUNT,
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name",
}
"""Labels and annotations that differ between the pods of one template."""


class NodeVerdict(msgspec.Struct, frozen=True):
    """By row: permitted nodes, scores, and objections with the nodes they apply to."""

    permitted: NDArray[np.bool_]
    scores: NDArray[np.float64]
    objections: dict[str, NDArray[np.bool_]]


class VerdictCache:
    """The verdicts of one cycle, by pod template. `ask(verb, key, body)` creates a question."""

    def __init__(self, predicate: str, prioritize: str, *, ignorable: bool, ask: Any) -> None:
        self._predicate = predicate
        self._prioritize = prioritize
        self._ignorable = ignorable
        self._question = ask
        self._cached: dict[str, NodeVerdict] = {}
        self._infos: dict[int, Json] = {}
        self._rows: dict[str, int] = {}
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        """Start a session with an empty cache."""
        self._session = session
        self._cached, self._infos, self._rows = {}, {}, {}

    def of(self, kind: str, pending: Callable[[], Mapping[str, Task]]) -> NodeVerdict:
        """Return the verdict about a template; a missing one is requested together with all pending templates."""
        if (found := self._cached.get(kind)) is None:
            self._ask(pending())
            found = self._cached[kind]
        return found

    def rows(self, nodes: Nodes) -> NDArray[np.intp] | slice:
        """Return the rows of these nodes in a verdict."""
        assert self._session is not None
        if nodes is self._session.nodes:
            return slice(0, len(nodes))
        if not self._rows:
            self._rows = {name: row for row, name in enumerate(self._session.nodes.names)}
        return np.fromiter((self._rows[name] for name in nodes.names), np.intp, len(nodes))

    def _ask(self, pending: Mapping[str, Task]) -> None:
        assert self._session is not None
        candidates = {kind: self._candidates(task) for kind, task in pending.items()}
        questions: list[Question] = []
        for kind, task in pending.items():
            questions.extend(self._questions(kind, task, candidates[kind]))
        answers = iter(self._session.ask(questions))
        for kind, rows in candidates.items():
            verdicts = [next(answers) for _ in rows] if self._predicate else []
            self._cached[kind] = self._combine(rows, verdicts, next(answers) if self._prioritize else None)

    def _questions(self, kind: str, task: Task, rows: Sequence[int]) -> list[Question]:
        infos, about = self._node_infos(rows), task_info(task)
        found = []
        if self._predicate:
            found = [
                self._question(self._predicate, f"{kind}/{info['Name']}", {"task": about, "node": info})
                for info in infos
            ]
        if self._prioritize:
            found.append(self._question(self._prioritize, kind, {"task": about, "nodes": infos}))
        return found

    def _candidates(self, task: Task) -> list[int]:
        """Return the nodes that are large enough for the task."""
        assert self._session is not None
        nodes = self._session.nodes
        ok = np.ones(len(nodes), np.bool_)
        for name, amount in task.shape.requests.items():
            ok &= nodes.allocatable(name) >= amount
        return [int(row) for row in np.flatnonzero(ok)]

    def _node_infos(self, rows: Sequence[int]) -> list[Json]:
        assert self._session is not None
        missing = [row for row in rows if row not in self._infos]
        made = node_infos(self._session.nodes, missing, self._session.total)
        self._infos.update(zip(missing, made, strict=True))
        return [self._infos[row] for row in rows]

    def _combine(self, rows: Sequence[int], verdicts: Sequence[Answer], scores: Answer | None) -> NodeVerdict:
        """Combine the answers; nodes that are too small for the task need no permission."""
        assert self._session is not None
        size = len(self._session.nodes)
        objections: dict[str, NDArray[np.bool_]] = {}
        for row, answer in zip(rows, verdicts, strict=bool(self._predicate)):
            if text := self._objection(answer, "status"):
                objections.setdefault(text, np.zeros(size, np.bool_))[row] = True
        values = np.zeros(size)
        if scores is not None:
            if text := self._objection(scores, "errorMessage"):
                objections[text] = np.ones(size, np.bool_)
            by_name = field_of(scores, "nodeScore")
            for row in rows if isinstance(by_name, dict) else ():
                values[row] = number(by_name.get(self._session.nodes.names[row]))
        permitted = np.ones(size, np.bool_)
        for failed in objections.values():
            permitted &= ~failed
        return NodeVerdict(permitted, values, objections)

    def _objection(self, answer: Answer, field: str) -> str:
        if answer.fault:
            return "" if self._ignorable else f"the extender failed: {answer.fault}"
        return str(field_of(answer, field) or "")


def field_of(answer: Answer, field: str) -> Any:
    """Return one field of an answer, None if it is missing."""
    return answer.value.get(field) if isinstance(answer.value, dict) else None


def number(value: Any) -> float:
    """Return a number, 0 for anything else."""
    return float(value) if isinstance(value, int | float) else 0.0


def template_hash(task: Task) -> str:
    """Return a hash shared by the pods of one template, without their own names and indexes."""
    meta, spec = task.pod.metadata, msgspec.structs.replace(task.pod.spec, hostname="", node_name="")
    labels_and_annotations = [
        {key: value for key, value in table.items() if key not in _POD_SPECIFIC}
        for table in (meta.labels, meta.annotations)
    ]
    content = msgspec.json.encode(
        (meta.namespace, task.job, task.role, labels_and_annotations, spec), order="deterministic"
    )
    return blake2b(content, digest_size=12).hexdigest()


REFUSED = "ExtenderRefused"
_PENDING_PHASES = (PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN)
_OCCUPYING = (TaskStatus.BOUND, TaskStatus.RUNNING)


class Extender:
    """Calls the configured verbs; the others abstain."""

    name = "extender"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, ExtenderArguments, self.name)
        if not given.url.startswith(("http://", "https://")):
            msg = f'{self.name}: extender.urlPrefix "{given.url}" is not a URL; write it as http://HOST:PORT/PATH'
            raise ArgumentError(msg, key="extender.urlPrefix")
        self._given = given
        self._managed = {item if isinstance(item, str) else item.name for item in given.managed}
        self._session: SessionView | None = None
        self._verdicts = VerdictCache(given.predicate, given.prioritize, ignorable=given.ignorable, ask=self._question)
        self._filters_or_scores = bool(given.predicate or given.prioritize)
        self._examples: dict[str, Task] = {}
        self._placed: list[Task] = []
        self._evicted: list[Task] = []
        self._closed = False

    def open(self, session: SessionView) -> None:
        """Notify the extender, if configured."""
        self._session = session
        self._verdicts.open(session)
        self._examples, self._placed, self._evicted, self._closed = {}, [], [], False
        if self._given.session_open:
            nodes = node_infos(session.nodes, range(len(session.nodes)), session.total)
            body = {
                "Jobs": {key: job_info(job) for key, job in session.jobs.items()},
                "Nodes": {info["Name"]: info for info in nodes},
                "Queues": {name: queue_info(queue) for name, queue in session.queues.items()},
                "NodeList": list(session.nodes.names),
            }
            session.notify(self._question(self._given.session_open, "", body))

    def close(self, session: SessionView) -> None:
        """Notify the extender of binds, evictions and the end of the session."""
        if self._closed:
            return
        self._closed = True
        for task in self._placed:
            if task.status is TaskStatus.BINDING:
                session.notify(self._question(self._given.allocated, task.uid, {"task": task_info(task)}))
        for task in self._evicted:
            if task.status is TaskStatus.RELEASING:
                session.notify(self._question(self._given.deallocated, task.uid, {"task": task_info(task)}))
        if self._given.session_close:
            session.notify(self._question(self._given.session_close, "", {}))

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - depends on the pod only
        """Return the template's hash if the extender filters or scores nodes for the pod."""
        if not self._filters_or_scores or not self._manages(task):
            return ""
        kind = template_hash(task)
        self._examples.setdefault(kind, task)
        return kind

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on the extender, whose answer may change in each cycle."""
        return Depends.NOW if shape.traits.get(self.name) else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes that the extender permits."""
        if not (kind := shape.traits.get(self.name)) or kind not in self._examples:
            return Feasibility(np.ones(len(nodes), np.bool_))
        verdict = self._verdicts.of(kind, self._pending)
        rows = self._verdicts.rows(nodes)
        return Feasibility(
            verdict.permitted[rows], tuple((text, failed[rows]) for text, failed in verdict.objections.items())
        )

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on the extender, if it scores."""
        return Depends.NOW if self._given.prioritize and shape.traits.get(self.name) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - the extender scores all nodes
        """Return the extender's scores unchanged."""
        kind = shape.traits.get(self.name)
        if not self._given.prioritize or not kind or kind not in self._examples:
            return np.zeros(len(nodes))
        return self._verdicts.of(kind, self._pending).scores[self._verdicts.rows(nodes)]

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return the candidates that the extender selects among all tasks of the queue."""
        jobs = self._jobs
        queue = jobs[preemptor.job].queue if preemptor.job in jobs else ""
        others = [job for job in jobs.values() if job.queue == queue]
        return self._victims(self._given.preemptable, preemptor, others, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return the candidates that the extender selects among all tasks of other queues."""
        jobs = self._jobs
        queue = jobs[reclaimer.job].queue if reclaimer.job in jobs else ""
        others = [job for job in jobs.values() if job.queue != queue]
        return self._victims(self._given.reclaimable, reclaimer, others, candidates)

    def overused(self, queue: QueueView) -> bool:
        """Return the extender's answer; a failing one that is not ignorable counts as overused."""
        if not (verb := self._given.queue_overused):
            return False
        assert self._session is not None
        queues = self._session.queues
        known = {name: self._question(verb, name, {"queue": queue_info(each)}) for name, each in queues.items()}
        answer = dict(zip(known, self._session.ask(list(known.values())), strict=True))[queue.name]
        return not self._given.ignorable if answer.fault else bool(field_of(answer, "overused"))

    def job_enqueueable(self, job: Job) -> Verdict:
        """Return the extender's vote; all pending jobs are sent at once."""
        if not (verb := self._given.job_enqueueable):
            return ABSTAIN
        assert self._session is not None
        pending = {each.key: each for each in self._session.jobs_in(PodGroupPhase.PENDING)} | {job.key: job}
        questions = [self._question(verb, key, {"job": job_info(each)}) for key, each in pending.items()]
        answer = dict(zip(pending, self._session.ask(questions), strict=True))[job.key]
        if answer.fault:
            return PERMIT if self._given.ignorable else reject(REFUSED, f"the extender failed: {answer.fault}")
        if (vote := number(field_of(answer, "status"))) < Vote.ABSTAIN:
            return reject(REFUSED, "the extender does not admit it")
        return PERMIT if vote > Vote.ABSTAIN else ABSTAIN

    def job_enqueued(self, job: Job) -> None:
        """Notify the extender."""
        if verb := self._given.job_enqueued:
            assert self._session is not None
            self._session.notify(self._question(verb, job.key, {"job": job_info(job)}))

    def job_ready(self, job: Job) -> bool:
        """Return the extender's answer, given the current placements."""
        if not (verb := self._given.job_ready):
            return True
        assert self._session is not None
        state = f"{job.key}/{job.ready_count}/{job.count(TaskStatus.PIPELINED)}"
        question = self._question(verb, state, {"job": job_info(job)}, {"status": True})
        answer = self._session.ask([question])[0]
        return self._given.ignorable if answer.fault else bool(field_of(answer, "status"))

    def task_placed(self, task: Task) -> None:
        """Record the task: the extender is notified when the session closes, if it was bound."""
        if self._given.allocated:
            self._placed.append(task)

    def task_evicted(self, task: Task) -> None:
        """Record the task: the extender is notified when the session closes."""
        if self._given.deallocated:
            self._evicted.append(task)

    @property
    def _jobs(self) -> Mapping[str, Job]:
        assert self._session is not None
        return self._session.jobs

    def _manages(self, task: Task) -> bool:
        return not self._managed or any(task.shape.requests.get(name) for name in self._managed)

    def _pending(self) -> dict[str, Task]:
        """Return a pending task of each template."""
        assert self._session is not None
        for phase in _PENDING_PHASES:
            for job in self._session.jobs_in(phase):
                if job.count(TaskStatus.PENDING):
                    for task in job.tasks:
                        if task.status is TaskStatus.PENDING:
                            self.trait(task, job)
        return self._examples

    def _victims(
        self, verb: str, preemptor: Task, jobs: Sequence[Job], candidates: Sequence[Task]
    ) -> Sequence[Task] | None:
        """Return the permitted candidates; None if the extender abstains."""
        if not verb or not self._manages(preemptor):
            return None
        assert self._session is not None
        evictees = [task for job in jobs for task in job.tasks if task.preemptable and task.status in _OCCUPYING]
        body = {"evictor": task_info(preemptor), "evictees": [task_info(task) for task in evictees]}
        answer = self._session.ask([self._question(verb, f"{preemptor.job}/{template_hash(preemptor)}", body)])[0]
        if answer.fault:
            return None if self._given.ignorable else []
        if (vote := number(field_of(answer, "status"))) == Vote.ABSTAIN:
            return None
        named = _uids(answer)
        return [task for task in candidates if vote > Vote.ABSTAIN and task.uid in named]

    def _question(self, verb: str, key: str, body: Json, default: Any = None) -> Question:
        """Return a question for a verb; without an answer, the extender has no objection."""
        return Question(
            plugin=self.name,
            key=f"{verb}/{key}",
            url=f"{self._given.url.rstrip('/')}/{verb}",
            body=body,
            timeout=float(self._given.timeout),
            default=default or {},
        )


def _uids(answer: Answer) -> set[str]:
    victims = field_of(answer, "victims")
    listed = victims if isinstance(victims, list) else []
    return {str(victim["UID"]) for victim in listed if isinstance(victim, dict) and "UID" in victim}
