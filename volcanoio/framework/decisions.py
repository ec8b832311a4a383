"""What a lifecycle policy may decide: a closed family.

`Act`, `Hold` and `Override` decide: no further policy is asked. `Alert` and `Annotate` are said beside: the policies
that follow are asked all the same. What has to survive a restart of ours is stored on the Job before it has effect.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from volcanoio.model.batch import JobAction
from volcanoio.model.core import ResourceRequirements


class DecisionBase(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all decisions."""


class Abstain(DecisionBase, frozen=True, kw_only=True):
    """Nothing to say: the next policy is asked; when all abstain the job goes on as if nobody had been asked."""


class Act(DecisionBase, frozen=True, kw_only=True):
    """Do `action`, `after` seconds from now. Targeted actions act on the event's task, pod or partition."""

    action: JobAction
    after: float = 0.0


class Wake(msgspec.Struct, frozen=True):
    """A change that ends a wait: of any object of `resource` (`Kind.resource`), of a namespace, or one by name too.

    With `gone` only that one is gone ends it.
    """

    resource: str
    namespace: str = ""
    name: str = ""
    gone: bool = False


class Hold(DecisionBase, frozen=True, kw_only=True):
    """Wait until `until` (epoch seconds), then be asked again, after a second at the soonest; `reason` is shown on the
    job while it lasts.

    About PodsDue it holds back what the job lacks and nothing else: no PodGroup is made where there is none, and no
    pod. `pods` lets through as many more pods of each task as it says, the lowest indexes first; with at least one the
    PodGroup is made too. Such a hold is not stored: a new process asks again. `wake` ends it sooner: within 100 ms of
    a change of one of these objects the question is asked again; the resources must be among the policy's `indexes`.

    About any other event it leaves the whole job alone, stored on the Job, and `pods` and `wake` have no meaning.
    """

    reason: str
    until: float
    pods: dict[str, int] = {}
    wake: tuple[Wake, ...] = ()


class Override(DecisionBase, frozen=True, kw_only=True):
    """Give the next pods of a task other resources, then act.

    `resources` are the whole requests and limits by container name (of init containers too); containers that are not
    named keep their template's. `index` None means every pod of the task made from now on, a number that pod alone,
    which then goes before the task's. `attempts` says the how manieth time this is; the value is stored with it on the
    Job (`volcanoio.framework.overrides` reads it) in the same write as the intent of `action`, so that both have effect
    once: an Override that says what is stored already changes nothing, and only its action is carried out. The action
    costs no retry; it is about the event's pod, task or partition. PodGroup minResources follow. `reason` is told as an
    event. About PodsDue the action is SyncJob: the question is asked again once the value is stored. With `keep` the
    next job of this name in the namespace finds the value in `PolicyContext.learned`.
    """

    task: str
    resources: dict[str, ResourceRequirements]
    index: int | None = None
    attempts: int = 1
    reason: str = ""
    action: JobAction = JobAction.SYNC_JOB
    keep: bool = False


class Annotate(DecisionBase, frozen=True, kw_only=True):
    """Set annotations on the job. About PodsDue they are written before any pod is made."""

    annotations: dict[str, str]


class Alert(DecisionBase, frozen=True, kw_only=True):
    """Raise a Warning event on the job, count it, and post it to `webhook` where that is given.

    One of a `key` ("" for the reason) is raised once in the life of a Job: it is stored on the Job before it is told.
    The webhook gets a POST with a JSON body, again with back-off until it answers 2xx or a day has passed, by a later
    process too; `id` in the body is the same at each attempt.
    """

    reason: str
    message: str
    key: str = ""
    webhook: str = ""


Decision: TypeAlias = Abstain | Act | Hold | Override | Annotate | Alert
