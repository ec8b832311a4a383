"""Which further kinds the plugins of a profile read."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from volcanoio.framework.arguments import suggestion
from volcanoio.model import kinds

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.profile import Profile

_HAD = (kinds.POD, kinds.NODE, kinds.POD_GROUP, kinds.QUEUE, kinds.PRIORITY_CLASS, kinds.SECRET)
WATCHABLE = frozenset(kinds.BY_RESOURCE).difference(kind.resource for kind in _HAD)
"""The resources plugins may watch: what sessions have anyway, and secrets, are not among them."""


def watches_of(plugin: Any) -> tuple[str, ...]:
    """The resources a plugin reads, sorted; it may name them as a class or in its constructor."""
    return tuple(sorted(getattr(plugin, "watches", ())))


def reads_of(plugin: Any) -> tuple[str, ...]:
    """All that its answers may follow from beside nodes and pods: the resources it watches, and facts of sources."""
    return (*watches_of(plugin), *sorted(getattr(plugin, "reads", ())))


def fault_of(plugin: Any) -> str:
    """Why a plugin may not watch what it does; "" when it may."""
    for resource in watches_of(plugin):
        if resource not in WATCHABLE:
            hint = suggestion(resource, sorted(WATCHABLE))
            return f'plugin "{plugin.name}" watches "{resource}", which is none that plugins may{hint}'
    return ""


def watched(profile: Profile) -> frozenset[str]:
    """The resources all plugins of a profile read; raises ValueError for one that plugins may not watch."""
    found: set[str] = set()
    for enabled in itertools.chain.from_iterable(profile.tiers):
        if fault := fault_of(enabled.plugin):
            raise ValueError(fault)
        found.update(watches_of(enabled.plugin))
    return frozenset(found)
