"""The tree of hierarchical shares: after placements and undone ones it equals a newly built tree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.drf import Drf, ShareTree, hierarchy_of

from tests.examples import examples
from tests.scenario.scheduling.harness import World, decoded, group, node, pods, queue
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.scheduling import Queue

CONF = """
actions: "allocate"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
"""
PATHS = ("root/a", "root/b/x", "root/b/y", "root/b/z/deep", "root/c")


def place(path: str) -> dict[str, object]:
    manifest = queue(path.replace("/", "-"))
    manifest["metadata"]["annotations"] = {
        "volcano.sh/hierarchy": path,
        "volcano.sh/hierarchy-weights": "/".join(str(1 + len(step)) for step in path.split("/")),
    }
    return manifest


@examples(60)
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from(PATHS), st.integers(1, 4), st.integers(0, 3), st.integers(0, 3)),
        min_size=1,
        max_size=6,
    ),
    turns=st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from(["keep_until_close", "discard", "commit"])),
        max_size=12,
    ),
)
def test_shares_follow_placements_and_undone_placements(
    jobs: list[tuple[str, int, int, int]], turns: list[tuple[int, int, str]]
) -> None:
    world = World(node("n1", cpu="12", memory="12Gi"), *map(place, PATHS), conf=CONF)
    for index, (path, count, cpu, memory) in enumerate(jobs):
        name = f"j{index}"
        world.put(group(name, 0, queue=path.replace("/", "-"), phase="Inqueue"))
        for member in pods(name, count, name, cpu=str(cpu), memory=f"{memory}Gi"):
            world.put(member)
    opening = CycleOpened(cycle=1, upto=0, seed=1, at=world.now)
    session = CycleSession(world.state, world.profile, opening)
    for _ in open_session(session):
        pass
    drf = world.profile.tiers[0][0].plugin
    assert isinstance(drf, Drf)
    names = [path.replace("/", "-") for path in PATHS]

    def current_shares() -> list[object]:
        return [drf.queue_key(session.queues[name]) for name in names]

    for number, count, end in turns:
        job = session.jobs[f"ns/j{number % len(jobs)}"]
        runs = session.runs(job, best_effort=False)
        before = current_shares()
        statement = session.statement(job)
        for run in runs[:1]:
            statement.allocate(run, 0, min(count, len(run.tasks)), until_ready=False, idle_only=True)
            current_shares()
        getattr(statement, end)()
        if end == "discard":
            assert current_shares() == before
        fresh = ShareTree(session, "fresh")
        assert current_shares() == [fresh.current_shares(name) for name in names]
    session.undo()


def made(**annotations: str) -> QueueInfo:
    info = QueueInfo("q")
    manifest = queue("q")
    manifest["metadata"]["annotations"] = {f"volcano.sh/{key}": value for key, value in annotations.items()}
    obj = decoded(manifest)
    assert isinstance(obj, Queue)
    info.observe(obj)
    return info


def test_the_path_of_a_queue_is_read_from_its_annotations() -> None:
    both = {"hierarchy": "root/a/b", "hierarchy-weights": "1/2/3"}
    assert hierarchy_of(made(**both)) == [("a", 2.0), ("b", 3.0)]
    assert hierarchy_of(made()) == [("q", 1.0)]
    assert hierarchy_of(made(**{**both, "hierarchy-weights": "1/much"})) == [("a", 1.0), ("b", 1.0)]
    assert hierarchy_of(made(**{**both, "hierarchy-weights": "1/0/0.5"})) == [("a", 1.0), ("b", 1.0)]
    assert hierarchy_of(made(**{**both, "hierarchy": "elsewhere/a"})) == [("q", 1.0)]
