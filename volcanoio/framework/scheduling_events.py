"""Events of the scheduler's process: observations, outcomes of binds, and starts and ends of cycles."""

from typing import Any, TypeAlias

from volcanoio.framework.events import EffectFailed, EffectSucceeded, Event, Observed, Relisting, Synced
from volcanoio.framework.scheduling_effects import SchedulerEffect


class BindOutcome(Event, frozen=True, kw_only=True):
    """Base of the outcomes of a bind or eviction: the pod by uid, its PodGroup's key and the node."""

    group: str
    uid: str
    namespace: str
    name: str
    node: str


class BindDone(BindOutcome, frozen=True, kw_only=True):
    """The pod was bound to the node by this scheduler; its own watch event is still to come."""


class BindRefused(BindOutcome, frozen=True, kw_only=True):
    """The bind failed for good; the task's node is released.

    A definite 4xx, a pod that is gone or bound elsewhere, a failed PreBind step, or lost leadership.
    """

    code: int
    reason: str = ""
    message: str = ""


class BindUnknown(BindOutcome, frozen=True, kw_only=True):
    """Time-out, reset or 5xx: the task keeps its node.

    The binder reads the pod from the API server and then reports BindDone or BindRefused.
    """

    message: str = ""


class EvictDone(BindOutcome, frozen=True, kw_only=True):
    """The pod's deletion was accepted; it is Releasing until it is gone."""


class EvictRefused(BindOutcome, frozen=True, kw_only=True):
    """The eviction failed for good: the task keeps its previous status."""

    code: int
    message: str = ""


class FactsSaid(Event, frozen=True, kw_only=True):
    """A source published facts by key, None for a withdrawn one; with `whole` they replace all earlier ones."""

    source: str
    facts: dict[str, Any] = {}
    whole: bool = False


class AskAnswered(Event, frozen=True, kw_only=True):
    """The answer to a plugin's question: JSON, or the reason in `fault` why there is none."""

    plugin: str
    key: str
    value: Any = None
    fault: str = ""


class CycleOpened(Event, frozen=True, kw_only=True):
    """A cycle starts: every event with seq <= `upto` is folded. `seed` breaks ties, `now` is `at`.

    `period` is the schedule period in seconds; with `answering` questions of plugins are answered. Together with the
    state this is the complete input of a cycle.
    """

    cycle: int
    upto: int
    seed: int
    period: float = 1.0
    answering: bool = False


class ArrivalsFolded(Event, frozen=True, kw_only=True):
    """Latency-bound pods were folded within a cycle, before older events, and are placed at once.

    `boundary` is the number of the gang boundary (from 1), 0 before the first action. `arrivals` are the seqs of their
    first events.
    """

    cycle: int
    boundary: int
    arrivals: tuple[int, ...]


class Decided(Event, frozen=True, kw_only=True):
    """Decisions of a cycle since its last such event; they are being sent. A replay is compared with it."""

    cycle: int
    decisions: tuple[SchedulerEffect, ...]


class CycleClosed(Event, frozen=True, kw_only=True):
    """A cycle ended. `where` is the action at whose gang boundary the budget cut it, "" when it ran to its end.

    `boundaries` is the number of that gang boundary (from 1), 0 when the cycle was not cut: a replay cuts at the same
    one. `fault` is the exception of a plugin or action that ended the cycle. `stopped` is the checkpoint (from 1) at
    which the cycle was abandoned because the process ends, 0 when it was not.
    """

    cycle: int
    where: str = ""
    boundaries: int = 0
    fault: str = ""
    stopped: int = 0


class ConfigurationChanged(Event, frozen=True, kw_only=True):
    """A configuration took effect; `text` is the file, `plugins` maps names to origins (version or sha256).

    `sources` are the files of mounted plugins and actions by name: a replay runs these. With `ignore_unavailable`,
    unavailable plugins were skipped.
    """

    text: str
    plugins: dict[str, str] = {}
    sources: dict[str, str] = {}
    ignore_unavailable: bool = False


SchedulerEvent: TypeAlias = (
    Observed
    | Synced
    | Relisting
    | BindDone
    | BindRefused
    | BindUnknown
    | EvictDone
    | EvictRefused
    | FactsSaid
    | AskAnswered
    | EffectSucceeded
    | EffectFailed
    | CycleOpened
    | ArrivalsFolded
    | Decided
    | CycleClosed
    | ConfigurationChanged
)
