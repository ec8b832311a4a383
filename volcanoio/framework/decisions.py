"""What a lifecycle policy may decide: a closed family."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from volcanoio.model.batch import JobAction
from volcanoio.model.core import ResourceList


class DecisionBase(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all decisions."""


class Abstain(DecisionBase, frozen=True, kw_only=True):
    """Nothing to say: the next policy is asked; when all abstain the job is synced."""


class Act(DecisionBase, frozen=True, kw_only=True):
    """Do `action`, `after` seconds from now. Targeted actions act on the event's task, pod or partition."""

    action: JobAction
    after: float = 0.0


class Hold(DecisionBase, frozen=True, kw_only=True):
    """Do nothing about the job until `until` (epoch seconds); `reason` is shown on the job."""

    reason: str
    until: float


class Override(DecisionBase, frozen=True, kw_only=True):
    """Give the next pods of a task (one index, or all when None) other resources, then act."""

    task: str
    resources: ResourceList
    index: int | None = None
    action: JobAction = JobAction.SYNC_JOB


class Annotate(DecisionBase, frozen=True, kw_only=True):
    """Set annotations on the job."""

    annotations: dict[str, str]


class Alert(DecisionBase, frozen=True, kw_only=True):
    """Raise a Warning event on the job."""

    reason: str
    message: str


Decision: TypeAlias = Abstain | Act | Hold | Override | Annotate | Alert
