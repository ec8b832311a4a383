"""Lifecycle policies: async reducers that answer what a Job should do about an event.

A policy is registered under the entry point group `volcanoio.lifecycle_policies` or lies in a `--policies-dir`. It is
enabled for every job in the controllers' configuration, or by a job's own annotation (`names.POLICIES`). Those a job
names are asked first, in its order, then those of the configuration; the first that decides ends the question (see
`decisions`). What users declare in `spec.policies` is one built-in policy, `declared`, registered as anyone's is.
"""

from __future__ import annotations

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


class Occasion(StrEnum):
    """Questions beside the events of `JobEvent`: only policies that name them in `events` are asked.

    PODS_DUE: may what the job lacks be made? Asked of a Pending or Running job before its PodGroup is made, and each
    time before pods are; `LifecycleEvent.due` says which. Nothing but the making waits for the answer: pods that are
    unwanted still go, a Command is still taken.

    TICK: asked every so often (the policy's `every`) while a job is neither finished nor stopping; nothing waits for
    the answer.

    JOB_ENDED: the job entered Completed, Failed, Terminated or Aborted; asked again by a new process, as storage
    proves it. Only Alert and Annotate have effect.
    """

    PODS_DUE = "PodsDue"
    TICK = "Tick"
    JOB_ENDED = "JobEnded"


class LifecycleEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a job or one of its pods.

    `name` is a `JobEvent` or an `Occasion`. `task`, `pod`, `pod_uid`, `index` and `partition` are set for pod events;
    `exit_code` with PodFailed only, from the pod's first container. `version` is the job version the pod was made for.
    `due`, with PodsDue only, are the indexes of the pods that are missing and may start, by task in the spec's order.
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
        """One object."""
        ...

    def within(self, namespace: str) -> Mapping[str, ApiObject]:
        """The objects of a namespace by name; those of no namespace under ""."""
        ...

    def __len__(self) -> int: ...


class PolicyContext(msgspec.Struct, frozen=True, kw_only=True):
    """All a policy may look at.

    `now` is epoch seconds; `indexes` are the read-only ones the policy declared, by resource. `overrides` are those
    stored on the job. `learned` is what an Override with `keep` left for jobs of this name: resources by task, then by
    container.
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

    `name` is what the configuration and jobs call it. These attributes are optional: `indexes`, resources
    (`Kind.resource`) it wants to read; `events`, what it wants to be asked about (without it: every `JobEvent` that the
    job's pods raise, no Occasion); `every`, seconds between two Ticks of a job; `job_arguments`, names of arguments
    that a job may give for itself (annotation `names.POLICY_ARGUMENTS` + NAME: a mapping in YAML or JSON).

    Raising, answering something that is no Decision, or taking longer than the host's limit counts as Abstain and is
    reported on the job. The constructor takes the policy's arguments as a mapping (see `framework.arguments`).
    """

    name: str

    async def decide(self, context: PolicyContext) -> Decision:
        """Answer one event."""
        ...


class Wants(msgspec.Struct, frozen=True):
    """What one policy wants to be asked about: `events` None for what the pods raise, `every` in seconds, 0 never."""

    events: frozenset[str] | None = None
    every: float = 0.0


class Roster(msgspec.Struct, frozen=True):
    """Which policies there are, and what they want to hear: what a reducer knows of policies before it asks.

    `everywhere` are asked about every job, in order; `named` only about jobs that name them. Of one that a job names
    and that is in neither, as it was not loaded yet, every Occasion counts as wanted.
    """

    everywhere: dict[str, Wants] = {}
    named: dict[str, Wants] = {}

    def wants(self, job: Job, event: str) -> bool:
        """Whether a policy of this job has asked by name to be told of this event."""
        return any(wants.events is not None and event in wants.events for wants in self._of(job))

    def every(self, job: Job) -> float:
        """Seconds between two Ticks of this job; 0 for none."""
        return min((wants.every for wants in self._of(job) if wants.every > 0), default=0.0)

    def _of(self, job: Job) -> list[Wants]:
        found = list(self.everywhere.values())
        if names.POLICIES in job.metadata.annotations:
            found += [self.named.get(name, _ALL) for name in named_policies(job) if name not in self.everywhere]
        return found


_ALL = Wants(frozenset(Occasion))


def named_policies(job: Job) -> tuple[str, ...]:
    """The policies that a job's annotation names, separated by commas, in order and each once."""
    text = job.metadata.annotations.get(names.POLICIES, "")
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
