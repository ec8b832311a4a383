"""What the host hands out: stages to carry out, and the error of a reducer that broke."""

from __future__ import annotations

import msgspec

from volcanoio.framework.effects import Stages


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """The stages of one step of one key, every effect with its id.

    `step` numbers the steps of this process, `cause` is the seq of the event that was reduced and `at` its time.
    """

    controller: str
    key: str
    step: int
    stages: Stages
    cause: int
    at: float


class StoryLine(msgspec.Struct, frozen=True, array_like=True):
    """One event as a fault report shows it."""

    seq: int
    at: float
    event: str
    detail: str


class InvariantError(Exception):
    """A reducer raised: our bug or the controller author's, never the cluster's.

    `story` are the key's last events, oldest first, the one that broke it last; `retry_at` is when the key is rebuilt
    from the cache (epoch seconds). The reducer's own exception is the `__cause__`.
    """

    def __init__(self, controller: str, key: str, story: tuple[StoryLine, ...], retry_at: float, error: str) -> None:
        super().__init__(f"{controller}: the reducer of {key} raised {error}; the key is rebuilt at {retry_at:.3f}")
        self.controller = controller
        self.key = key
        self.story = story
        self.retry_at = retry_at
