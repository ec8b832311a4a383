"""The one mutable thing while an event is reduced: the next state and the effects that go with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanoio.engine.jobs.state import JobState, Question, WriteEffect
from volcanoio.framework.effects import Ask, Create, Delete, Effect, Patch, Stages
from volcanoio.framework.lifecycle import LifecycleEvent, Roster
from volcanoio.framework.operators import event as told
from volcanoio.model import kinds
from volcanoio.model.batch import Job


@dataclass(slots=True)
class Draft:
    """What a reduction has come to so far. `writes` are stages; `beside` are effects without an outcome, and asks."""

    state: JobState
    now: float
    roster: Roster = field(default_factory=Roster)
    writes: list[list[WriteEffect]] = field(default_factory=list)
    beside: list[Effect] = field(default_factory=list)

    def set(self, **changes: Any) -> None:
        """Change fields of the state."""
        self.state = msgspec.structs.replace(self.state, **changes)

    def stage(self, effects: list[WriteEffect]) -> None:
        """Add a stage of writes; an empty one is none."""
        if effects:
            self.writes.append(effects)

    def report(self, kind: str, reason: str, message: str) -> None:
        """Write an Event about the job, `kind` Normal or Warning."""
        if self.state.job is not None:
            self.beside.append(told(kinds.JOB, self.state.job, reason, message, type_=kind))

    def warn_once(self, reason: str, message: str, topic: str = "") -> None:
        """A Warning about waiting, unless it is what was said last, or was last said about the same topic."""
        text = topic or (f"{reason}: {message}" if reason else "")
        if text and text != self.state.told:
            self.report("Warning", reason, message)
        if text != self.state.told:
            self.set(told=text)

    def queue(self, events: list[LifecycleEvent], aside: frozenset[str]) -> None:
        """Line questions up, those of `aside` beside the line."""
        for event in events:
            state, number = self.state, self.state.last_question + 1
            question = Question(number, event)
            if event.name in aside:
                self.set(asides=state.asides.with_item(number, question), unasked=(*state.unasked, number))
            else:
                self.set(questions=(*state.questions, question))
            self.set(last_question=number)

    def ask(self) -> None:
        """Put the first question of the line and every one beside it, each once."""
        state = self.state
        if state.questions and not state.questions[0].asked:
            head = msgspec.structs.replace(state.questions[0], asked=True)
            self.beside.append(Ask(question=head.number, event=head.event))
            self.set(questions=(head, *state.questions[1:]))
        if state.unasked:
            self.beside += [Ask(question=number, event=state.asides[number].event) for number in state.unasked]
            self.set(unasked=())

    def stages(self) -> Stages:
        """What to carry out, noting what is sent.

        Beside an Ask only the first stage of writes goes out, as nothing may wait for a policy by accident; what
        follows is planned again from what that stage brought.
        """
        asking = any(isinstance(effect, Ask) for effect in self.beside)
        stages = self.writes[:1] if asking else self.writes
        sent = tuple(effect for stage in stages for effect in stage)
        deleting = {effect.uid for effect in sent if isinstance(effect, Delete)}
        if sent:
            self.set(sent=sent, deleting=self.state.deleting.plus(deleting))
        if not self.beside:
            return tuple(tuple(stage) for stage in stages)
        first = tuple(stages[0]) if stages else ()
        return ((*self.beside, *first), *(tuple(stage) for stage in stages[1:]))


def key_of(effect: Create | Patch | Delete) -> str:
    """`resource/name` of the object that a write is about."""
    name = effect.manifest["metadata"]["name"] if isinstance(effect, Create) else effect.name
    return f"{effect.resource}/{name}"


def job_patch(job: Job, patch: object, subresource: str) -> Patch:
    """A patch of the job, or of its status, that holds for the version it was computed from alone."""
    meta = job.metadata
    return Patch(
        resource=kinds.JOB.resource,
        namespace=meta.namespace,
        name=meta.name,
        patch=patch,
        subresource=subresource,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
