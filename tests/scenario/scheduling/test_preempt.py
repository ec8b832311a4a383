"""preempt: whom a job of a queue may have evicted, who goes first, and what becomes of it over cycles."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, node, pod, pods, queue
from tests.scenario.scheduling.preemption_worlds import CONF, DRY_RUN, job, labelled, rank, world
from tests.scenario.scheduling.victims import bury, evicted, running, waiting
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.framework.effects import Patch, Record
from volcanoio.model.base import Manifest


def after(*objects: Manifest, conf: str = CONF) -> list[str]:
    """Who is evicted in the first cycle."""
    return evicted(world(*objects, conf=conf))


FULL = (node("n1", cpu="4"), *job("old", 1, *running("old", 4)))
"""A node full of a job that can lose three of its four tasks."""


def test_a_gang_takes_what_it_needs_and_no_more() -> None:
    it = world(*FULL, *job("new", 2, *waiting("new", 5), priority="high"))
    it.cycle()
    assert it.evictions == ["old-3", "old-2"], "the last of the job's order goes first"
    assert it.snapshot is not None
    assert it.snapshot.pipelined == {"ns/new-0": "n1", "ns/new-1": "n1"}
    assert it.binds == {}


def test_pods_that_came_to_run_here_can_be_evicted_like_any_other() -> None:
    first, second = job("first", 1, *waiting("first", 4)), job("second", 1, *waiting("second", 1), priority="middle")
    it = world(node("n1", cpu="5"), *second, *first, *job("large", 1, *waiting("large", 1, cpu="6")))
    it.cycle()
    assert len(it.binds) == 5
    assert it.evictions == [], "who is only bound is nobody's victim, though looked at"
    it.echo()
    for manifest in job("new", 2, *waiting("new", 2), priority="high"):
        it.put(manifest)
    it.cycle()
    assert it.evictions == ["first-3", "first-2"]


def test_a_job_without_victims_is_tried_again_when_something_changed() -> None:
    it = world(*FULL, *job("new", 1, *waiting("new", 1), priority="low"))
    assert it.cycle().stats.attempts == 1
    assert it.cycle().stats.attempts == 0, "nothing has changed"
    it.put(rank("low", 5))
    assert it.cycle().stats.attempts == 1, "priorities have"
    it.put(job("new", 1, priority="high", phase="Inqueue")[0])
    it.cycle()
    assert it.evictions == ["old-3"]


def test_what_is_said_and_written() -> None:
    it = world(*FULL, *job("new", 1, *waiting("new", 1), priority="high"))
    it.cycle()
    assert ("old", "Evict", "preempt") in it.told
    (patch,) = [one for one in it.last if isinstance(one, Patch) and "nominatedNodeName" in one.patch.get("status", {})]
    assert (patch.resource, patch.name, patch.subresource) == ("pods", "new-0", "status")
    assert patch.patch == {"status": {"nominatedNodeName": "n1"}}
    assert ("old-3", "Evict", "Pod is evicted, because of preempt") in it.told
    assert len([one for one in it.last if isinstance(one, Record) and one.reason == "Evict"]) == 2


NEW = job("new", 1, *waiting("new", 1), priority="high")
MUST: dict[str, Any] = {"annotations": {"volcano.sh/preemptable": "false"}}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([*FULL, *job("new", 4, *waiting("new", 4), priority="high")], []),  # only three can be had: none is taken
        ([*FULL, *job("new", 1, *waiting("new", 1), priority="low")], []),  # not from its equals
        ([*FULL, queue("q"), *job("new", 1, *waiting("new", 1), priority="high", queue="q")], []),  # nor other queues
        ([node("n1", cpu="2"), *job("old", 2, *running("old", 2)), *NEW], []),  # no gang falls below its minimum
        ([node("n1", cpu="2"), *job("old", 1, *running("old", 2, **MUST)), *NEW], []),
        ([*FULL, *job("new", 1, *waiting("new", 1, spec={"preemptionPolicy": "Never"}), priority="high")], []),
        ([node("n1", cpu="2"), *job("old", 1, *running("old", 2, spec={"priorityClassName": "system-node-critical"})),
          *NEW], []),
        ([*FULL, *job("new", 1, *waiting("new", 1), priority="high", phase="Pending",
                      minResources={"cpu": "99"})], []),  # a job that is not admitted
        ([*FULL, *job("new", 2, *waiting("new", 1), priority="high")], []),  # a job that is not valid
        ([*FULL, *job("new", 1, *waiting("new", 1), priority="high",
                      networkTopology={"mode": "hard", "highestTierAllowed": 1})], []),  # gangpreempt's business
        ([*FULL, *job("new", 1, *waiting("new", 1, cpu="9"), priority="high")], []),  # larger than the node
        ([*FULL, *job("new", 1, *waiting("new", 1, cpu="3"), priority="high")], ["old-1", "old-2", "old-3"]),
        ([*FULL, node("n2"), *job("new", 1, *waiting("new", 1), priority="high")], []),  # room elsewhere
        ([*FULL, *job("new", 1, *waiting("new", 1, spec={"nodeSelector": {"disk": "ssd"}}), priority="high")], []),
    ],
)  # fmt: skip
def test_who_may_be_evicted(objects: list[Manifest], expected: list[str]) -> None:
    assert after(*objects) == expected


def test_bound_tasks_may_go_too_and_terminating_ones_count_as_gone() -> None:
    start = node("n1", cpu="2"), *job("old", 0, *pods("old", 2, "old", cpu="1", on="n1"), phase="Running")
    assert after(*start, *NEW) == ["old-1"]
    it = world(*start)
    it.set_pod("old-0", deleting=True)
    for manifest in NEW:
        it.put(manifest)
    it.cycle()
    assert it.evictions == []
    assert it.snapshot is not None
    assert it.snapshot.pipelined == {"ns/new-0": "n1"}


def test_the_job_of_lowest_priority_goes_first_and_of_a_job_the_task_of_lowest() -> None:
    assert after(
        node("n1", cpu="4"),
        *job("a", 0, *running("a", 2, spec={"priority": 5}), priority="middle"),
        *job("b", 0, *running("b", 1, spec={"priority": 5}), pod("b-x", "b", cpu="1", on="n1", phase="Running")),
        *job("new", 3, *waiting("new", 3), priority="high"),
    ) == ["a-1", "b-0", "b-x"]
    assert after(
        node("n1", cpu="2"),
        *job("b", 0, *running("b", 1, spec={"priority": 5}), pod("b-x", "b", cpu="1", on="n1", phase="Running")),
        *NEW,
    ) == ["b-x"]


def test_what_asks_for_nothing_takes_only_from_its_like() -> None:
    rest = job("rest", 0, *running("rest", 1, cpu="1"))
    idle = job("idle", 0, pod("idle-0", "idle", on="n1", phase="Running"))
    new = job("new", 1, pod("new-0", "new"), priority="high")
    assert after(node("n1", pods="1"), *rest, *new) == []
    assert after(node("n1", pods="2"), *rest, *idle, *new) == ["idle-0"]


def test_where_the_queue_is_full_and_nodes_are_not() -> None:
    assert after(
        node("n1", cpu="12"),
        queue("small", capability={"cpu": "3"}),
        *job("old", 0, *running("old", 3), queue="small"),
        *job("new", 1, *waiting("new", 1, cpu="2"), priority="high", queue="small"),
    ) == ["old-1", "old-2"]


def test_room_that_is_there_is_used_first() -> None:
    it = world(*FULL, node("n2", cpu="2"), *job("new", 3, *waiting("new", 3), priority="high"))
    it.cycle()
    assert it.evictions == ["old-3"]
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined.values()) == ["n1", "n2", "n2"]


def test_within_a_job_a_task_of_higher_priority_takes_the_place_of_a_lower_one() -> None:
    conf = CONF.replace("  - name: gang\n", "  - name: gang\n    enableJobStarving: false\n")
    members = [*running("own", 2), pod("own-boss", "own", cpu="1", spec={"priority": 50})]
    assert after(node("n1", cpu="2"), *job("own", 1, *members), conf=conf) == ["own-1"]
    assert after(node("n1", cpu="2"), *job("own", 2, *members), conf=conf) == [], "its minimum stays"


@pytest.mark.parametrize("conf", [CONF, DRY_RUN, CONF.replace("allocate, backfill, preempt", "preempt, allocate")])
def test_while_victims_terminate_no_more_are_taken_and_then_the_preemptor_has_the_room(conf: str) -> None:
    it = world(*FULL, *job("new", 2, *waiting("new", 2), priority="high"), conf=conf)
    it.run(4)
    assert len(it.evictions) == 2
    assert it.binds == {}
    for manifest in job("rival", 1, *waiting("rival", 4), priority="high"):
        it.put(manifest)
    it.run(2)
    bury(it)
    it.run(2)
    assert it.binds == {"new-0": "n1", "new-1": "n1", "rival-0": "n1"}
    assert len(it.evictions) == 3, "the rival has a victim of its own"


def test_the_evicted_do_not_evict_back() -> None:
    it = world(*FULL, *job("new", 2, *waiting("new", 2), priority="high"))
    for turn in range(6):
        it.run()
        bury(it)
        for at in (2, 3):
            it.put(pod(f"again{turn}-{at}", "old", cpu="1"))
    assert it.evictions == ["old-3", "old-2"]


def test_who_would_be_evicted_back_takes_nothing() -> None:
    """Jobs that starve while any task waits, and may take whatever another has above its minimum."""
    conf = """
actions: "allocate, preempt"
tiers:
- plugins:
  - {name: priority, enablePreemptable: false}
  - {name: gang, enableJobStarving: false}
"""
    start = node("n1", cpu="3"), *job("old", 1, *running("old", 2))
    new = pod("new-0", "new", cpu="1", on="n1", phase="Running"), pod("new-1", "new", cpu="1")
    assert after(*start, *job("new", 1, *new), conf=conf) == []
    assert after(*start, *job("new", 2, *new), conf=conf) == ["old-1"], "what it needs nobody may take back"


def test_a_new_process_knows_the_nominations() -> None:
    it = world(*FULL, *job("new", 2, *waiting("new", 2), priority="high"))
    it.run(2)
    other = World(conf=CONF, state=ClusterState(), synced=False, now=it.now)
    for obj in it.objects.values():
        other.put(obj)
    for manifest in job("rival", 1, *waiting("rival", 1), priority="high"):
        other.put(manifest)
    other.sync()
    other.run(2)
    assert other.evictions == ["old-1"], "the rival's own victim"
    bury(other)
    other.run(2)
    assert other.binds == {"new-0": "n1", "new-1": "n1", "rival-0": "n1"}


def test_a_nomination_ends_some_time_after_the_last_victim_is_gone() -> None:
    it = world(*FULL, *job("new", 1, *waiting("new", 1), priority="high"))
    it.run()
    bury(it)
    gated = pod("new-0", "new", cpu="1", spec={"schedulingGates": [{"name": "wait"}]})
    it.put(gated)
    for manifest in job("other", 1, *waiting("other", 1)):
        it.put(manifest)
    it.run(2)
    assert it.binds == {}, "the room is kept"
    it.now += it.state.reservation_seconds
    it.run(2)
    assert it.binds == {"other-0": "n1"}


def test_dry_run_takes_the_least_harmful_victims() -> None:
    two = node("n1", cpu="2"), node("n2", cpu="2")
    a = job("a", 0, *running("a", 2, on="n1", spec={"priority": 7}))
    b = job("b", 0, *running("b", 2, on="n2", spec={"priority": 3}))
    assert after(*two, *a, *b, *NEW, conf=DRY_RUN) == ["b-1"], "the lowest highest priority"
    wide = job("wide", 0, *running("wide", 1, on="n1", cpu="2"))
    small = job("small", 0, *running("small", 2, on="n2"))
    large = job("new", 1, *waiting("new", 1, cpu="2"), priority="high")
    assert after(*two, *wide, *small, *large, conf=DRY_RUN) == ["wide-0"], "the fewest"

    def since(name: str, on: str, start: str) -> list[Manifest]:
        return job(name, 0, *running(name, 1, on=on, cpu="2", status={"startTime": start}))

    old, young = since("old", "n1", "2026-01-01T00:00:00Z"), since("young", "n2", "2026-01-02T00:00:00Z")
    assert after(*two, *old, *young, *large, conf=DRY_RUN) == ["young-0"], "what has run least"


def test_dry_run_spares_whom_it_can() -> None:
    members = [
        pod("old-a", "old", cpu="2", on="n1", phase="Running", spec={"priority": 9}),
        pod("old-b", "old", cpu="1", on="n1", phase="Running", spec={"priority": 1}),
        pod("old-c", "old", cpu="2", on="n1", phase="Running", spec={"priority": 5}),
    ]
    start = node("n1", cpu="5"), *job("old", 0, *members)
    large = job("new", 1, *waiting("new", 1, cpu="2"), priority="high")
    assert after(*start, *large, conf=DRY_RUN) == ["old-c"]
    assert after(*start, *large) == ["old-b", "old-c"], "one after another until it fits"


def apart_from(app: str) -> Manifest:
    """A pod's spec: never beside pods of an app."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize("conf", [CONF, DRY_RUN])
def test_filters_that_evictions_help_are_asked_after_them(conf: str) -> None:
    """Room is not what is missing: a pod that one keeps apart from, or a port that is taken."""
    host = node("n1", cpu="8", labels={"kubernetes.io/hostname": "n1"})
    old = [labelled(each, app="x") for each in running("old", 1)], labelled(running("calm", 1)[0], app="y")
    start = host, *job("old", 0, *old[0]), *job("calm", 0, old[1])
    new = job("new", 1, pod("new-0", "new", cpu="1", spec=apart_from("x")), priority="high")
    it = world(*start, *new, conf=conf)
    it.cycle()
    assert "old-0" in it.evictions
    assert conf is CONF or it.evictions == ["old-0"], "whom it need not evict is spared"
    port = {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
    taken = job("old", 0, pod("old-0", "old", on="n1", phase="Running", spec=port))
    assert after(host, *taken, *job("new", 1, pod("new-0", "new", spec=port), priority="high"), conf=conf) == ["old-0"]


@pytest.mark.parametrize(
    ("switches", "gone"),
    [
        ("enablePreemptable: false, enabledAllocatable: false", []),
        ("enablePreemptable: false", ["old-0"]),
        ("enabledAllocatable: false", ["old-0"]),
        ("enablePreemptive: false", ["old-0"]),
    ],
)
def test_a_dry_run_evicts_no_pod_for_a_conflict_that_it_cannot_simulate(switches: str, gone: list[str]) -> None:
    """Volcano: SimulateRemoveTask runs where a plugin's enablePreemptable or enabledAllocatable is on."""
    conf = DRY_RUN.replace("- name: predicates", f"- {{name: predicates, {switches}}}")
    host = node("n1", cpu="2", labels={"kubernetes.io/hostname": "n1"})
    old = job("old", 0, *(labelled(each, app="x") for each in running("old", 1)))
    clashing = job("new", 1, pod("new-0", "new", cpu="1", spec=apart_from("x")), priority="high")
    assert after(host, *old, *clashing, conf=conf) == gone
    large = job("new", 1, *waiting("new", 1, cpu="2"), priority="high")
    assert after(host, *old, *large, conf=conf) == ["old-0"], "room is always simulated"


def test_a_filter_that_no_victim_helps_keeps_all() -> None:
    host = node("n1", cpu="8", labels={"kubernetes.io/hostname": "n1"})
    old = [labelled(each, app="x") for each in running("old", 2)]
    new = job("new", 1, pod("new-0", "new", cpu="1", spec=apart_from("x")), priority="high")
    assert after(host, *job("old", 1, *old), *new) == [], "one of the two has to stay, and so it does not help"


def test_every_task_of_a_gang_goes_where_it_is_wanted_most_as_of_then() -> None:
    host = "kubernetes.io/hostname"
    near = {"topologyKey": host, "labelSelector": {"matchLabels": {"app": "a"}}}
    wants_company = labelled(pod("near", "n1", cpu="1", on="n1", phase="Running"), app="a")
    wants_company["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    wants_company["spec"]["priority"] = 5  # goes last
    it = world(
        *(node(name, cpu="3", labels={host: name}) for name in ("n0", "n2")),
        node("n1", cpu="3", memory="4Gi", labels={host: "n1"}),
        *(one for name in ("n0", "n2") for one in job(name, 1, *running(name, 3, on=name))),
        *job("n1", 1, *running("n1", 2, on="n1"), wants_company),
        *job("new", 2, *(labelled(one, app="a") for one in waiting("new", 2)), priority="high"),
    )
    it.cycle()
    assert it.snapshot is not None
    assert it.snapshot.pipelined == {"ns/new-0": "n1", "ns/new-1": "n1"}


def test_what_uses_the_rest_of_a_victims_room_counts_for_the_next_one() -> None:
    old = pods("old-b", 3, "old", cpu="1", on="n1", phase="Running")
    it = world(
        node("n0", cpu="2", memory="8Gi"),
        node("n1", cpu="3", memory="8Gi"),
        *job("old", 1, *pods("old-a", 2, "old", cpu="1", on="n0", phase="Running"), *old),
        *job("new", 3, *waiting("new", 3, cpu="500m"), priority="high"),
    )
    it.cycle()
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined.values()) == ["n0", "n0", "n1"]


@pytest.mark.parametrize("conf", [CONF, DRY_RUN])
def test_where_only_the_queues_limit_stood_against_it_is_tried_again_once_others_are_evicted(conf: str) -> None:
    it = world(
        node("n0", cpu="3", memory="8Gi"),
        node("n1", cpu="3", memory="4Gi"),
        queue("q", capability={"cpu": "4"}),
        *job("some", 1, *running("some", 3, on="n0"), queue="q"),
        *job("all", 0, *running("all", 3, on="n1"), queue="q"),
        *job("new", 2, *waiting("new", 2), priority="high", queue="q"),
        conf=conf,
    )
    it.cycle()
    assert sorted(it.evictions) == ["all-0", "all-1", "all-2", "some-2"], "two on n0 would not do for the first"
    assert it.snapshot is not None
    assert it.snapshot.pipelined == {"ns/new-0": "n1", "ns/new-1": "n0"}
