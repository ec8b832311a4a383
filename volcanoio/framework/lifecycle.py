"""Lifecycle policies: async reducers that answer what a Job should do about an event.

A policy is registered under the entry point group `volcanoio.lifecycle_policies` and enabled in the configuration.
Policies are asked in order; the first that does not abstain decides. What users declare in `spec.policies` is one
built-in policy, `declared`, registered as anyone's is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from volcanoio.framework.decisions import Decision
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod


class LifecycleEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a job or one of its pods.

    `name` is a `JobEvent`. `task`, `pod`, `pod_uid`, `index` and `partition` are set for pod events; `exit_code` with
    PodFailed only, from the pod's first container. `version` is the job version the pod was made for.
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


class PolicyContext(msgspec.Struct, frozen=True, kw_only=True):
    """All a policy may look at. `now` is epoch seconds; `indexes` are the read-only ones the policy declared."""

    event: LifecycleEvent
    job: Job
    pods: tuple[Pod, ...]
    now: float
    indexes: Mapping[str, Mapping[str, Any]] = {}


class LifecyclePolicy(Protocol):
    """One policy. `name` is what the configuration enables; `indexes` are resources it wants to read.

    Raising, answering something that is no Decision, or taking longer than the host's limit counts as Abstain and is
    reported on the job. The constructor takes the policy's arguments as a mapping (see `framework.arguments`).
    """

    name: str

    async def decide(self, context: PolicyContext) -> Decision:
        """Answer one event."""
        ...
