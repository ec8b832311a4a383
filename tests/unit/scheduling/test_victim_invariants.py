"""Invariants of evictions over random clusters, many cycles and several sets of plugins.

Evicted pods are removed after some cycles and created again by their jobs, and bound pods run.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pod, queue
from tests.unit.scheduling.evicting_cluster import EvictingCluster, Queues
from tests.unit.scheduling.invariants import check
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.framework.scheduling_events import CycleOpened

CONFS = [
    f"""
actions: "{actions}"
tiers:
- plugins: [{first}]
- plugins: [{second}]
configurations:
- name: preempt
  arguments: {{enableTopologyAwarePreemption: {dry}}}
"""
    for actions, dry in (
        ("enqueue, allocate, backfill, reclaim, preempt", "false"),
        ("allocate, preempt, reclaim", "true"),
        ("reclaim, preempt, allocate", "false"),
        ("enqueue, allocate, backfill, gangreclaim, gangpreempt", "false"),
        ("gangpreempt, gangreclaim, allocate, preempt, reclaim", "false"),
    )
    for first, second in (
        ("{name: priority}, {name: gang}, {name: conformance}", "{name: predicates}, {name: proportion}"),
        ("{name: priority}, {name: gang}, {name: drf}", "{name: predicates}, {name: nodeorder}"),
        ("{name: gang, enableJobStarving: false}, {name: priority, enablePreemptable: false}", "{name: proportion}"),
        ("{name: priority, enablePreemptable: false}", "{name: gang, enablePreemptable: false}"),
        ("{name: priority}, {name: gang}, {name: capacity}", "{name: predicates}"),
    )
]
JOB = st.fixed_dictionaries(
    {
        "size": st.integers(1, 4),
        "minimum": st.integers(0, 4),
        "cpu": st.sampled_from(["1", "2", "3"]),
        "queue": st.sampled_from(["a", "b", "c"]),
        "rank": st.sampled_from(["low", "mid", "high"]),
        "late": st.integers(0, 3),
        "parts": st.sampled_from([None, None, 0, 1, 2]),
    }
)
QUEUES = st.tuples(st.integers(1, 3), st.sampled_from([None, "1", "2"]), st.booleans())


LAST_ARRIVAL, TURNS, CALM = 3, 30, 6


def guarantees(world: World) -> dict[str, int]:
    """Return the cpu that each queue uses up to its guarantee."""
    found = {}
    for name, one in world.state.ledger.existing_queues.items():
        if one.guarantee:
            found[name] = min(one.allocated.get("cpu", 0), one.guarantee["cpu"])
    return found


@examples(100)
@given(
    conf=st.sampled_from(CONFS),
    nodes=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    queues=st.lists(QUEUES, min_size=3, max_size=3),
    jobs=st.lists(JOB, min_size=1, max_size=6),
    linger=st.integers(0, 2),
)
def test_every_eviction_makes_room_for_a_placement_and_none_is_returned(
    conf: str, nodes: list[int], queues: Queues, jobs: list[Any], linger: int
) -> None:
    cluster = EvictingCluster(conf, nodes, queues, jobs)
    world = cluster.world
    owed: set[str] = set()
    taken: set[tuple[str, str]] = set()
    for turn in range(TURNS):
        cluster.arrive(turn)
        before, claims = guarantees(world), set(world.state.nominations.by_task)
        evicted = cluster.cycle()
        assert turn < TURNS - CALM or not evicted, "evictions do not end"
        reasons = {one.reason for one in evicted}
        assert (
            not reasons
            or not reasons <= {"reclaim", "gangreclaim"}
            or all(guarantees(world)[name] >= held for name, held in before.items())
        )
        new = [claim for uid, claim in world.state.nominations.by_task.items() if uid not in claims]
        _each_pays(cluster, evicted, {claim.node for claim in new}, limits="proportion" in conf or "capacity" in conf)
        if turn > LAST_ARRIVAL:  # newcomers change what queues may have
            owed |= {claim.task.uid for claim in new}
            edges = {(claim.task.job, one.group) for claim in new for one in evicted if claim.node == one.node}
            taken |= {(preemptor, victim) for preemptor, victim in edges if preemptor != victim}
            assert not any((victim, preemptor) in taken for preemptor, victim in taken), "A evicts B evicts A"
        columns = world.state.ledger.columns
        for name in columns.resources:
            assert (columns.used(name) <= columns.allocatable(name)).all()
        _no_gang_in_part(world, jobs)
        if turn % (linger + 1) == linger:
            cluster.remove_terminating_pods()
    for uid in owed:
        task = world.state.ledger.tasks.get(uid)
        assert task is None or task.node, "a preemptor was never placed"


def _each_pays(cluster: EvictingCluster, evicted: list[Evict], places: set[str], *, limits: bool) -> None:
    """Assert that each eviction is on a node of a placement, or of a gang of which another task is.

    Where queues have limits, tasks on any node may be evicted for a gang of the same queue.
    """
    if limits and places:
        evicted = [one for one in evicted if one.reason != "gangpreempt"]
    whole = {one.group for one in evicted if one.reason.startswith("gang") and one.node in places}
    for one in evicted:
        assert one.node in places or one.group in whole, "an eviction without a placement"
    for key in {one.group for one in evicted if one.node not in places}:
        job = cluster.world.state.ledger.jobs[key]
        assert job.ready_count < job.min_available, "spare tasks are evicted only on the nodes of placements"


def _no_gang_in_part(world: World, jobs: list[Any]) -> None:
    bound = {one.group for one in world.last if isinstance(one, BindBatch)}
    for key in bound:
        at = int(key.split("/g")[1])
        counts = world.state.ledger.jobs[key].counts
        held = counts[TaskStatus.BINDING] + counts[TaskStatus.BOUND] + counts[TaskStatus.RUNNING]
        assert held >= min(jobs[at]["minimum"], jobs[at]["size"])
        job = world.state.ledger.jobs[key]
        whole = sum(part.ready_count >= part.min_available for part in job.sub_jobs)
        assert whole >= (jobs[at]["parts"] or 0), "fewer whole sub-jobs than its minimum"


STEPS = st.lists(st.tuples(st.sampled_from(["evict", "spare", "pipeline", "mark", "rollback"]), st.integers(0, 9)))


@examples(100)
@given(steps=STEPS)
def test_a_rollback_restores_the_state_at_its_savepoint(steps: list[tuple[str, int]]) -> None:
    """Evictions, placements and savepoints come in any order; a discard at the end restores the start."""
    world = World(
        *(node(f"n{at}", cpu="4") for at in range(2)),
        *(queue(name, guarantee={"resource": {"cpu": "1"}}) for name in "ab"),
        *(group(name, 1, queue=name, phase="Running") for name in "ab"),
        *(pod(f"{name}-{at}", name, cpu="1", on=f"n{at % 2}", phase="Running") for name in "ab" for at in range(3)),
        group("new", 1, queue="a", phase="Inqueue"),
        *(pod(f"new-{at}", "new", cpu="2") for at in range(3)),
        conf=CONFS[0],
    )
    world.run()
    state = world.state
    session = CycleSession(state, world.profile, CycleOpened(cycle=9, upto=0, seed=1, at=world.now))
    list(open_session(session))
    for job in ("a", "b"):
        state.ledger.dirty.pop(f"ns/{job}", None)

    def now() -> tuple[Any, ...]:
        ledger = state.ledger
        return (
            ledger.columns.block.tolist(),
            ledger.columns.freed_count,
            sorted(ledger.dirty),
            {uid: (task.status, task.node) for uid, task in ledger.tasks.items()},
            {key: (list(job.counts), dict(job.allocated), dict(job.requested)) for key, job in ledger.jobs.items()},
            {name: (dict(one.allocated), dict(one.requested)) for name, one in ledger.queues.items()},
            [session.queue_key(one) for one in session.queues.values()],
        )

    statement = session.statement(state.ledger.jobs["ns/new"])
    start = now()
    marks: list[tuple[Any, tuple[Any, ...]]] = []
    for kind, number in steps:
        tasks = sorted(state.ledger.tasks.values(), key=lambda task: task.uid)
        match kind:
            case "evict":
                running = [task for task in tasks if task.status is TaskStatus.RUNNING]
                if running:
                    statement.evict(running[number % len(running)], "test")
            case "spare" if not marks and statement.evicted:
                statement.unevict(statement.evicted[number % len(statement.evicted)])
            case "pipeline":
                pending = [task for task in tasks if task.status is TaskStatus.PENDING and task.job == "ns/new"]
                if pending:
                    statement.pipeline_on(pending[0], f"n{number % 2}", evicted=True)
            case "mark":
                marks.append((statement.savepoint(), now()))
            case "rollback" if marks:
                mark, then = marks.pop()
                statement.rollback(mark)
                assert now() == then
            case _:
                pass
    statement.discard()
    assert now() == start
    check(state)
