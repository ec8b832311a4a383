"""The gate before what a job lacks: policies that asked for it say whether PodGroup and pods may be made (`PodsDue`).

What is kept about it is no more than the question under way or its answer: a fresh process asks again, and until it is
answered the job shows what it showed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from volcanoio.engine.jobs.wanted import Problem
from volcanoio.framework.decisions import Hold
from volcanoio.framework.lifecycle import LifecycleEvent, Occasion
from volcanoio.model.batch import Job, TaskSpec

SOONEST = 1.0
"""Seconds until a held question is asked again, unless something wakes it."""
HOLD = "Hold"
"""The reason that a job shows while a policy holds it."""


class Gate(msgspec.Struct, frozen=True):
    """A question about what is due, or its answer.

    `started`: there was a PodGroup already, so it is about pods alone. `number` is the question's while it is under
    way. `passed`: nobody minds. `hold` is what a policy answered, until `due` (epoch seconds). An answer stands for
    those of its pods that are not made yet: they are let in together, and made in batches.
    """

    event: LifecycleEvent
    started: bool
    number: int = 0
    passed: bool = False
    hold: Hold | None = None
    due: float = 0.0


class Passage(msgspec.Struct, frozen=True):
    """What may be made: everything (`limits` None), or so many more pods of each task; why not more; what to ask.

    `left` is what has become of the answer, now that some of its pods are there.
    """

    limits: Mapping[str, int] | None = None
    problem: Problem | None = None
    question: Gate | None = None
    left: Gate | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing at all may be made."""
        return self.limits is not None and not any(self.limits.values())

    def through(self, pods: Iterable[tuple[TaskSpec, int]]) -> list[tuple[TaskSpec, int]]:
        """Those of the missing pods that may be made, in their order."""
        if self.limits is None:
            return list(pods)
        left = dict(self.limits)
        passed = []
        for task, index in pods:
            if left.get(task.name, 0) > 0:
                left[task.name] -= 1
                passed.append((task, index))
        return passed


OPEN = Passage()


def passage(gate: Gate | None, job: Job, missing: Iterable[tuple[TaskSpec, int]], started: bool, now: float) -> Passage:
    """What may be made of the pods that are missing, given what was asked so far."""
    due: dict[str, list[int]] = {}
    for task, index in missing:
        due.setdefault(task.name, []).append(index)
    event = LifecycleEvent(
        name=Occasion.PODS_DUE,
        job_uid=job.metadata.uid,
        version=job.status.version,
        due={task: tuple(indexes) for task, indexes in due.items()},
    )
    left = None if gate is None or gate.started != started else _left(gate, event)
    gate = left or gate
    if started and not due:
        return Passage(left=left)
    if gate is None or gate.event != event or gate.started != started:
        return Passage({}, _problem(gate) or _shown(job), Gate(event, started))
    if gate.passed:
        return Passage(left=left)
    if gate.hold is None:  # asked for the first time
        return Passage({}, _shown(job))
    again = not gate.number and gate.due <= now
    return Passage(gate.hold.pods, _problem(gate), msgspec.structs.replace(gate) if again else None, left)


def _left(gate: Gate, event: LifecycleEvent) -> Gate | None:
    """What an answer comes to when some of its pods were made and no other is missing; None when it is another case."""
    asked, hold = gate.event, gate.hold
    if gate.number or not (gate.passed or hold) or asked == event:
        return None
    if (asked.job_uid, asked.version) != (event.job_uid, event.version):
        return None
    if not all(set(asked.due.get(task, ())).issuperset(indexes) for task, indexes in event.due.items()):
        return None
    if not event.due:
        return msgspec.structs.replace(gate, event=event, hold=None, passed=True)
    if hold is not None and hold.pods is not None:
        made = {task: len(indexes) - len(event.due.get(task, ())) for task, indexes in asked.due.items()}
        pods = {task: max(0, number - made.get(task, 0)) for task, number in hold.pods.items()}
        hold = msgspec.structs.replace(hold, pods=pods)
    return msgspec.structs.replace(gate, event=event, hold=hold)


def answered(gate: Gate | None, number: int, hold: Hold | None, now: float) -> Gate | None:
    """The gate after the answer to a question; the same when it was about something else.

    A hold that is over when it is answered is asked about again after a while all the same, not without end.
    """
    if gate is None or gate.number != number:
        return gate
    if hold is None:
        return Gate(gate.event, gate.started, passed=True)
    return Gate(gate.event, gate.started, hold=hold, due=max(hold.until, now + SOONEST))


def _problem(gate: Gate | None) -> Problem | None:
    """Why the job waits, told once while the words change (a place in a line)."""
    return None if gate is None or gate.hold is None else Problem(HOLD, gate.hold.reason, HOLD)


def _shown(job: Job) -> Problem | None:
    """Why the job waits as far as a process knows that has no answer yet: what an earlier one wrote stays until then.

    So a restart writes no status of a job that goes on waiting, and policies can tell by it who waited.
    """
    state = job.status.state
    return Problem(HOLD, state.message, HOLD) if state.reason == HOLD else None
