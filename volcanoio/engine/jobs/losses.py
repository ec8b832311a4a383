"""How soon a job makes again what vanished: at once, unless what it makes vanishes as soon as it is made.

Somebody who deletes every new PodGroup or pod is at work then: most often Kubernetes' garbage collector, of a job that
is gone itself, which we have not been told of yet. Without a pause both would go on as fast as the server answers.
"""

from __future__ import annotations

from volcanoio.engine.jobs.draft import Draft
from volcanoio.model.base import ApiObject
from volcanoio.model.times import epoch

SOON = 2.0
"""Seconds after its creation (told in whole ones) in which what goes counts as gone at once."""
FIRST, LONGEST = 0.2, 60.0
"""Seconds to wait from the second loss in a row on: the wait doubles with each; after the longest they begin anew."""


def vanished(draft: Draft, obj: ApiObject, *, ours: bool) -> None:
    """One of the job's objects went: go on at once, or after a pause. `ours` says that we deleted it.

    What was terminating before took its time.
    """
    born = epoch(obj.metadata.creation_timestamp)
    if ours or obj.metadata.deletion_timestamp is not None or born is None or draft.now - born > SOON:
        draft.set(retry_at=0.0)
        return
    state = draft.state
    if draft.now - state.lost_at > LONGEST:
        draft.set(losses=1, lost_at=draft.now, retry_at=0.0)
    elif draft.now >= state.lost_at + _pause(state.losses):
        losses = state.losses + 1
        draft.set(losses=losses, lost_at=draft.now, retry_at=draft.now + _pause(losses))
    else:
        draft.set(retry_at=max(state.retry_at, state.lost_at + _pause(state.losses)))


def _pause(losses: int) -> float:
    return min(LONGEST, FIRST * 2.0 ** (losses - 2)) if losses > 1 else 0.0
