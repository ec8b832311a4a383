"""Decisions of lifecycle policies: a closed family. Those of the scheduler are in `scheduling_effects`.

`Act`, `Hold` and `Override` end the evaluation: no further policy is called. After `Alert` and `Annotate` the next
policy is still called. Everything that must survive a restart of the controllers is stored on the Job before it takes
effect.
"""

from typing import TypeAlias

import msgspec

from volcanoio.model.batch import JobAction
from volcanoio.model.core import ResourceRequirements


class DecisionBase(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all decisions."""


class Abstain(DecisionBase, frozen=True, kw_only=True):
    """No decision: the next policy is called. If all abstain, the job continues as if there were no policies."""


class Act(DecisionBase, frozen=True, kw_only=True):
    """Carry out `action`, `after` seconds from now. Targeted actions apply to the event's task, pod or partition.

    A delayed action is stored on the Job. Until it is carried out, the failed pod or completed task that it answers
    does not end the job, so a retry with back-off is an `after` that grows with the Job's `retry_count`.
    """

    action: JobAction
    after: float = 0.0


class Wake(msgspec.Struct, frozen=True):
    """A change that ends a wait early: of any object of `resource` (`Kind.resource`), of one namespace, or of one name.

    With `gone` only the deletion of the object ends the wait.
    """

    resource: str
    namespace: str = ""
    name: str = ""
    gone: bool = False


class Hold(DecisionBase, frozen=True, kw_only=True):
    """Wait until `until` (epoch seconds), then call the policies again, at least a second later.

    `reason` is shown on the job meanwhile.

    For PodsDue only the creation of missing objects waits: no PodGroup is created where there is none, and no pod.
    `pods` permits that many more pods of each task, lowest indexes first; if it permits any, the PodGroup is created
    too. This hold is not stored: a new process calls the policies again. `wake` ends it early: within 100 ms of a
    change of one of these objects the policies are called again; the resources must be among the policy's `indexes`.

    For any other event the whole job is left alone. This hold is stored on the Job; `pods` and `wake` are ignored. When
    it ends, the policies are called for every event that still applies, as in a new process: pods that failed,
    completed their task or are missing, a PodGroup that is Unknown, a changed spec. A finished job is not held.
    """

    reason: str
    until: float
    pods: dict[str, int] = {}
    wake: tuple[Wake, ...] = ()


class Override(DecisionBase, frozen=True, kw_only=True):
    """Give the next pods of a task other resources, then act.

    `resources` are the complete requests and limits by container name (init containers too); other containers keep
    those of the template. `index` None means every pod of the task created from now on; a number means that pod alone
    and takes precedence. `attempts` is the number of this attempt; it is stored with the value on the Job
    (`volcanoio.framework.overrides` reads it) in the same write as the intent of `action`, so that both take effect
    once. An Override equal to the stored one changes nothing, and only its action is carried out. The action does not
    count as a retry; its target is the event's pod, task or partition. PodGroup minResources follow. `reason` is
    reported as an Event. For PodsDue the action is SyncJob: the policies are called again once the value is stored.
    With `keep` the next job of this name in the namespace finds the value in `PolicyContext.learned`.
    """

    task: str
    resources: dict[str, ResourceRequirements]
    index: int | None = None
    attempts: int = 1
    reason: str = ""
    action: JobAction = JobAction.SYNC_JOB
    keep: bool = False


class Annotate(DecisionBase, frozen=True, kw_only=True):
    """Set annotations on the job. For PodsDue they are written before any pod is created."""

    annotations: dict[str, str]


class Alert(DecisionBase, frozen=True, kw_only=True):
    """Record a Warning Event on the job, count it, and post it to `webhook` if one is given.

    An alert of one `key` ("" for the reason) is raised once in the life of a Job: it is stored on the Job first. The
    webhook receives a POST with a JSON body, repeated with back-off until it answers 2xx or a day has passed, also by a
    later process; `id` in the body is the same in each attempt.
    """

    reason: str
    message: str
    key: str = ""
    webhook: str = ""


Decision: TypeAlias = Abstain | Act | Hold | Override | Annotate | Alert
