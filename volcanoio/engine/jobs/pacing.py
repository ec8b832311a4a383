"""How many pods are made at once: a big job's in batches, and after a refusal a task's one by one, then more and more.

Whoever refuses pods, such as a namespace's quota, is thus asked with one pod of a task and not with all that are
missing. Where a quota refused them, the job goes on as soon as it has room; otherwise the back-off decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from volcanoio.framework.effects import Create
from volcanoio.framework.podusage import Usage, usage_of
from volcanoio.model import kinds, names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import TaskSpec
from volcanoio.model.core import PodSpec, ResourceQuota

BATCH = 250
"""Pods that are made in one round: building more would hold up everything else for too long."""
FORBIDDEN = 403
_QUOTA = "exceeded quota"
"""How Kubernetes words it (plugin/pkg/admission/resourcequota)."""


class Pace(msgspec.Struct, frozen=True):
    """What was learned from refusals.

    `limits` are pods that may be tried at once, of tasks that were refused some; `refused` are tasks that were refused
    some in this round. `denied` is what the pod takes that a quota refused, in thousandths.
    """

    limits: dict[str, int] = {}
    refused: frozenset[str] = frozenset()
    denied: Usage | None = None

    def through(self, missing: Sequence[tuple[TaskSpec, int]]) -> list[tuple[TaskSpec, int]]:
        """Those of the missing pods that are tried in the next round."""
        left = dict(self.limits)
        tried: list[tuple[TaskSpec, int]] = []
        for task, index in missing:
            if left.get(task.name, 1) <= 0:
                continue
            if task.name in left:
                left[task.name] -= 1
            tried.append((task, index))
            if len(tried) == BATCH:
                break
        return tried

    def after_refusal(self, effect: Create, code: int, message: str) -> Pace:
        """The pace after a pod was refused in the round that goes on."""
        if effect.resource != kinds.POD.resource or code != FORBIDDEN:
            return self
        task = effect.manifest["metadata"]["annotations"].get(names.TASK_SPEC, "")
        denied = _usage(effect.manifest) if _QUOTA in message else self.denied
        return msgspec.structs.replace(self, refused=self.refused | {task}, denied=denied)

    def after_round(self, born: bool) -> Pace:
        """The pace for the next round; `born` says that pods were made in this one."""
        if not self.limits and not self.refused:
            return self
        faster = {task: 2 * limit for task, limit in self.limits.items()} if born else self.limits
        limits = {task: limit for task, limit in faster.items() if limit < BATCH}
        limits |= dict.fromkeys(self.refused, 1)
        return Pace(limits, frozenset(), self.denied if self.refused else None)


def has_room(quota: ResourceQuota, usage: Mapping[str, int]) -> bool:
    """Whether a quota leaves room for a pod; one with scopes, or that cannot be read, may."""
    if quota.spec.scopes or quota.spec.scope_selector:
        return True
    try:
        for name, hard in (quota.status.hard or quota.spec.hard).items():
            used = quantity.milli(quota.status.used.get(name, "0"))
            if name in usage and used + usage[name] > quantity.milli(hard):
                return False
    except quantity.QuantityError:
        return True
    return True


def _usage(pod: Manifest) -> Usage | None:
    try:
        return usage_of(msgspec.convert(pod.get("spec") or {}, PodSpec, strict=False))
    except (quantity.QuantityError, msgspec.ValidationError):
        return None
