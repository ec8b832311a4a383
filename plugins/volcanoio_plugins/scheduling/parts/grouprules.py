"""What a queue says about node groups: spec.affinity, and limits in an annotation (Volcano: plugins/nodegroup)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.scheduling.views import QueueView
from volcanoio.model.names import ROOT_QUEUE
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import amounts

GROUP_LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"
REQUIRED_SCORE, PREFERRED_SCORE, AVOIDED_SCORE = 100.0, 50.0, -1.0
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class GroupRules(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's rules. `affine`: it has an affinity, its own or inherited. `queue` is "" where there are no limits.

    `limits` are amounts by group and resource; `unreadable`: the annotation is there and cannot be read.
    """

    affine: bool = False
    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    limits: dict[str, dict[str, int]] = {}
    unreadable: bool = False
    queue: str = ""

    def trait(self) -> str:
        """The rules as a text: queues with equal rules share answers, except where they have limits."""
        return msgspec.json.encode(self, order="deterministic").decode()

    def allows(self, group: str | None, *, strict: bool) -> bool:
        """Whether nodes of a group may be used, None for nodes of no group.

        What is to be avoided may be used though it is forbidden.
        """
        if group is None:
            return not strict and not self.affine
        if group in self.avoided:
            return True
        return group not in self.forbidden and (group in self.required or group in self.preferred)

    def score(self, group: str | None, *, ordered: bool) -> float:
        """How good nodes of a group are; `ordered`: preferred groups are worth less the later they are named."""
        if group is None:
            return 0.0
        if group in self.avoided:
            return AVOIDED_SCORE
        total = REQUIRED_SCORE if group in self.required else 0.0
        if group in self.preferred:
            count = len(self.preferred)
            total += PREFERRED_SCORE * (count - self.preferred.index(group)) / count if ordered else PREFERRED_SCORE
        return total


def rules_of(queues: Mapping[str, QueueView], name: str, *, hierarchical: bool) -> GroupRules:
    """The rules of a queue; `hierarchical`: one without affinity has that of its nearest ancestor with one."""
    affinity = queues[name].object.spec.affinity
    seen = {name}
    at = name
    while affinity is None and hierarchical and at != ROOT_QUEUE:
        at = queues[at].object.spec.parent or ROOT_QUEUE
        if at in seen or at not in queues:
            break
        seen.add(at)
        affinity = queues[at].object.spec.affinity
    limits = _limits(queues[name].object.metadata.annotations.get(LIMITS, ""))
    wanted, unwanted = _part(affinity, "nodeGroupAffinity"), _part(affinity, "nodeGroupAntiAffinity")
    return GroupRules(
        affine=affinity is not None,
        required=_names(wanted, _REQUIRED),
        preferred=_names(wanted, _PREFERRED),
        forbidden=_names(unwanted, _REQUIRED),
        avoided=_names(unwanted, _PREFERRED),
        limits=limits or {},
        unreadable=limits is None,
        queue=name if limits else "",
    )


def _limits(text: str) -> dict[str, dict[str, int]] | None:
    """Amounts by group and resource; None when the annotation cannot be read."""
    if not text:
        return {}
    try:
        given = msgspec.json.decode(text, type=dict[str, dict[str, str | int | float]])
        return {group: amounts(listed) for group, listed in given.items()}
    except (msgspec.DecodeError, QuantityError):
        return None


def _part(affinity: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    part = (affinity or {}).get(name)
    return part if isinstance(part, dict) else {}


def _names(part: Mapping[str, Any], name: str) -> tuple[str, ...]:
    listed = part.get(name)
    return tuple(str(item) for item in listed) if isinstance(listed, list | tuple) else ()
