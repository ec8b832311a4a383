"""What the host keeps about one key beside the controller's own state."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from volcanoio.engine.hosting.dispatch import StoryLine
from volcanoio.framework.effects import (
    Ask,
    CheckEndpoint,
    Create,
    Delete,
    Effect,
    Notify,
    Patch,
    StartTimer,
    StopTimer,
)
from volcanoio.framework.events import (
    Answered,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Notified,
    Observed,
    PoliciesLoaded,
    TimerFired,
)

STORY_LENGTH = 20
BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds until a key whose reducer raised is rebuilt, by consecutive faults; the last one repeats."""
QUIET = 600.0
"""Seconds without a fault after which the back-off starts anew."""

_WITH_OUTCOME = (Create, Patch, Delete, Ask, Notify, CheckEndpoint)


@dataclass(slots=True)
class KeyRecord:
    """One key: the controller's state (None: nothing known), effects in flight by id, its timers, its recent story.

    A `broken` key is not reduced until it is rebuilt; `faults` counts consecutive ones, `last_fault` is when.
    """

    state: Any = None
    in_flight: dict[int, Effect] = field(default_factory=dict)
    timers: set[str] = field(default_factory=set)
    _story: deque[tuple[int, float, str, tuple[object, ...]]] = field(
        default_factory=lambda: deque(maxlen=STORY_LENGTH)
    )
    broken: bool = False
    faults: int = 0
    last_fault: float = float("-inf")

    @property
    def idle(self) -> bool:
        """Whether nothing is left to remember."""
        return self.state is None and not self.in_flight and not self.broken

    def take(self, effect: Effect) -> None:
        """Note an effect that is about to be carried out, if something comes back of it."""
        if isinstance(effect, _WITH_OUTCOME):
            self.in_flight[effect.id] = effect
        elif isinstance(effect, StartTimer):
            self.timers.add(effect.name)
        elif isinstance(effect, StopTimer):
            self.timers.discard(effect.name)

    def settle(self, event: ControllerEvent) -> None:
        """Remove what an outcome event ends, before the controller sees it."""
        match event:
            case EffectSucceeded():
                self.in_flight.pop(event.effect_id, None)
            case EffectFailed():
                for effect_id in (event.effect_id, *event.dropped):
                    self.in_flight.pop(effect_id, None)
            case Answered():
                for effect_id, effect in self.in_flight.items():
                    if isinstance(effect, Ask) and effect.question == event.question:
                        del self.in_flight[effect_id]
                        break
            case Notified():
                told = [
                    number
                    for number, effect in self.in_flight.items()
                    if isinstance(effect, Notify) and effect.notice == event.notice
                ]
                for number in told:
                    del self.in_flight[number]
            case TimerFired():
                self.timers.discard(event.name)
            case _:
                pass

    def fault(self, now: float) -> float:
        """Note that the reducer raised; returns when to rebuild."""
        if now - self.last_fault > QUIET:
            self.faults = 0
        self.faults += 1
        self.last_fault = now
        self.broken = True
        self.state = None
        return now + BACK_OFF[min(self.faults, len(BACK_OFF)) - 1]

    def tell(self, event: ControllerEvent) -> None:
        """Add an event to the story. Only names are kept, so that old objects are not; they become text when asked."""
        self._story.append((event.seq, event.at, type(event).__name__, _subject(event)))

    @property
    def story(self) -> tuple[StoryLine, ...]:
        """The last events, oldest first."""
        return tuple(
            StoryLine(seq, at, name, " ".join(str(part) for part in subject)) for seq, at, name, subject in self._story
        )


def _subject(event: ControllerEvent) -> tuple[object, ...]:
    """What identifies an event's subject."""
    if isinstance(event, Observed):
        meta = event.obj.metadata
        return (event.resource, meta.namespace, meta.name, event.change, meta.uid, meta.resource_version)
    match event:
        case EffectSucceeded():
            return ("effect", event.effect_id)
        case EffectFailed():
            return ("effect", event.effect_id, event.code, event.reason, "dropped", event.dropped)
        case TimerFired():
            return (event.name,)
        case Answered():
            return ("question", event.question, type(event.decision).__name__, event.policy or "nobody")
        case Notified():
            return ("notice", event.notice, "delivered" if event.delivered else event.problem)
        case PoliciesLoaded():
            return (*event.roster.everywhere, *event.roster.named)
        case _:
            return (event.resource,)
