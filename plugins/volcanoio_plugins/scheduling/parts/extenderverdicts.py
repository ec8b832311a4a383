"""What an extender thinks of nodes for a kind of task: asked once a cycle, for all kinds that wait at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.asks import Answer
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Nodes, Task
from volcanoio.framework.scheduling_effects import Question
from volcanoio.model.names import JOB_RETRY_COUNT, JOB_VERSION, TASK_INDEX
from volcanoio_plugins.scheduling.parts.gostructs import Json, node_infos, task_info

_OF_ONE_POD = {
    TASK_INDEX,
    JOB_VERSION,
    JOB_RETRY_COUNT,
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name",
}
"""Labels and annotations in which the pods of one template differ."""


class Verdict(msgspec.Struct, frozen=True):
    """By row: which nodes an extender permits, what they score, and its objections with the nodes they are about."""

    permitted: NDArray[np.bool_]
    scores: NDArray[np.float64]
    objections: dict[str, NDArray[np.bool_]]


class Verdicts:
    """The verdicts of one cycle, by kind of task. `ask(verb, key, body)` makes a question; "" for a verb not asked."""

    def __init__(self, predicate: str, prioritize: str, *, ignorable: bool, ask: Any) -> None:
        self._predicate = predicate
        self._prioritize = prioritize
        self._ignorable = ignorable
        self._question = ask
        self._known: dict[str, Verdict] = {}
        self._infos: dict[int, Json] = {}
        self._rows: dict[str, int] = {}
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        """A session opens: nothing is known."""
        self._session = session
        self._known, self._infos, self._rows = {}, {}, {}

    def of(self, kind: str, waiting: Callable[[], Mapping[str, Task]]) -> Verdict:
        """The verdict about a kind; where it is not known, all kinds that wait are asked about, it among them."""
        found = self._known.get(kind)
        if found is None:
            self._ask(waiting())
            found = self._known[kind]
        return found

    def rows(self, nodes: Nodes) -> NDArray[np.intp] | slice:
        """Where these nodes stand in a verdict."""
        assert self._session is not None
        if nodes is self._session.nodes:
            return slice(0, len(nodes))
        if not self._rows:
            self._rows = {name: row for row, name in enumerate(self._session.nodes.names)}
        return np.fromiter((self._rows[name] for name in nodes.names), np.intp, len(nodes))

    def _ask(self, waiting: Mapping[str, Task]) -> None:
        assert self._session is not None
        candidates = {kind: self._candidates(task) for kind, task in waiting.items()}
        questions: list[Question] = []
        for kind, task in waiting.items():
            questions.extend(self._questions(kind, task, candidates[kind]))
        answers = iter(self._session.ask(questions))
        for kind, rows in candidates.items():
            verdicts = [next(answers) for _ in rows] if self._predicate else []
            self._known[kind] = self._judged(rows, verdicts, next(answers) if self._prioritize else None)

    def _questions(self, kind: str, task: Task, rows: Sequence[int]) -> list[Question]:
        """One for every node, and one for the scores of all."""
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
        """The nodes that could ever hold the task."""
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

    def _judged(self, rows: Sequence[int], verdicts: Sequence[Answer], scores: Answer | None) -> Verdict:
        """What the answers come to; nodes that could never hold the task need no permission."""
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
            by_name = part(scores, "nodeScore")
            for row in rows if isinstance(by_name, dict) else ():
                values[row] = number(by_name.get(self._session.nodes.names[row]))
        permitted = np.ones(size, np.bool_)
        for failed in objections.values():
            permitted &= ~failed
        return Verdict(permitted, values, objections)

    def _objection(self, answer: Answer, field: str) -> str:
        """Why not; "" for no objection."""
        if answer.fault:
            return "" if self._ignorable else f"the extender failed: {answer.fault}"
        return str(part(answer, field) or "")


def part(answer: Answer, field: str) -> Any:
    """One field of an answer, None where it has none."""
    return answer.value.get(field) if isinstance(answer.value, dict) else None


def number(value: Any) -> float:
    """A number, 0 for anything else."""
    return float(value) if isinstance(value, int | float) else 0.0


def kind_of(task: Task) -> str:
    """A text that pods of one template share: what of a pod an extender may read, its own name and index left out."""
    meta, spec = task.pod.metadata, msgspec.structs.replace(task.pod.spec, hostname="", node_name="")
    told = [
        {key: value for key, value in table.items() if key not in _OF_ONE_POD}
        for table in (meta.labels, meta.annotations)
    ]
    content = msgspec.json.encode((meta.namespace, task.job, task.role, told, spec), order="deterministic")
    return blake2b(content, digest_size=12).hexdigest()
