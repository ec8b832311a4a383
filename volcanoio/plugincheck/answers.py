"""All answers of a plugin in a session, as values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.rows import AmountIndex, SingleRow
from volcanoio.framework.scheduling.points import APPLIES_TO, KEPT_JOB_KEYS
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Job, Shape, Task, TaskStatus

# The number of shapes, jobs and tasks that a plugin is called for.
SHAPES, JOBS, CANDIDATES = 6, 12, 12


@dataclass(frozen=True)
class Answer:
    """The answer of one call: about nodes (`rows`, one value a node) or about one object (`value`).

    `depends` are the declared dependencies of the rows; `scalar` is set if the rows were computed one by one.
    """

    call: str
    about: str
    value: Any = None
    rows: NDArray[Any] | None = None
    depends: Depends = Depends.EVERYTHING
    scalar: bool = False
    facts: Any = None
    """What a cached key may depend on; None if it is not cached."""

    def same(self, other: Answer) -> bool:
        """Return whether both answers are equal."""
        if self.rows is None or other.rows is None:
            return bool(self.value == other.value)
        return bool(np.array_equal(self.rows, other.rows))


@dataclass(frozen=True)
class SessionSample:
    """The shapes, jobs and tasks of a session that a plugin is called for."""

    session: Session
    shapes: tuple[Shape, ...]
    jobs: tuple[Job, ...]
    waiting: tuple[Task, ...]
    running: tuple[Task, ...]

    @classmethod
    def of(cls, session: Session) -> SessionSample:
        """Take the first few of each in the session."""
        jobs = tuple(session.jobs[key] for key in sorted(session.jobs)[:JOBS])
        tasks = sorted(chain.from_iterable(job.tasks for job in jobs), key=lambda task: task.uid)
        pending = [task for task in tasks if task.status is TaskStatus.PENDING]
        shapes = {task.shape.id: task.shape for task in pending}
        return cls(
            session,
            tuple(islice(shapes.values(), SHAPES)),
            jobs,
            tuple(pending[:CANDIDATES]),
            tuple(task for task in tasks if task.status in (TaskStatus.RUNNING, TaskStatus.BOUND))[:CANDIDATES],
        )

    @property
    def columns(self) -> NodeColumns:
        """The session's nodes."""
        nodes = self.session.nodes
        assert isinstance(nodes, NodeColumns)
        return nodes


def answers(plugin: Any, sample: SessionSample) -> dict[tuple[str, str], Answer]:
    """Return all answers of a plugin about a sample, by call and subject."""
    asked = chain(_about_nodes(plugin, sample), _about_queues(plugin, sample), _about_jobs(plugin, sample))
    return {(answer.call, answer.about): answer for answer in asked}


def _about_nodes(plugin: Any, sample: SessionSample) -> Iterator[Answer]:
    for prefix, part in parts_of(plugin):
        for shape in sample.shapes:
            about = f"shape {shape.id} ({_requests(shape)})"
            for call, ask in _NODE_CALLS.items():
                if callable(getattr(part, call, None)):
                    yield ask(part, sample, shape, prefix, about)


def parts_of(plugin: Any) -> Iterator[tuple[str, Any]]:
    """Yield a plugin, and its `filters` and `scorers`, each with the prefix of its calls."""
    yield "", plugin
    for group in ("filters", "scorers"):
        for at, part in enumerate(getattr(plugin, group, ())):
            yield f"{group}[{at}].", part


def _depends(part: Any, call: str, shape: Shape) -> Depends:
    fields = getattr(part, APPLIES_TO, None)
    if fields is not None and not any(getattr(shape, field) for field in fields):
        return Depends.NOTHING
    declared = getattr(part, call, None)
    return declared(shape) if callable(declared) else Depends.EVERYTHING


def _feasible(part: Any, sample: SessionSample, shape: Shape, prefix: str, about: str) -> Answer:
    found: Feasibility = part.feasible(shape, sample.columns)
    failing = dict(found.reasons)
    return Answer(
        f"{prefix}feasible",
        about,
        value=tuple((text, mask.tobytes()) for text, mask in failing.items()),
        rows=found.ok,
        depends=_depends(part, "feasible_depends", shape),
    )


def _feasible_on(part: Any, sample: SessionSample, shape: Shape, prefix: str, about: str) -> Answer:
    texts = [part.feasible_on(shape, row) for row in _rows(sample.columns)]
    depends = _depends(part, "feasible_depends", shape)
    return Answer(f"{prefix}feasible_on", about, rows=np.array(texts, object), depends=depends, scalar=True)


def _score(part: Any, sample: SessionSample, shape: Shape, prefix: str, about: str) -> Answer:
    everywhere = np.ones(len(sample.columns), np.bool_)
    scores = part.score(shape, sample.columns, everywhere)
    return Answer(f"{prefix}score", about, rows=scores, depends=_depends(part, "score_depends", shape))


def _score_on(part: Any, sample: SessionSample, shape: Shape, prefix: str, about: str) -> Answer:
    depends = _depends(part, "score_depends", shape)
    scores = [] if depends & Depends.FEASIBLE_SET else [part.score_on(shape, row) for row in _rows(sample.columns)]
    return Answer(f"{prefix}score_on", about, rows=np.array(scores, np.float64), depends=depends, scalar=True)


def _score_from(part: Any, sample: SessionSample, shape: Shape, prefix: str, about: str) -> Answer:
    ask = part.score_from(shape, AmountIndex(sample.columns))
    scores = [ask(sample.columns.amounts(row)) for row in range(len(sample.columns))]
    depends = _depends(part, "score_depends", shape)
    return Answer(f"{prefix}score_from", about, rows=np.array(scores, np.float64), depends=depends, scalar=True)


_NODE_CALLS: dict[str, Callable[[Any, SessionSample, Shape, str, str], Answer]] = {
    "feasible": _feasible,
    "feasible_on": _feasible_on,
    "score": _score,
    "score_on": _score_on,
    "score_from": _score_from,
}


def _rows(columns: NodeColumns) -> Iterator[SingleRow]:
    at = SingleRow(columns)
    for number in range(len(columns)):
        at.load(number)
        yield at


def _requests(shape: Shape) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(shape.requests.items()))


def _about_queues(plugin: Any, sample: SessionSample) -> Iterator[Answer]:
    for name, queue in sorted(sample.session.queues.items()):
        for call in ("queue_key", "overused"):
            if callable(ask := getattr(plugin, call, None)):
                yield Answer(call, f"queue {name}", ask(queue))
        if callable(ask := getattr(plugin, "fits", None)):
            for shape in sample.shapes:
                for count in (1, 8):
                    yield Answer("fits", f"{count} of shape {shape.id} in queue {name}", ask(queue, shape, count))


def _facts(job: Job, sample: SessionSample) -> tuple[Any, ...]:
    """Return what `JobOrder` permits a cached key to depend on."""
    counts = tuple(job.count(status) for status in TaskStatus)
    amounts = (dict(job.allocated), dict(job.requested), dict(sample.session.total))
    return (job.group, job.queue, job.priority, job.phase, counts, *amounts)


def _about_jobs(plugin: Any, sample: SessionSample) -> Iterator[Answer]:
    for job in sample.jobs:
        for call in ("job_key", "job_valid", "job_ready", "job_pipelined", "job_starving"):
            if callable(ask := getattr(plugin, call, None)) and job.queue in sample.session.queues:
                kept = call == "job_key" and getattr(plugin, KEPT_JOB_KEYS, False)
                yield Answer(call, f"job {job.key}", ask(job), facts=_facts(job, sample) if kept else None)
        if callable(ask := getattr(plugin, "job_enqueueable", None)) and job.min_resources is not None:
            yield Answer("job_enqueueable", f"job {job.key}", ask(job))
    for task in sample.waiting:
        if callable(ask := getattr(plugin, "task_key", None)):
            yield Answer("task_key", f"task {task.name}", ask(task))
    for call in ("preemptable", "reclaimable"):
        if callable(ask := getattr(plugin, call, None)) and sample.waiting and sample.running:
            named = ask(sample.waiting[0], sample.running)
            yield Answer(
                call, f"task {sample.waiting[0].name}", None if named is None else tuple(task.uid for task in named)
            )
