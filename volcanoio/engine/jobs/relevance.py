"""Whether a change can alter a plan. Most changes of pods cannot: they were bound, or got an address or a condition.

A plan looks at every pod of its job, so planning at each of these changes would cost the square of the job's size; and
a queue that counts its jobs anew would have all of them planned.
"""

from __future__ import annotations

from operator import attrgetter

import msgspec

from volcanoio.engine.jobs.roll import settled
from volcanoio.engine.jobs.state import JobState
from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import Queue

_OF_PODS = ("pods", "roll", "succeeded")
_OF_GOING = (*_OF_PODS, "deleting", "gone")
_fields = tuple(field.name for field in msgspec.structs.fields(JobState))
_beside_pods = attrgetter(*(name for name in _fields if name not in _OF_PODS))
_beside_going = attrgetter(*(name for name in _fields if name not in _OF_GOING))


def may_alter_plan(before: JobState, after: JobState, uid: str) -> bool:
    """Whether a plan made of `after` may differ from one of `before`, given that at most the pod of that uid changed.

    Time alone alters plans, too: for that there are timers.
    """
    old, new = before.pods.get(uid), after.pods.get(uid)
    if old is not new and (old is None or new is None or _seen_by_plan(old) != _seen_by_plan(new)):
        return True
    return not after.started or not same_beside_pods(before, after)


def after_unplanned(state: JobState, event: Observed) -> JobState | None:
    """The state after a change of a pod that no plan and no policy looks at; None for any other.

    It is what folding would come to: such a pod stays in its phase, and none of its containers was restarted.
    """
    pod = event.object
    if not isinstance(pod, Pod) or event.change is Change.GONE:
        return None
    uid = pod.metadata.uid
    known: Pod | None = state.pods.get(uid)
    if known is None:
        return None
    if pod.metadata.revision <= known.metadata.revision:  # the echo of a write of ours
        return state
    if uid in state.gone or _seen_by_plan(known) != _seen_by_plan(pod):
        return None
    roll, held = state.roll, state.pods
    if roll is not None and held.crowded:
        roll, held = settled(roll, held, state.deleting)
    pods = held.with_item(uid, pod)
    if roll is not None and roll.held is held:  # it says the same of both, and holds no older ones for long
        roll = msgspec.structs.replace(roll, held=pods)
    return msgspec.structs.replace(state, pods=pods, roll=roll)


def same_beside_pods(before: JobState, after: JobState) -> bool:
    """Whether two states differ in nothing but pods."""
    if before.last_question != after.last_question:  # so that long lines of questions are not compared
        return False
    return before is after or bool(_beside_pods(before) == _beside_pods(after))


def same_beside_going(before: JobState, after: JobState) -> bool:
    """Whether two states differ in nothing but pods, and in which of those that we deleted are still there."""
    if before.last_question != after.last_question:
        return False
    return before is after or bool(_beside_going(before) == _beside_going(after))


def is_bookkeeping(event: Observed) -> bool:
    """Whether a queue's counts are all that changed: no job looks at them."""
    old, new = event.previous, event.object
    if not isinstance(old, Queue) or not isinstance(new, Queue) or old.metadata.uid != new.metadata.uid:
        return False
    return old.status.state == new.status.state and old.spec == new.spec


def _seen_by_plan(pod: Pod) -> tuple[object, ...]:
    """All that planning, policies' questions aside, reads of a pod that exists."""
    meta, status = pod.metadata, pod.status
    return (
        meta.deletion_timestamp,
        meta.labels,
        meta.annotations,
        meta.owner_references,
        status.phase,
        status.container_statuses,
        status.init_container_statuses,
    )
