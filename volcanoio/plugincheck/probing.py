"""`Probing`: an action that calls a plugin's methods before, during and after placements that are undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.verdicts import Depends, Verdict
from volcanoio.plugincheck.answers import Answer, SessionSample, answers
from volcanoio.plugincheck.report import Report

UNDO = "allocate, undo, compare"
AGREE = "scalar and vector forms agree"
AGAIN = "asked twice, the answer is the same"
CACHED = "kept answers are right as long as what they depend on is unchanged"
SOUND = "answers are of the right kind"
READS = "the columns are only read"
_ANYTHING = Depends.FEASIBLE_SET | Depends.PODS | Depends.SOURCE | Depends.NOW
_Answers = Mapping[tuple[str, str], Answer]


class Probing:
    """An action that checks a plugin's answers; findings are added to the report."""

    name = "probing"

    def __init__(self, plugin: Any, report: Report) -> None:
        self._plugin = plugin
        self._report = report
        self._before: tuple[_Answers, _NodeFacts] | None = None
        for check in (SOUND, READS, AGAIN, AGREE, CACHED, UNDO):
            report.begin(check)

    def run(self, session: Session) -> Iterator[None]:
        """Compare the answers before, during and after placements."""
        sample = SessionSample.of(session)
        block = sample.columns.block.copy()
        current = answers(self._plugin, sample)
        if not np.array_equal(block, sample.columns.block):
            self._report.add(READS, "a method wrote to an array of the session's nodes; copy what you change")
        self._sound(current, sample)
        self._compare(current, answers(self._plugin, sample), AGAIN, "is asked again and says otherwise")
        self._agree(current)
        facts = _NodeFacts(sample.columns)
        if self._before is not None:
            self._kept(*self._before, current, facts)
        self._before = (current, facts)
        yield
        yield from self._undo(session, sample, current, block)

    def _undo(self, session: Session, sample: SessionSample, current: _Answers, block: NDArray[Any]) -> Iterator[None]:
        """Place each pending job, discard it, and compare the answers."""
        for job in list(session.jobs_with_pending_tasks())[:8]:
            statement = session.statement(job)
            for run in session.runs(job, best_effort=False):
                statement.allocate(run, 0, len(run.tasks), until_ready=False)
            answers(self._plugin, sample)  # what is cached now must not outlive the placements
            statement.discard()
            session.begin_attempt(job)
            if not np.array_equal(block, sample.columns.block):
                self._report.add(UNDO, "the nodes are not what they were: a method wrote to them")
            text = (
                f"says otherwise after placements of job {job.key} were undone; keep what `allocated` and `released` "
                "count in SessionView.table, and what is worked out from it by Table.version"
            )
            self._compare(current, answers(self._plugin, sample), UNDO, text)
            yield

    def _compare(self, first: _Answers, second: _Answers, check: str, text: str) -> None:
        for key, answer in first.items():
            if key not in second or not answer.same(second[key]):
                self._report.add(check, f"{answer.call} {text} (first seen: {answer.about})")
                return

    def _agree(self, current: _Answers) -> None:
        for (call, about), scalar in current.items():
            vector = current.get((call.removesuffix("_on").removesuffix("_from"), about))
            if not scalar.scalar or vector is None or scalar.rows is None or not len(scalar.rows):
                continue
            rows = scalar.rows == "" if call.endswith("feasible_on") else scalar.rows
            assert vector.rows is not None
            if len(different := np.flatnonzero(vector.rows != rows)):
                at = int(different[0])
                self._report.add(
                    AGREE,
                    f"{vector.call} and {call} differ for {about}, row {at}: {vector.rows[at]} and {rows[at]}; "
                    "use the same operations in the same order",
                )

    def _kept(self, before: _Answers, then: _NodeFacts, current: _Answers, now: _NodeFacts) -> None:
        """Report answers that differ from those of an earlier cycle although no declared dependency changed."""
        for key, answer in current.items():
            old = before.get(key)
            if answer.facts is not None and old is not None and old.facts == answer.facts and not answer.same(old):
                text = "though nothing of the job changed; remove keeps_job_keys"
                self._report.add(
                    CACHED, f"{answer.call} went from {old.value} to {answer.value} for {answer.about}, {text}"
                )
        if then.names != now.names:
            return
        for key, answer in current.items():
            old = before.get(key)
            if old is None or old.rows is None or answer.rows is None or len(old.rows) != len(answer.rows):
                continue
            depends = old.depends | answer.depends
            if depends & _ANYTHING:
                continue
            if len(wrong := np.flatnonzero((old.rows != answer.rows) & ~now.changed(then, depends))):
                self._report.add(CACHED, _stale_text(old, answer, int(wrong[0]), now, then))

    def _sound(self, current: _Answers, sample: SessionSample) -> None:
        for answer in current.values():
            if problem := _wrong_kind(answer, len(sample.columns)):
                self._report.add(SOUND, f"{answer.call} {problem}")
        for call in ("queue_key", "job_key", "task_key"):
            keys = [answer.value for answer in current.values() if answer.call == call]
            try:
                sorted(keys)
            except TypeError as error:
                self._report.add(SOUND, f"{call} gives keys that cannot be sorted: {error}")


class _NodeFacts:
    """The properties of nodes that answers about rows may depend on, by row."""

    def __init__(self, columns: NodeColumns) -> None:
        self.names = tuple(columns.names)
        self._specs = np.array([id(obj) for obj in columns.objects], np.int64)
        self._objects = tuple(columns.objects)  # kept alive, so that ids stay unique
        resources = list(columns.resources)
        self._offers = self._stack(columns, (Quantity.ALLOCATABLE,), resources)
        used = tuple(quantity for quantity in Quantity if quantity is not Quantity.ALLOCATABLE)
        self._usage = self._stack(columns, used, resources)

    @staticmethod
    def _stack(columns: NodeColumns, quantities: tuple[Quantity, ...], resources: list[str]) -> NDArray[np.int64]:
        rows = [columns.view(quantity, name) for quantity in quantities for name in resources]
        return np.array(rows, np.int64).reshape(len(rows), len(columns))

    def changed(self, then: _NodeFacts, depends: Depends) -> NDArray[np.bool_]:
        result = np.zeros(len(self.names), np.bool_)
        if depends & Depends.NODE_SPEC:
            result |= self._specs != then._specs
        if depends & (Depends.NODE_SPEC | Depends.NODE_AMOUNTS):
            result |= _differs(self._offers, then._offers)
        if depends & Depends.NODE_USAGE:
            result |= _differs(self._usage, then._usage)
        return result


def _differs(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
    if one.shape != other.shape:  # a resource was added
        return np.ones(one.shape[1], np.bool_)
    return np.asarray((one != other).any(axis=0), np.bool_)


def _stale_text(old: Answer, new: Answer, row: int, now: _NodeFacts, then: _NodeFacts) -> str:
    depends = old.depends | new.depends
    assert old.rows is not None
    assert new.rows is not None
    seen = [
        name
        for name, flag in (("NODE_SPEC", Depends.NODE_SPEC), ("NODE_USAGE", Depends.NODE_USAGE))
        if now.changed(then, flag)[row]
    ]
    declared = " | ".join(flag.name or "" for flag in Depends if flag in depends) or "NOTHING"
    change = f"its {' and '.join(seen)} changed" if seen else "neither its spec nor its usage changed"
    kind = "feasible_depends" if "feasible" in new.call else "score_depends"
    return (
        f"{new.call} of node {now.names[row]} went from {old.rows[row]} to {new.rows[row]} between two cycles in which "
        f"{change}, but {kind} declares {declared}; declare what the answer depends on"
    )


def _wrong_kind(answer: Answer, nodes: int) -> str:
    rows, value, call = answer.rows, answer.value, answer.call.rpartition(".")[2]
    if call in ("feasible", "score"):
        if not isinstance(rows, np.ndarray) or rows.shape != (nodes,):
            return (
                f"must give an array of one entry a node ({nodes}), not {getattr(rows, 'shape', type(rows).__name__)}"
            )
        if call == "feasible" and rows.dtype != np.bool_:
            return f"must give bools, not {rows.dtype}"
        if call == "score" and not np.isfinite(rows.astype(np.float64)).all():
            return "gives a score that is not a finite number"
    if call == "feasible_on" and rows is not None and not all(isinstance(text, str) for text in rows):
        return 'must give "" or the reason why not, as a string'
    if call == "fits" and (not isinstance(value, int) or not 0 <= value <= int(answer.about.split()[0])):
        return f"must give a whole number from 0 to the count asked for, not {value!r}"
    if call in ("job_valid", "job_pipelined", "job_enqueueable") and not isinstance(value, Verdict):
        return f"must give a Verdict (PERMIT, ABSTAIN, reject(code, text)), not {value!r}"
    if call in ("overused", "job_ready", "job_starving") and not isinstance(value, (bool, np.bool_)):
        return f"must give True or False, not {value!r}"
    return ""
