"""Queues as a tree by spec.parent, and what each may have and deserves in it.

Source: Volcano pkg/scheduler/plugins/capacity (buildHierarchicalQueueAttrs, checkHierarchicalQueue). Unlike there, a
parent that does not exist or a circle stops the queues below it, not the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volcanoio.framework.scheduling.views import QueueView
from volcanoio.model.names import ROOT_QUEUE
from volcanoio.model.resources import CPU, MEMORY, Amounts, add, maximum, total
from volcanoio_plugins.scheduling.queues.waterfilling import reachable

UNLIMITED = 2**62
"""More than there ever is of anything: what the root may have where it has no capability."""


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One queue of the tree.

    `ancestors` are its parent, that one's parent and so on up to the root; `children` the queues whose parent it is;
    `fault` says why nothing can run in it, where the way up to the root is broken.
    """

    queue: QueueView
    ancestors: tuple[str, ...]
    children: tuple[str, ...]
    fault: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue may have (`ceiling`; a resource it lacks: nothing), deserves, and is guaranteed."""

    ceiling: Amounts
    deserved: Amounts
    guarantee: Amounts


def parent_of(queue: QueueView) -> str:
    """The name of a queue's parent: the root where it names none; "" of the root itself."""
    return "" if queue.name == ROOT_QUEUE else queue.object.spec.parent or ROOT_QUEUE


def tree(queues: Mapping[str, QueueView]) -> dict[str, Branch]:
    """All queues by name, sorted."""
    children: dict[str, list[str]] = {}
    for name in sorted(queues):
        children.setdefault(parent_of(queues[name]), []).append(name)
    branches = {}
    for name in sorted(queues):
        ancestors, fault = _way_up(queues, name)
        branches[name] = Branch(
            queue=queues[name], ancestors=ancestors, children=tuple(children.get(name, ())), fault=fault
        )
    return branches


def _way_up(queues: Mapping[str, QueueView], name: str) -> tuple[tuple[str, ...], str]:
    """The ancestors of a queue, and what is wrong with them."""
    way: list[str] = []
    at = name
    while at != ROOT_QUEUE:
        parent = parent_of(queues[at])
        if parent not in queues:
            return tuple(way), (
                f'queue "{at}" has the parent "{parent}", which does not exist; create it, or set spec.parent of "{at}"'
            )
        if parent == name or parent in way:
            circle = " -> ".join((*([name, *way][[name, *way].index(parent) :]), parent))
            return tuple(way), f"queues are their own ancestors: {circle}; set spec.parent of one of them"
        way.append(parent)
        at = parent
    return tuple(way), ""


def limits(branches: Mapping[str, Branch], available: Mapping[str, int]) -> dict[str, Limits]:
    """What each queue whose way up is whole may have and deserves; `available` is what the cluster has.

    A capability for a resource that a queue does not name is its parent's; the root's is unlimited. Of its parent's a
    queue can have what its siblings are not guaranteed.
    """
    capability: dict[str, Amounts] = {}
    result: dict[str, Limits] = {}
    sound = [name for name, branch in branches.items() if not branch.fault]
    for name in sorted(sound, key=lambda name: (len(branches[name].ancestors), name)):
        branch = branches[name]
        queue = branch.queue
        own = {
            resource: amount
            for resource, amount in queue.capability.items()
            if amount > 0 or resource not in (CPU, MEMORY)
        }
        if name == ROOT_QUEUE:
            children = [branches[child].queue for child in branch.children]
            capability[name] = {**dict.fromkeys((CPU, MEMORY, *available), UNLIMITED), **own}
            result[name] = Limits(
                ceiling=capability[name],
                deserved=total(maximum(child.deserved, child.guarantee) for child in children),
                guarantee=total(child.guarantee for child in children),
            )
            continue
        parent = branch.ancestors[0]
        capability[name] = {**capability[parent], **own}
        guaranteed: Amounts = {}
        for sibling in branches[parent].children:
            add(guaranteed, branches[sibling].queue.guarantee)
        result[name] = Limits(
            ceiling=reachable(result[parent].ceiling, guaranteed, queue.guarantee, capability[name]),
            deserved=maximum(queue.deserved, queue.guarantee),
            guarantee=dict(queue.guarantee),
        )
    return result
