"""Filter results about volumes that are cached across cycles equal those of a restarted scheduler."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, actions, configured, group, node, plugins
from tests.scenario.scheduling.storage import capacity, claim, csi_driver, csi_node, on, storage_class, using, volume
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
CONF = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]"
CONFIGURED, PLUGINS, ACTIONS = configured(CONF), plugins(), actions()
_NUMBERS = itertools.count(1000)
NODES = [node(f"n{at}", labels={HOST: f"n{at}", ZONE: f"z{at % 2}"}) for at in range(4)]
WHAT = (
    *("claim", "bound", "noclaim", "volume", "zoned", "novolume", "class", "topologies", "limit", "capacity", "driver"),
    *("node", "user", "cycle"),
)
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 3), st.integers(0, 1)), max_size=14)


@examples(40)
@given(steps=STEPS)
def test_cached_filter_results_equal_those_of_a_restarted_scheduler(steps: list[tuple[str, int, int]]) -> None:
    world = World(*NODES, storage_class("made", "csi.example"), storage_class("sc"), conf=CONF)
    for at in range(4):  # too large for any node: they are asked about for ever
        world.put(group(f"g{at}", 1, phase="Inqueue"))
        world.put(using(f"p{at}", f"g{at}", f"c{at}", cpu="100"))
    for what, number, other in steps:
        change(world, what, number, other)
        world.run(1)
        fresh = Offline(ClusterState(), Profile.build(CONFIGURED, PLUGINS, ACTIONS), now=world.now)
        fresh.load(world.objects.values())
        assert masks(world) == masks(fresh)


def change(world: World, what: str, number: int, other: int) -> None:
    kept = "made" if other else "sc"
    match what:
        case "claim":
            world.put(claim(f"c{number}", kept, modes=["ReadWriteOncePod" if other else "ReadWriteOnce"]))
        case "bound":
            world.put(claim(f"c{number}", kept, volume=f"v{number}"))
        case "noclaim" if (kinds.PVC.resource, f"ns/c{number}") in world.objects:
            world.remove(kinds.PVC, f"ns/c{number}")
        case "volume":
            world.put(volume(f"v{number}", reach=on(HOST, f"n{number}") if other else None))
        case "zoned":
            csi = {"driver": "csi.example", "volumeHandle": "x"}
            world.put(volume(f"v{number}", labels={ZONE: f"z{other}"}, csi=csi, phase="Bound"))
        case "novolume" if (kinds.PV.resource, f"v{number}") in world.objects:
            world.remove(kinds.PV, f"v{number}")
        case "class":
            world.put(storage_class(kept, "csi.example" if number % 2 else "kubernetes.io/no-provisioner"))
        case "topologies":
            places = [{"matchLabelExpressions": [{"key": ZONE, "values": [f"z{number % 2}"]}]}]
            world.put(storage_class("made", "csi.example", allowedTopologies=places))
        case "limit":
            world.put(csi_node(f"n{number}", "csi.example", other))
        case "capacity":
            world.put(capacity("room", "made", "5Gi" if other else "1Mi", **{HOST: f"n{number}"}))
        case "driver":
            world.put(csi_driver("csi.example", storage_capacity=bool(other)))
        case "node":
            world.put(node(f"n{number}", labels={HOST: f"n{number}", ZONE: f"z{other}"}))
        case "user":
            world.put(using(f"u{number}", "", f"c{number}", on=f"n{other}", phase="Running"))


def masks(world: Offline) -> dict[str, frozenset[str]]:
    """Return the feasible nodes of each pod."""
    state = world.state
    session = CycleSession(state, world.profile, CycleOpened(cycle=next(_NUMBERS), upto=0, seed=1, at=world.now))
    for _ in open_session(session):
        pass
    columns, found = state.ledger.columns, {}
    for job in session.jobs_with_pending_tasks():
        for run in session.runs(job, best_effort=False):
            answers = state.placer._score_table(run.shape)
            mask = answers.passes[: len(columns)].copy()
            for part in answers.plan.live_filters:
                mask &= part.feasible(run.shape, columns, columns, range(len(columns))).ok
            left = frozenset(name for name, ok in zip(columns.names, mask, strict=True) if ok)
            found.update({task.name: left for task in run.tasks})
    session.undo()
    return found
