"""Random changes of a cluster between two sessions."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from hypothesis import strategies as st

from tests.oracle import worlds
from tests.scenario.scheduling.harness import CREATED, World
from volcanoio.model import kinds
from volcanoio.model.core import Node, Taint
from volcanoio.model.scheduling import Queue

CHANGES = st.tuples(
    st.sampled_from(
        ["nothing", "end", "end", "delete", "terminate", "label", "taint", "cordon", "node", "queue", "job"]
    ),
    st.integers(0, 50),
)


def change(world: World, what: tuple[str, int], draw: worlds.Draw, mix: worlds.Mix, number: int) -> None:
    """Apply one change to the object of that number, if it exists."""
    kind, choice = what
    pods = sorted(key for resource, key in world.objects if resource == kinds.POD.resource)
    name = pods[choice % len(pods)] if pods else ""
    match kind:
        case "job":
            for manifest in worlds.again(draw, mix, number):
                world.put(manifest)
        case "node":
            world.put(worlds.one_node(draw, mix, number))
        case "queue":
            _queue(world, f"q{choice % 3}", choice)
        case "label" | "taint" | "cordon":
            _node(world, kind, choice)
        case "end" if name:
            world.put(_with(world.objects[kinds.POD.resource, name], "status", phase="Succeeded"))
        case "terminate" if name:
            world.put(_with(world.objects[kinds.POD.resource, name], "metadata", deletion_timestamp=CREATED))
        case "delete" if name:
            world.remove(kinds.POD, name)
        case _:
            pass


def _with(obj: Any, part: str, **values: Any) -> Any:
    """Return the object with other values in one of its parts."""
    return msgspec.structs.replace(obj, **{part: msgspec.structs.replace(getattr(obj, part), **values)})


def _node(world: World, kind: str, choice: int) -> None:
    names = sorted(key for resource, key in world.objects if resource == kinds.NODE.resource)
    node = cast("Node", world.objects[kinds.NODE.resource, names[choice % len(names)]])
    match kind:
        case "label":
            labels = {**node.metadata.labels, worlds.ZONE: "x" if node.metadata.labels.get(worlds.ZONE) != "x" else "y"}
            world.put(_with(node, "metadata", labels=labels))
        case "taint":
            taint = Taint(key="hard", effect=("NoSchedule", "PreferNoSchedule")[choice % 2])
            world.put(_with(node, "spec", taints=() if node.spec.taints else (taint,)))
        case _:
            world.put(_with(node, "spec", unschedulable=not node.spec.unschedulable))


def _queue(world: World, name: str, choice: int) -> None:
    queue = cast("Queue", world.objects[kinds.QUEUE.resource, name])
    if choice % 3 == 0:
        world.put(_with(queue, "status", state="Open" if queue.status.state == "Closed" else "Closed"))
    else:
        world.put(_with(queue, "spec", weight=1 + choice % 5, priority=choice % 2))
