"""`min_runtime`: pods of a job are not evicted by the scheduler until they ran for a while.

The scheduler's plugin cdp spares pods by an annotation, which a Job hands down to its pods: this policy sets it before
any pod is made. A job that has the annotation keeps its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.decisions import Abstain, Annotate, Decision
from volcanoio.framework.lifecycle import Occasion, PolicyContext
from volcanoio.model import durations, names


class MinRuntimeArguments(msgspec.Struct, frozen=True):
    """`duration`: how long a pod is spared, from its placement."""

    duration: GoDuration = GoDuration(600.0)


class MinRuntime:
    """Asks the cdp plugin to spare each pod for `duration`."""

    name = "min_runtime"
    events = (Occasion.PODS_DUE,)
    job_arguments = ("duration",)
    needs_scheduler_plugins = ("cdp",)

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        seconds = convert(arguments, MinRuntimeArguments, self.name).duration
        if seconds < 1:
            msg = f'{self.name}: "duration" must be 1s or more; leave the policy out to protect nothing'
            raise ArgumentError(msg, key="duration")
        self._text = durations.text(round(seconds))

    async def decide(self, context: PolicyContext) -> Decision:
        """Annotate the job before its first pods are made."""
        meta = context.job.metadata
        if names.COOLDOWN_TIME in meta.annotations or names.COOLDOWN_TIME in meta.labels:
            return Abstain()
        return Annotate(annotations={names.COOLDOWN_TIME: self._text})
