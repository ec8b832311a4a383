"""`min_runtime`: protects the pods of a job from eviction by the scheduler for some time.

The scheduler plugin cdp protects pods with an annotation, which pods inherit from their Job: this policy sets it before
any pod is created. A job that already has the annotation keeps its own.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.decisions import Abstain, Annotate, Decision
from volcanoio.framework.lifecycle import PolicyContext, PolicyEvent
from volcanoio.model import names, times


class MinRuntimeArguments(msgspec.Struct, frozen=True):
    """`duration`: how long a pod is protected, from its placement."""

    duration: GoDuration = GoDuration(600.0)


class MinRuntime:
    """Enables the protection of the cdp plugin for `duration`."""

    name = "min_runtime"
    events = (PolicyEvent.PODS_DUE,)
    job_arguments = ("duration",)
    needs_scheduler_plugins = ("cdp",)

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        if (seconds := convert(arguments, MinRuntimeArguments, self.name).duration) < 1:
            msg = f'{self.name}: "duration" must be 1s or more; leave the policy out to protect nothing'
            raise ArgumentError(msg, key="duration")
        self._text = times.go_duration(round(seconds))

    async def decide(self, context: PolicyContext) -> Decision:
        """Annotate the job before its first pods are created."""
        meta = context.job.metadata
        if names.COOLDOWN_TIME in meta.annotations or names.COOLDOWN_TIME in meta.labels:
            return Abstain()
        return Annotate(annotations={names.COOLDOWN_TIME: self._text})
