"""What the JobFlow controller knows about one JobFlow, and how it learns it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from volcanoio.engine.flows.jobs import flow_keys
from volcanoio.engine.pacing import Pace
from volcanoio.framework.effects import CheckEndpoint, Create, Delete, Effect, Patch
from volcanoio.framework.events import Change
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.flow import JobFlow

STATUS = "status"


class FlowState(msgspec.Struct, frozen=True, kw_only=True):
    """One key. `jobs` are the Jobs that JobFlows of this name control, by uid.

    `sent` names the effects under way (see `subject`), `paces` those that were refused and when they may be tried
    again, `taken` the jobs under whose names something else stands. `passed` are the checks that were answered, `asked`
    those of a round that goes on; the next round is at `check_at` (epoch seconds), `answered` that one brought news.
    `said` is what was last told, by
    reason and subject; `timers` run until the given moment.
    """

    flow: JobFlow | None = None
    jobs: dict[str, Job] = {}
    sent: frozenset[str] = frozenset()
    paces: dict[str, Pace] = {}
    taken: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    check_at: float = 0.0
    answered: bool = False
    said: dict[str, str] = {}
    timers: dict[str, float] = {}

    @property
    def own(self) -> dict[str, Job]:
        """The Jobs of this very JobFlow, by name."""
        if self.flow is None:
            return {}
        uid = self.flow.metadata.uid
        owners = ((job, job.metadata.controller) for job in self.jobs.values())
        return {job.metadata.name: job for job, owner in owners if owner is not None and owner.uid == uid}

    def held(self, subject: str, now: float) -> bool:
        """Whether what was refused must wait still."""
        pace = self.paces.get(subject)
        return pace is not None and self.flow is not None and pace.holds(now, self.flow.metadata.revision)


def subject(effect: Effect) -> str:
    """What an effect of this controller is about: unique among those that are under way."""
    match effect:
        case Create(manifest=manifest):
            return f"create {manifest['metadata']['name']}"
        case Delete(name=name):
            return f"delete {name}"
        case CheckEndpoint(check=check):
            return check
        case Patch():
            return STATUS
        case _:
            return ""


def settled(state: FlowState, in_flight: Iterable[Effect]) -> tuple[FlowState, list[str]]:
    """Take out of `sent` what is not under way any more; gives that, too."""
    still = {subject(effect) for effect in in_flight}
    return replace(state, sent=state.sent & still), sorted(state.sent - still)


def fold(state: FlowState, obj: ApiObject, change: Change, key: str) -> FlowState:
    """Take in one object's newest state; references change nothing here, they are looked up."""
    match obj:
        case JobFlow() if obj.metadata.key == key:
            return _seen(state, None if change is Change.GONE else obj)
        case Job() if key in flow_keys(obj):
            jobs = {uid: job for uid, job in state.jobs.items() if uid != obj.metadata.uid}
            if change is not Change.GONE:
                jobs[obj.metadata.uid] = obj
            return replace(state, jobs=jobs)
        case _:
            return state


def _seen(state: FlowState, flow: JobFlow | None) -> FlowState:
    """A newer version of the JobFlow; another spec is tried at once and told of anew."""
    known = state.flow
    if flow is None or known is None or known.metadata.uid != flow.metadata.uid:
        return FlowState(flow=flow, jobs=state.jobs, sent=state.sent, timers=state.timers)
    if flow.metadata.revision < known.metadata.revision:
        return state
    if flow.spec == known.spec:
        return replace(state, flow=flow)
    return replace(state, flow=flow, said={}, paces={}, check_at=0.0)
