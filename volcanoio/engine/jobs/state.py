"""What the job controller knows about one key: a fold of its events, with nothing that storage could not give again."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.gate import Gate
from volcanoio.engine.jobs.overlay import Overlay
from volcanoio.engine.jobs.pacing import Pace
from volcanoio.engine.jobs.roll import Roll
from volcanoio.engine.jobs.uids import Uids
from volcanoio.engine.jobs.wanted import Problem, Wanted
from volcanoio.framework.decisions import Act, Alert, Hold, Override
from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.command import Command
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

WriteEffect = Create | Patch | Delete


class Question(msgspec.Struct, frozen=True):
    """An event that the policies are asked about. `asked` once its Ask was emitted, for one that stands in line."""

    number: int
    event: LifecycleEvent
    asked: bool = False


class Answer(msgspec.Struct, frozen=True):
    """A decision that still has to be written down; a delayed one carries its due time (epoch seconds) in `after`."""

    event: LifecycleEvent
    decision: Act | Hold | Override


class Pending(msgspec.Struct, frozen=True):
    """An alert that a policy raised and that still has to be stored."""

    policy: str
    alert: Alert


class Owned(msgspec.Struct, frozen=True):
    """A support object of a job plugin, or a claim."""

    resource: str
    object: ApiObject


class Pause(msgspec.Struct, frozen=True):
    """A rest from counting: until when (epoch seconds), how many pods may enter other phases meanwhile, and how many
    that are terminating may go.
    """

    until: float
    changes: int
    goings: int


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """One key. Objects are held by uid.

    `started`: the barrier was passed and what storage proves was raised. `questions` wait in line, the first is being
    asked; `asides` are questions that hold nothing up, by number, `unasked` those of them whose Ask was not emitted
    yet. `answers` wait to be written down, `carried` are those that a
    status write in flight carries out: they come back if it is refused. `annotations` wait to be set on the job.
    `succeeded` counts the held pods that did, by task, whoever owns them. `sent` are the writes of a round, in the
    order they were emitted, until the first outcome tells their numbers; from then on `awaited` are those without an
    outcome, by number. `troubled`: one of this round failed. `deleting` are uids we deleted or are deleting. `gone` are
    uids that went while writes were in flight, so that a late response does not bring them back. `made` are objects
    (`resource/name`) that exist though we cannot see them yet, or never will. `stale` is the job's revision that a
    conflict proved old: until `stale_until` (epoch seconds) a newer one is waited for. `failures` counts rounds in a
    row, `retry_at` ends the back-off (epoch seconds). `losses` counts what vanished as soon as it was made, the last
    one at `lost_at`. `timers` run until the given time. `told` is what was last
    reported about waiting. `pause` is the rest that a big job takes from counting; it is `behind` when pods changed
    meanwhile. `refusal` is why an object could not be made, until that is tried again. `wanted` saves working out
    again what did not change, and so does the last `roll`, of a big job. `gate` is the question whether what is missing
    may be made, or its answer. `tick` is when the policies' next Tick is due. `ended` is the final phase and version
    that they were asked about. `alerts` wait to be stored; `heard` are those whose webhook was called to an end.
    `learned` is what was kept for the next job of this name. `born` are the pods made in this round, by the time of
    their creation; `pace` is how many are tried at once.
    """

    job: Job | None = None
    pods: Overlay[str, Pod] = Overlay()
    groups: dict[str, PodGroup] = {}
    commands: dict[str, Command] = {}
    supports: dict[str, Owned] = {}
    started: bool = False
    questions: tuple[Question, ...] = ()
    asides: Overlay[int, Question] = Overlay()
    unasked: tuple[int, ...] = ()
    last_question: int = 0
    answers: tuple[Answer, ...] = ()
    carried: tuple[Answer, ...] = ()
    annotations: dict[str, str] = {}
    succeeded: dict[str, int] = {}
    sent: tuple[WriteEffect, ...] = ()
    awaited: Overlay[int, WriteEffect] = Overlay()
    troubled: bool = False
    deleting: Uids = Uids()
    gone: Uids = Uids()
    made: frozenset[str] = frozenset()
    stale: int = -1
    stale_until: float = 0.0
    failures: int = 0
    retry_at: float = 0.0
    losses: int = 0
    lost_at: float = 0.0
    timers: dict[str, float] = {}
    told: str = ""
    pause: Pause | None = None
    behind: bool = False
    refusal: Problem | None = None
    born: dict[str, int] = {}
    pace: Pace = Pace()
    wanted: Wanted | None = None
    roll: Roll | None = None
    gate: Gate | None = None
    tick: float = 0.0
    ended: str = ""
    alerts: tuple[Pending, ...] = ()
    heard: frozenset[str] = frozenset()
    learned: dict[str, str] = {}

    @property
    def writing(self) -> bool:
        """Whether any write has no outcome yet."""
        return bool(self.sent or self.awaited)

    @property
    def knows_nothing(self) -> bool:
        """Whether there is nothing left to remember."""
        return self.job is None and not (
            self.pods or self.groups or self.commands or self.supports or self.writing or self.timers
        )

    def revision_of(self, uid: str) -> int:
        """The revision of a held object; -1 for one that is not held."""
        if self.job is not None and self.job.metadata.uid == uid:
            return self.job.metadata.revision
        obj: ApiObject | None = self.pods.get(uid) or self.groups.get(uid) or self.commands.get(uid)
        if obj is None and uid in self.supports:
            obj = self.supports[uid].object
        return -1 if obj is None else obj.metadata.revision


def awaits_newer(state: JobState, now: float) -> bool:
    """Whether a conflict proved the known job old, and its newer version is on its way."""
    return state.job is not None and state.job.metadata.revision <= state.stale and now < state.stale_until
