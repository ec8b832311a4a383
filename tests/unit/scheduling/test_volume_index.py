"""Claims and volumes after random changes: counts are exact, a discard leaves no plan, no volume is bound twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node
from tests.scenario.scheduling.storage import claim, on, storage_class, using, volume
from tests.state_dump import state_dump
from volcanoio.engine.scheduling.cluster.loads import LOADS
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.storage import PersistentVolume

HOST = "kubernetes.io/hostname"
DRIVERS = ("one.example", "two.example")
NODES = [node(f"n{number}", labels={HOST: f"n{number}"}) for number in range(3)]


def driven(name: str, driver: str, owner: str) -> Manifest:
    ref = {"namespace": "ns", "name": owner}
    return volume(name, phase="Bound", csi={"driver": driver, "volumeHandle": name}, claimRef=ref)


def recounted(world: World) -> tuple[dict[str, dict[str, int]], dict[str, Counter[str]]]:
    """By claim the tasks on each node, and by driver the claims on each node."""
    used: dict[str, Counter[str]] = {}
    for task in world.state.ledger.tasks.values():
        if LOADS[task.status] and task.node:
            for key in {named.key for named in task.claim_names}:
                used.setdefault(key, Counter())[task.node] += 1
    drivers: dict[str, Counter[str]] = {}
    for key, nodes in used.items():
        driver = driver_of(world, key)
        for name in nodes if driver else ():
            drivers.setdefault(driver, Counter())[name] += 1
    return {key: dict(nodes) for key, nodes in used.items()}, drivers


def driver_of(world: World, key: str) -> str:
    known: Any = world.objects.get((kinds.PVC.resource, key))
    if known is None:
        return ""
    volume = world.objects.get((kinds.PV.resource, known.spec.volume_name))
    if isinstance(volume, PersistentVolume):
        return volume.spec.csi.driver if volume.spec.csi else ""
    named: Any = world.objects.get((kinds.STORAGE_CLASS.resource, known.spec.storage_class_name))
    return named.provisioner if named is not None else ""


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "gone", "claim", "bound", "noclaim", "volume", "novolume", "class", "cycle", "move"]),
        st.integers(0, 3),
        st.integers(0, 1),
    ),
    max_size=40,
)


@examples(40)
@given(steps=STEPS)
def test_updated_counts_of_claims_in_use_equal_newly_computed_ones(steps: list[tuple[str, int, int]]) -> None:
    world = World(*NODES, group("g", 1, phase="Inqueue"))
    for what, number, other in steps:
        step(world, what, number, other)
        used, drivers = recounted(world)
        index = world.state.ledger.volumes
        for key in (f"ns/c{at}" for at in range(4)):
            assert dict(index.used_on(key)) == used.get(key, {})
        for driver in DRIVERS:
            assert index.in_use(driver).by_node == dict(drivers.get(driver, {}))


def step(world: World, what: str, number: int, other: int) -> None:
    name, claimed = f"p{number}", f"c{(number + other) % 4}"
    there = (kinds.POD.resource, f"ns/{name}") in world.objects
    match what:
        case "pod" if not there:
            world.put(using(name, "g", f"c{number}", claimed, on="n1" if other else "", cpu="100m"))
        case "gone" if there:
            world.remove(kinds.POD, f"ns/{name}")
        case "move" if there:
            world.set_pod(name, node="n2", phase="Running")
        case "claim":
            world.put(claim(f"c{number}", f"class{other}"))
        case "bound":
            world.put(claim(f"c{number}", f"class{other}", volume=f"v{number}"))
        case "noclaim" if (kinds.PVC.resource, f"ns/c{number}") in world.objects:
            world.remove(kinds.PVC, f"ns/c{number}")
        case "volume":
            world.put(driven(f"v{number}", DRIVERS[other], f"c{number}"))
        case "novolume" if (kinds.PV.resource, f"v{number}") in world.objects:
            world.remove(kinds.PV, f"v{number}")
        case "class":
            world.put(storage_class(f"class{number % 2}", DRIVERS[other]))
        case "cycle":
            world.run(1)


def planned(world: World, claims: int) -> dict[str, Any]:
    """Return the volume plans of the plugin predicates."""
    (plugin,) = [each.plugin for tier in world.profile.tiers for each in tier if each.plugin.name == "predicates"]
    plans = plugin._binding.plans  # type: ignore[attr-defined]  # what a filter plans shows nowhere else
    plans.update()
    keys = [f"ns/c{number}" for number in range(claims)]
    return {
        "taken": set(plans.planned),
        "volumes": {key: plans.volume_of(key) for key in keys},
        "nodes": {key: plans.node_of(key) for key in keys},
    }


def dump_of(world: World) -> dict[str, Any]:
    """All of the state but what jobs remember of the attempt."""
    shown = state_dump(world.state)
    kept = ("nodes", "tasks", "on_node", "holds", "prebinding", "inputs", "backlog", "dirty")
    return {key: shown[key] for key in kept}


@examples(30)
@given(
    volumes=st.lists(st.tuples(st.sampled_from(["", "n0", "n1"]), st.integers(1, 3)), max_size=5),
    pods=st.integers(1, 5),
    made=st.booleans(),
    placed=st.integers(1, 5),
)
def test_a_discard_restores_plans_and_state(volumes: list[tuple[str, int]], pods: int, made: bool, placed: int) -> None:
    world = World(*NODES, storage_class(provisioner="csi.example" if made else "kubernetes.io/no-provisioner"))
    for number, (host, size) in enumerate(volumes):
        world.put(volume(f"v{number}", size=f"{size}Gi", reach=on(HOST, host) if host else None))
    world.put(group("g", 1, phase="Inqueue"))
    for number in range(pods):
        world.put(claim(f"c{number}"))
        world.put(using(f"p{number}", "g", f"c{number}"))
    session = CycleSession(world.state, world.profile, CycleOpened(cycle=1, upto=0, seed=1, at=1.0))
    for _ in open_session(session):
        pass
    job = session.jobs["ns/g"]
    runs = session.runs(job, best_effort=False)
    before, state = planned(world, pods), dump_of(world)
    statement = session.statement(job)
    for run in runs:
        statement.allocate(run, 0, placed, until_ready=False)
    statement.discard()
    assert planned(world, pods) == before
    session.undo()
    assert dump_of(world) == state


@examples(30)
@given(
    volumes=st.lists(st.tuples(st.sampled_from(["", "n0", "n1", "n9"]), st.integers(1, 3)), max_size=6),
    gangs=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3)), min_size=1, max_size=3),
)
def test_each_claim_gets_a_matching_volume_of_its_own_and_gangs_are_bound_whole(
    volumes: list[tuple[str, int]], gangs: list[tuple[int, int, int]]
) -> None:
    world = World(*NODES, storage_class())
    offered = {f"v{number}": given for number, given in enumerate(volumes)}
    for name, (host, size) in offered.items():
        world.put(volume(name, size=f"{size}Gi", reach=on(HOST, host) if host else None))
    sizes = {}
    for at, (pods, each, size) in enumerate(gangs):
        world.put(group(f"g{at}", pods))
        for number in range(pods):
            names = [f"c{at}-{number}-{which}" for which in range(each)]
            for name in names:
                sizes[name] = size
                world.put(claim(name, size=f"{size}Gi"))
            world.put(using(f"p{at}-{number}", f"g{at}", *names))
    world.run(4)
    taken: list[str] = []
    for bind in world.requests:
        steps = [step for step in bind.prebind if step.resource == kinds.PV.resource]
        wanted = {step.patch["spec"]["claimRef"]["name"] for step in steps}
        assert wanted == {name for name in sizes if name.startswith(f"c{bind.name[1:]}-")}
        for step in steps:
            host, size = offered[step.name]
            assert size >= sizes[step.patch["spec"]["claimRef"]["name"]]
            assert host in ("", bind.node)
            taken.append(step.name)
    assert len(taken) == len(set(taken))
    for at, (pods, _, _) in enumerate(gangs):
        assert sum(name.startswith(f"p{at}-") for name in world.binds) in (0, pods)
