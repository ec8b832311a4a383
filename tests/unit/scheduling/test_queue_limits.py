"""After any changes in a tree of queues no queue exceeds its capability or falls below its guarantee."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pods, queue
from volcanoio.model import kinds
from volcanoio.model.resources import CPU

CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: {plugin}
    enableHierarchy: {hierarchical}
    arguments: {arguments}
  - name: predicates
"""
AMOUNTS = st.one_of(st.none(), st.integers(0, 8))
QUEUES = st.lists(st.tuples(st.integers(0, 3), AMOUNTS, AMOUNTS, st.integers(0, 3)), min_size=1, max_size=6)
"""Of each queue: the number of its parent among those before it (0 is the root), capability, deserved, guarantee."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "cycle", "end", "delete"]), st.integers(0, 9), st.integers(1, 3),
        st.integers(1, 3),
    ),
    max_size=20,
)  # fmt: skip


def queues_of(drawn: list[tuple[int, int | None, int | None, int]]) -> list[dict[str, Any]]:
    """Return the root queue and the drawn queues."""
    made = [queue("root")]
    for index, (parent, capability, deserved, guarantee) in enumerate(drawn):
        spec: dict[str, Any] = {"parent": "root" if parent == 0 or parent > index else f"q{parent - 1}"}
        if capability:
            spec["capability"] = {"cpu": str(capability)}
        if deserved is not None:
            spec["deserved"] = {"cpu": str(deserved)}
        if guarantee:  # at most the capability, as admission requires
            spec["guarantee"] = {"resource": {"cpu": str(min(guarantee, capability or guarantee))}}
        made.append(queue(f"q{index}", **spec))
    return made


def held_in(world: World) -> dict[str, int]:
    """Return the millicores that each queue and its descendants use."""
    queues = world.state.ledger.existing_queues
    total = dict.fromkeys(queues, 0)
    for name, info in queues.items():
        at = name
        while at in queues:
            total[at] += info.allocated.get(CPU, 0)
            at = "" if at == "root" else queues[at].object.spec.parent or "root"
    return total


@examples(60)
@given(drawn=QUEUES, steps=STEPS, ancestors=st.integers(0, 2))
def test_capabilities_and_guarantees_hold_in_a_tree(
    drawn: list[tuple[int, int | None, int | None, int]],
    steps: list[tuple[str, int, int, int]],
    ancestors: int,
) -> None:
    conf = CONF.format(plugin="capacity", hierarchical="true", arguments=f"{{ancestorReclaimLevel: {ancestors}}}")
    world = World(node("n1"), node("n2", cpu="4"), *queues_of(drawn), conf=conf)
    play(world, steps, len(drawn))


@examples(40)
@given(drawn=QUEUES, steps=STEPS, plugin=st.sampled_from(["capacity", "proportion"]))
def test_capabilities_and_guarantees_hold_without_a_tree(
    drawn: list[tuple[int, int | None, int | None, int]], steps: list[tuple[str, int, int, int]], plugin: str
) -> None:
    flat = [(0, *amounts) for _, *amounts in drawn]
    conf = CONF.format(plugin=plugin, hierarchical="false", arguments="{}")
    world = World(node("n1"), node("n2", cpu="4"), *queues_of(flat), conf=conf)  # type: ignore[arg-type]  # as drawn
    play(world, steps, len(drawn))


def play(world: World, steps: list[tuple[str, int, int, int]], queues: int) -> None:
    """Take the steps; after each cycle limits hold, and what was evicted left its queue no less than its guarantee."""
    submitted = 0
    for step, number, count, minimum in [*steps, ("cycle", 0, 1, 1), ("cycle", 0, 1, 1)]:
        running = sorted(key for (kind, key), _ in world.objects.items() if kind == kinds.POD.resource)
        if step == "submit":
            name, submitted = f"j{submitted}", submitted + 1
            world.put(group(name, min(minimum, count), queue=f"q{number % queues}", minResources={"cpu": str(minimum)}))
            for member in pods(name, count, name, cpu=str(minimum)):
                world.put(member)
        elif step == "end" and running:
            world.set_pod(running[number % len(running)].partition("/")[2], phase="Succeeded")
        elif step == "delete" and running:
            world.remove(kinds.POD, running[number % len(running)])
        elif step == "cycle":
            evicted = len(world.evictions)
            before = held_in(world)
            world.run()
            after = held_in(world)
            for name, info in world.state.ledger.existing_queues.items():
                if limit := info.capability.get(CPU):
                    assert after[name] <= max(limit, before[name]), (name, after)
                if len(world.evictions) > evicted and after[name] < before[name]:
                    assert after[name] >= min(info.guarantee.get(CPU, 0), before[name]), (name, after)
            for name in world.evictions[evicted:]:
                world.remove(kinds.POD, f"ns/{name}")
