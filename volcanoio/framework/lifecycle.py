"""Lifecycle policies: async functions that decide what a Job does after an event.

A policy is registered under the entry point group `volcanoio.lifecycle_policies` or is a file in a `--policies-dir`. It
is enabled for every job in the controllers' configuration, or by a job's annotation (`names.POLICIES`). Policies that
the job names are called first, in its order, then those of the configuration; the first that decides ends the
evaluation (see `decisions`). `spec.policies` of jobs is evaluated by one built-in policy, `declared`, which is
registered like any other.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from volcanoio.framework.decisions import Decision
from volcanoio.framework.overrides import TaskOverride
from volcanoio.model import names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod, ResourceRequirements


class PolicyEvent(StrEnum):
    """Events beside those of `JobEvent`: only policies that name them in `events` are called.

    PODS_DUE: the job's PodGroup or pods are about to be created. Raised for a Pending or Running job before its
    PodGroup is created, and each time before pods are; `LifecycleEvent.due` has the pods. Only the creation waits for
    the answer: unwanted pods are still deleted, and Commands are still handled.

    TICK: raised every so often (the policy's `every`) while a job is neither finished nor stopping; nothing waits for
    the answer.

    JOB_ENDED: the job entered Completed, Failed, Terminated or Aborted; raised again by a new process, as the stored
    objects show it. Only Alert and Annotate have an effect.
    """

    PODS_DUE = "PodsDue"
    TICK = "Tick"
    JOB_ENDED = "JobEnded"


class LifecycleEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a job or one of its pods.

    `name` is a `JobEvent` or a `PolicyEvent`. `task`, `pod`, `pod_uid`, `index` and `partition` are set for pod events;
    `exit_code` with PodFailed only, from the pod's first container. `version` is the job version for which the pod was
    created. `due`, with PodsDue only, has the indexes of the missing pods that may start, by task in the spec's order.
    """

    name: str
    job_uid: str
    version: int
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    index: int | None = None
    partition: str = ""
    exit_code: int | None = None
    due: dict[str, tuple[int, ...]] = {}


class Index(Protocol):
    """All objects of one resource, read-only, by `namespace/name` or the name alone."""

    def get(self, key: str) -> ApiObject | None:
        """Return the object of that key, None if there is none."""
        ...

    def in_namespace(self, namespace: str) -> Mapping[str, ApiObject]:
        """Return the objects of a namespace by name; cluster-scoped objects are under ""."""
        ...

    def __len__(self) -> int: ...


class PolicyContext(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input of a policy.

    `now` is epoch seconds; `indexes` are the read-only indexes that the policy declared, by resource. `overrides` are
    those stored on the job. `learned` are the values that an Override with `keep` stored for jobs of this name:
    resources by task, then by container.
    """

    event: LifecycleEvent
    job: Job
    pods: tuple[Pod, ...]
    now: float
    indexes: Mapping[str, Any] = {}
    overrides: tuple[TaskOverride, ...] = ()
    learned: Mapping[str, Mapping[str, ResourceRequirements]] = {}


class LifecyclePolicy(Protocol):
    """One policy.

    `name` is its name in the configuration and in jobs. These attributes are optional: `indexes`, resources
    (`Kind.resource`) that it reads; `events`, the events for which it is called (default: every `JobEvent` that the
    job's pods raise, no PolicyEvent); `every`, seconds between two Ticks of a job; `job_arguments`, names of arguments
    that a job may set for itself (annotation `names.POLICY_ARGUMENTS` + NAME: a mapping in YAML or JSON).

    Raising, returning something that is no Decision, or taking longer than the host's limit counts as Abstain and is
    reported on the job. The constructor takes the policy's arguments as a mapping (see `framework.arguments`).
    """

    name: str

    async def decide(self, context: PolicyContext) -> Decision:
        """Return the decision for one event."""
        ...


class PolicySubscription(msgspec.Struct, frozen=True):
    """The events of one policy: `events` None for those of the job's pods; `every` in seconds, 0 for no Ticks."""

    events: frozenset[str] | None = None
    every: float = 0.0


class PolicyRegistry(msgspec.Struct, frozen=True):
    """The loaded policies and their subscriptions, as reducers see them.

    `everywhere` apply to every job, in order; `named` only to jobs that name them. A policy that a job names and that
    is not loaded yet counts as subscribed to every PolicyEvent.
    """

    everywhere: dict[str, PolicySubscription] = {}
    named: dict[str, PolicySubscription] = {}

    def wants(self, job: Job, event: str) -> bool:
        """Return whether a policy of this job subscribed to this event by name."""
        return any(wants.events is not None and event in wants.events for wants in self._of(job))

    def every(self, job: Job) -> float:
        """Seconds between two Ticks of this job; 0 for none."""
        return min((wants.every for wants in self._of(job) if wants.every > 0), default=0.0)

    def _of(self, job: Job) -> list[PolicySubscription]:
        found = list(self.everywhere.values())
        if names.POLICIES in job.metadata.annotations:
            found += [self.named.get(name, _ALL) for name in named_policies(job) if name not in self.everywhere]
        return found


_ALL = PolicySubscription(frozenset(PolicyEvent))


def named_policies(job: Job) -> tuple[str, ...]:
    """Return the policies in a job's annotation, comma-separated, in order and without duplicates."""
    text = job.metadata.annotations.get(names.POLICIES, "")
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
