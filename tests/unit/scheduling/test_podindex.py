"""The pod index: after any changes its counts, and the filter results based on them, equal a full count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.kubernetes.topologydomains import ShapeCache

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group
from tests.scenario.scheduling.podrules import HOST, ZONE, apart, asking, near, prefers, spread, term, zoned
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.loads import LOADS, Load
from volcanoio.engine.scheduling.podindex.terms import all_select, has_terms
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling.podterms import PodSelector
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds
from volcanoio.model.core import Requirement

RULES: tuple[dict[str, Any], ...] = (
    {},
    {"labels": {"app": "b"}},
    {"affinity": apart(term(app="a"))},
    {"affinity": apart(term(ZONE, app="b")), "labels": {"app": "b", "tier": "x"}},
    {"affinity": near(term(ZONE, app="a"))},
    {"affinity": near(term(ZONE, app="b"), term(HOST, app="a"))},
    {"affinity": prefers("podAffinity", weight=5, term=term(ZONE, app="b"))},
    {"affinity": prefers("podAntiAffinity", weight=3, term=term(HOST, tier="x")), "labels": {"tier": "x"}},
    {"constraints": (spread(),)},
    {"constraints": (spread(HOST, skew=2), spread(soft=True))},
    {"port": {"hostPort": 80}},
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "pod", "pod", "run", "delete", "gone", "end", "cycle", "attempt", "evict", "node"]),
        st.integers(0, 7),
        st.integers(0, len(RULES) - 1),
    ),
    min_size=4,
    max_size=30,
)
NODES = tuple(zoned(f"n{at}", ["a", "b", ""][at % 3], cpu="3") for at in range(4))


def check(ledger: Ledger) -> None:
    """Assert that every count equals a count over all tasks."""
    index = ledger.pod_index
    if not index.is_active:
        assert not any(task.label_class or task.shape.terms or task.shape.matched for task in ledger.tasks.values())
        return
    placed = [task for task in ledger.tasks.values() if LOADS[task.status] and task.node]
    for selectors, known in index._classes.groups.items():
        members = [
            task for task in placed if all_select(selectors, task.namespace, task.pod.metadata.labels, lambda _: {})
        ]
        if known.node_counts is not None:
            assert known.node_counts.by_node == Counter(t.node for t in members if t.uid not in index._evicted)
        if known.active_node_counts is not None:
            living = [task for task in members if LOADS[task.status] is not Load.RELEASES]
            assert known.active_node_counts.by_node == Counter(task.node for task in living)
    for carried in index._counts_by_topic.values():
        for what, counted in carried.items():
            held: Counter[str] = Counter()
            for task in placed:
                terms = task.shape.terms
                if terms is not None and task.uid not in index._evicted:
                    held[task.node] += terms.carried.count(what)
            assert counted.by_node == +held


def step(world: World, kind: str, number: int, rule: int) -> None:
    name = f"p-{number}"
    exists = (kinds.POD.resource, f"ns/{name}") in world.objects
    match kind:
        case "pod" if not exists:
            world.put(asking(name, f"g{number % 2}", **RULES[rule]))
        case "run" if exists and world.pod(name).spec.node_name:
            world.set_pod(name, phase="Running")
        case "end" if exists:
            world.set_pod(name, phase="Succeeded")
        case "delete" if exists:
            world.set_pod(name, deleting=True)
        case "gone" if exists:
            world.remove(kinds.POD, f"ns/{name}")
        case "node":
            world.put(zoned(f"n{number % 5}", "ab"[rule % 2], cpu="3"))
        case "cycle":
            world.run()
        case "attempt" | "evict":
            attempt(world, kind)
        case _:
            pass


def attempt(world: World, kind: str) -> None:
    """Place or evict in a session and undo it: the counts must be the same before and after."""
    session = CycleSession(world.state, world.profile, CycleOpened(cycle=99, upto=0, seed=1, at=world.now))
    list(open_session(session))
    ledger = world.state.ledger
    check(ledger)
    before = counts(ledger)
    for job in list(session.jobs_with_pending_tasks()):
        for run in session.runs(job, best_effort=False):
            statement = session.statement(job)
            if kind == "evict":
                for task in list(ledger.tasks.values()):
                    if task.status.name in ("RUNNING", "BOUND") and task.job:
                        statement.evict(task, "test")
                check(ledger)
            statement.allocate(run, 0, len(run.tasks))
            check(ledger)
            fresh_answers(session, run.shape)
            statement.discard()
            check(ledger)
            assert counts(ledger) == before
    session.undo()


def counts(ledger: Ledger) -> list[dict[str, int]]:
    groups = ledger.pod_index._classes.groups.values()
    by_class = [each for known in groups for each in (known.node_counts, known.active_node_counts) if each]
    by_topic = [each for table in ledger.pod_index._counts_by_topic.values() for each in table.values()]
    return [dict(each.by_node) for each in (*by_class, *by_topic)]


def fresh_answers(session: CycleSession, shape: Any) -> None:
    """Assert that cached results of filters and scorers equal those after their caches were cleared."""
    columns = session.nodes
    everywhere = np.ones(len(columns), np.bool_)
    kept = [part.allowed(shape, columns).copy() for part in session.rules.filters]
    scores = [part.score(shape, columns, everywhere, columns, range(len(columns))) for part in session.rules.scorers]
    cleared = 0
    for plugins in session.profile.tiers:
        for enabled in plugins:
            for part in (*getattr(enabled.plugin, "filters", ()), *getattr(enabled.plugin, "scorers", ())):
                for cache in vars(part).values():
                    if isinstance(cache, ShapeCache):
                        cache._cached.clear()
                        cleared += 1
    assert cleared
    for part, known in zip(session.rules.filters, kept, strict=True):
        feasibility = part.feasible(shape, columns, columns, range(len(columns)))
        assert feasibility.ok.tolist() == known.tolist()
        failing = np.zeros(len(columns), np.bool_)
        for _, mask in feasibility.reasons:
            failing |= mask
        assert failing.tolist() == (~known).tolist()
    for scorer, known_scores in zip(session.rules.scorers, scores, strict=True):
        again = scorer.score(shape, columns, everywhere, columns, range(len(columns)))
        assert again.tolist() == known_scores.tolist()


@examples(120)
@given(steps=STEPS)
def test_counts_equal_a_count_over_all_tasks(steps: list[tuple[str, int, int]]) -> None:
    world = World(*NODES, group("g0", 1, phase="Inqueue"), group("g1", 2, phase="Inqueue"))
    for kind, number, rule in steps:
        step(world, kind, number, rule)
        check(world.state.ledger)
    for name in [key for resource, key in world.objects if resource == kinds.POD.resource]:
        world.remove(kinds.POD, name)
    world.run(3)
    assert not world.state.ledger.pod_index.is_active, "nothing is counted where no pod has terms"
    assert not world.state.ledger.shapes._transient


def test_labels_that_no_selector_reads_make_no_label_classes() -> None:
    world = World(*NODES, group("g", 1, phase="Inqueue"))
    for number in range(6):
        world.put(asking(f"p-{number}", "g", labels={"app": "a", "index": str(number)}))
    world.run()
    assert len({task.shape.id for task in world.state.ledger.tasks.values()}) == 1
    world.put(asking("other", "g", labels={"app": "c"}, affinity=apart(term(app="c"))))
    world.run()
    shapes = {task.shape.id for task in world.state.ledger.tasks.values() if not has_terms(task.pod, task.spec_shape)}
    assert len(shapes) == 1, "no term selects them, so that they still share a shape"


def test_a_plugin_may_have_pods_of_its_own_selector_counted() -> None:
    world = World(*NODES, asking("x", on="n1", phase="Running"), asking("y", on="n1", phase="Running", labels={}))
    opening = CycleOpened(cycle=1, upto=0, seed=1, at=world.now)
    session = CycleSession(world.state, world.profile, opening)
    list(open_session(session))
    wanted = PodSelector(("ns",), None, (Requirement(key="app", operator="In", values=("a",)),))
    counted = session.pods.matching((wanted,))
    assert counted.by_node == {"n1": 1}
    version = counted.version
    world.put(asking("z", on="n2", phase="Running"))
    list(open_session(session))
    assert counted.by_node == {"n1": 1, "n2": 1}
    assert counted.since(version) == [("n2", 1)]
    world.run(3)
    assert not world.state.ledger.pod_index.is_active, "no plugin needs counts any more"
