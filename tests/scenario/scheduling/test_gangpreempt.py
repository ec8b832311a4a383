"""gangpreempt: a whole gang takes the places of jobs of lower priority, what they can spare first, then whole gangs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, node, pod, pods, queue
from tests.scenario.scheduling.preemption_worlds import job, world
from tests.scenario.scheduling.storage import claim, on, storage_class, volume
from tests.scenario.scheduling.victims import bury, running, waiting
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.framework.effects import Patch
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, gangpreempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
SAFE_ONLY = f"""{CONF}
configurations:
- name: gangpreempt
  arguments: {{allowWholeBundle: false, maxDomains: 0}}
"""
NODES = (node("n1", cpu="4"), node("n2", cpu="4"))


def evicted(*objects: Manifest, conf: str = CONF) -> list[str]:
    """Who is evicted in the first cycle."""
    it = world(*objects, conf=conf)
    it.cycle()
    return sorted(it.evictions)


def gang(name: str, count: int, minimum: int | None = None, *, on: str = "n1", **more: Any) -> list[Manifest]:
    """A running job of that many pods, which needs them all unless told otherwise."""
    priority = more.pop("priority", "low")
    spec = {key: more.pop(key) for key in ("minTaskMember", "queue", "annotations") if key in more}
    made = job(name, count if minimum is None else minimum, *running(name, count, on=on, **more), priority=priority)
    made[0]["metadata"]["annotations"] = spec.pop("annotations", {})
    made[0]["spec"].update(spec)
    return made


def new(count: int, minimum: int | None = None, *, cpu: str = "1", **more: Any) -> list[Manifest]:
    """A job of high priority that waits."""
    return job("new", count if minimum is None else minimum, *waiting("new", count, cpu=cpu, **more), priority="high")


def test_a_gang_ends_a_whole_gang() -> None:
    it = world(*NODES, *gang("a", 4, on="n1"), *gang("b", 4, on="n2"), *new(4), conf=CONF)
    it.cycle()
    assert sorted(it.evictions) in (["a-0", "a-1", "a-2", "a-3"], ["b-0", "b-1", "b-2", "b-3"])
    assert {reason for _, reason, message in it.told if "gangpreempt" in message} == {"Evict"}
    assert it.snapshot is not None
    assert len(it.snapshot.pipelined) == 4
    nominated = [
        one for one in it.last if isinstance(one, Patch) and "nominatedNodeName" in one.patch.get("status", {})
    ]
    assert sorted(one.name for one in nominated) == ["new-0", "new-1", "new-2", "new-3"]


def test_preempt_alone_could_not() -> None:
    assert evicted(*NODES, *gang("a", 4), *gang("b", 4, on="n2"), *new(4),
                   conf=CONF.replace("gangpreempt", "preempt")) == []  # fmt: skip


def test_what_jobs_can_spare_goes_before_whole_gangs() -> None:
    objects = *NODES, *gang("a", 4, on="n1"), *gang("b", 4, 2, on="n2", priority="middle")
    assert evicted(*objects, *new(2)) == ["b-0", "b-1"], "though the other is of lower priority"
    whole = evicted(*objects, *new(4, cpu="1"))
    assert whole == ["a-0", "a-1", "a-2", "a-3"], "of what can be spared nothing is needed then"


def test_no_more_is_evicted_than_is_needed() -> None:
    assert evicted(*NODES, *gang("a", 4, 1), *gang("b", 4, 1, on="n2"), *new(2)) in (["a-0", "a-1"], ["b-0", "b-1"])


def test_a_gang_goes_whole_also_where_fewer_would_do() -> None:
    assert evicted(node("n1", cpu="4"), *gang("a", 4), *new(1)) == ["a-0", "a-1", "a-2", "a-3"]


def test_the_lowest_job_goes_first() -> None:
    three = (node("n1", cpu="2"), node("n2", cpu="2"))
    assert evicted(*three, *gang("a", 2, priority="middle"), *gang("b", 2, on="n2"), *new(2)) == ["b-0", "b-1"]


def test_rooms_on_several_nodes_are_put_together() -> None:
    it = world(*NODES, *gang("a", 4), *gang("b", 4, on="n2"), *new(4, cpu="2"), conf=CONF)
    it.cycle()
    assert len(it.evictions) == 8
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined.values()) == ["n1", "n1", "n2", "n2"]


def test_room_that_is_there_is_used_and_no_gang_ended_for_it() -> None:
    objects = node("n1", cpu="4"), node("n2", cpu="2"), *gang("a", 4)
    assert evicted(*objects, *new(2)) == []
    it = world(*objects, *new(3), conf=CONF)
    it.cycle()
    assert it.evictions == ["a-0", "a-1", "a-2", "a-3"]
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined.values()) == ["n1", "n2", "n2"], "free nodes first"


FULL = (node("n1", cpu="4"), *gang("old", 4))
MUST: dict[str, Any] = {"annotations": {"volcano.sh/preemptable": "false"}}


@pytest.mark.parametrize(
    "objects",
    [
        [*FULL, *new(5)],  # all or nothing
        [*FULL, *job("new", 4, *waiting("new", 4), priority="low")],  # not from its equals
        [*FULL, queue("q"), *job("new", 4, *waiting("new", 4), priority="high", queue="q")],  # nor other queues
        [node("n1", cpu="4"), *job("old", 4, *running("old", 4, **MUST)), *new(4)],
        [node("n1", cpu="4"), *gang("old", 4, annotations={"volcano.sh/preemptable": "false"}), *new(4)],
        [*FULL, *new(4, spec={"preemptionPolicy": "Never"})],
        [node("n1", cpu="4"), *job("old", 4, *running("old", 4, spec={"priorityClassName": "system-node-critical"})),
         *new(4)],
        [*FULL, *job("new", 4, *waiting("new", 2), priority="high")],  # a job that is not valid
        [*FULL, *new(4, cpu="9")],
        [*FULL, *new(2, spec={"nodeSelector": {"no": "where"}})],
    ],
)  # fmt: skip
def test_who_is_spared(objects: list[Manifest]) -> None:
    assert evicted(*objects) == []


def test_a_podgroup_that_says_it_may_be_preempted_may() -> None:
    assert (
        len(evicted(node("n1", cpu="4"), *gang("old", 4, annotations={"volcano.sh/preemptable": "true"}), *new(4))) == 4
    )


def test_whole_gangs_may_be_spared_by_configuration() -> None:
    assert evicted(*FULL, *new(1), conf=SAFE_ONLY) == []
    assert evicted(node("n1", cpu="4"), *gang("old", 4, 3), *new(1), conf=SAFE_ONLY) == ["old-0"]


def test_a_veto_of_one_spares_the_whole_gang_but_not_what_can_be_spared() -> None:
    critical = pod(
        "old-9", "old", cpu="1", on="n1", phase="Running", spec={"priorityClassName": "system-node-critical"}
    )
    nodes = node("n1", cpu="4")
    assert evicted(nodes, *job("old", 4, *running("old", 3), critical), *new(2)) == []
    assert evicted(nodes, *job("old", 1, *running("old", 3), critical), *new(2)) == ["old-0", "old-1"]


def test_roles_keep_their_minimum() -> None:
    """Two of three workers can go, the only ps cannot; without whole gangs that is all."""
    members = [
        *pods("w", 3, "old", role="worker", cpu="1", on="n1", phase="Running"),
        pod("ps", "old", role="ps", cpu="1", on="n1", phase="Running"),
    ]
    old = job("old", 2, *members, minTaskMember={"worker": 1, "ps": 1})
    assert evicted(node("n1", cpu="4"), *old, *new(2), conf=SAFE_ONLY) == ["w-0", "w-1"]
    assert evicted(node("n1", cpu="4"), *old, *new(3), conf=SAFE_ONLY) == []


def parted(name: str, number: int, least: int, **more: Any) -> list[Manifest]:
    """A running job of partitions of two."""
    policy = {"name": "w", "matchLabelKeys": ["part"], "subGroupSize": 2, "minSubGroups": least}
    members = []
    for at in range(2 * number):
        made = pod(f"{name}-{at}", name, cpu="1", **more)
        made["metadata"]["labels"] = {"part": str(at // 2)}
        members.append(made)
    return [policy, *members]


def test_sub_jobs_go_as_far_as_their_group_can_do_without() -> None:
    policy, *members = parted("old", 2, 1, on="n1", phase="Running")
    old = job("old", 1, *members, subGroupPolicy=[policy])
    assert evicted(node("n1", cpu="4"), *old, *new(2), conf=SAFE_ONLY) == ["old-0", "old-1"], "one of the two"
    assert evicted(node("n1", cpu="4"), *old, *new(3), conf=SAFE_ONLY) == []
    assert len(evicted(node("n1", cpu="4"), *old, *new(3))) == 4


def test_a_job_below_its_minimum_can_lose_anything() -> None:
    """It is no gang any more: its pods go one by one."""
    old = job("old", 4, *running("old", 3), phase="Running")
    assert evicted(node("n1", cpu="3"), *old, *new(1), conf=SAFE_ONLY) == ["old-0"]


def test_room_is_made_for_the_minimum_only() -> None:
    it = world(node("n1", cpu="4"), *gang("old", 4, 0), *new(4, 2), conf=CONF)
    it.cycle()
    assert it.evictions == ["old-0", "old-1"]
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined) == ["ns/new-0", "ns/new-1"]


def test_room_is_made_for_what_each_role_needs() -> None:
    members = [*pods("w", 3, "new", role="worker", cpu="1"), pod("z-ps", "new", role="ps", cpu="1")]
    mine = job("new", 2, *members, priority="high", minTaskMember={"worker": 1, "ps": 1})
    it = world(node("n1", cpu="4"), *gang("old", 4, 0), *mine, conf=CONF)
    it.cycle()
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined) == ["ns/w-0", "ns/z-ps"]
    assert len(it.evictions) == 2


def test_room_is_made_for_whole_sub_jobs() -> None:
    policy, *members = parted("new", 3, 2)
    mine = job("new", 1, *members, priority="high", subGroupPolicy=[policy])
    it = world(node("n1", cpu="6"), *gang("old", 6), *mine, conf=CONF)
    it.cycle()
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined) == ["ns/new-0", "ns/new-1", "ns/new-2", "ns/new-3"]
    it.echo()
    bury(it)
    it.run(2)
    assert {name for name in it.binds if name.startswith("new")} >= {"new-0", "new-1", "new-2", "new-3"}


ELASTIC = CONF.replace("- name: gang", "- {name: gang, enableJobStarving: false}")


def test_a_started_job_has_room_made_for_its_next_sub_job_if_that_can_be_whole() -> None:
    policy, *members = parted("new", 3, 1)
    for member in members[:2]:
        member["spec"]["nodeName"], member["status"]["phase"] = "n2", "Running"
    there = [node("n1", cpu="4"), node("n2", cpu="2"), *gang("old", 4, 0)]
    spec: dict[str, Any] = {"priority": "high", "subGroupPolicy": [policy], "phase": "Running"}
    assert evicted(*there, *job("new", 2, *members, **spec), conf=ELASTIC) == ["old-0", "old-1"], "one at a time"
    half = [*members[:3]]
    assert evicted(*there, *job("new", 2, *half, **spec), conf=ELASTIC) == []
    both = [*members[:3], *members[4:]]
    assert evicted(*there, *job("new", 2, *both, **spec), conf=ELASTIC) == ["old-0", "old-1"], "for the one after it"


def test_it_runs_once_its_victims_are_gone_and_takes_no_more_meanwhile() -> None:
    it = world(*FULL, *new(4), conf=CONF).run(3)
    assert len(it.evictions) == 4, "no more while these terminate"
    assert it.binds == {}
    bury(it)
    it.run()
    assert sorted(it.binds) == ["new-0", "new-1", "new-2", "new-3"]
    assert it.batches == [["new-0", "new-1", "new-2", "new-3"]], "the gang as one"


def test_others_do_not_take_the_room_meanwhile() -> None:
    it = world(*FULL, *new(4), conf=CONF).run()
    for made in job("late", 1, *waiting("late", 1), priority="high"):
        it.put(made)
    it.run()
    bury(it)
    it.run()
    assert "late-0" not in it.binds
    assert len(it.binds) == 4


def test_a_restarted_scheduler_goes_on() -> None:
    it = world(*FULL, *new(4), conf=CONF).run()
    again = World(conf=CONF, state=ClusterState(), synced=False, now=it.now)
    for obj in it.objects.values():
        again.put(obj)
    again.sync()
    again.run()
    assert again.evictions == []
    bury(again)
    again.run()
    assert len(again.binds) == 4


def test_filters_hold_on_the_nodes_that_are_taken() -> None:
    """Host ports are free only once their holder is gone: of two that could go, that one does."""
    port = {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}],
                            "resources": {"requests": {"cpu": "1"}}}]}  # fmt: skip
    holder = pod("b-0", "b", on="n1", phase="Running", spec={**port, "schedulerName": "volcano", "nodeName": "n1"})
    objects = [node("n1", cpu="2"), *gang("a", 1, 0), *job("b", 0, holder)]
    mine = job("new", 1, pod("new-0", "new", spec=port), priority="high")
    assert evicted(*objects, *mine) == ["b-0"]


def test_a_gang_whose_places_are_taken_could_not_take_them_back() -> None:
    """By shares alone preempt would give the evicted their places back: where it runs, nothing is done."""
    shares = """
actions: "allocate, gangpreempt, {other}"
tiers:
- plugins: [{{name: gang, enablePreemptable: false}}]
- plugins: [{{name: predicates}}, {{name: drf}}]
"""
    assert evicted(*FULL, *new(4), conf=shares.format(other="backfill")) == ["old-0", "old-1", "old-2", "old-3"]
    assert evicted(*FULL, *new(4), conf=shares.format(other="preempt")) == []


def test_the_queue_limit_counts_what_is_evicted() -> None:
    capped = queue("q", capability={"cpu": "4"})
    old = job("old", 4, *running("old", 4), queue="q")
    mine = job("new", 4, *waiting("new", 4), priority="high", queue="q")
    conf = CONF.replace("proportion", "capacity")
    assert len(evicted(node("n1", cpu="8"), capped, *old, *mine, conf=conf)) == 4


def test_what_is_evicted_may_pay_for_the_queue_where_nodes_have_room() -> None:
    capped = queue("q", capability={"cpu": "4"})
    old = job("old", 0, *running("old", 4), queue="q")
    mine = job("new", 2, *waiting("new", 2), priority="high", queue="q")
    assert evicted(*NODES, capped, *old, *mine, conf=CONF.replace("proportion", "capacity")) == ["old-0", "old-1"]


def test_no_pod_is_evicted_where_the_claims_cannot_be_bound() -> None:
    """Without the claim the queue's first victim would be on the other node."""
    capped = queue("q", capability={"cpu": "6"})
    there = volume("v", phase="Bound", reach=on("disk", "there"))
    nodes = node("n1", cpu="4"), node("n2", cpu="4", labels={"disk": "there"})
    data = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    old = job("old", 0, *running("old", 2), *pods("other", 4, "old", cpu="1", on="n2", phase="Running"), queue="q")
    for spec, victims in (({}, ["old-0"]), (data, ["other-0"])):
        mine = job("new", 1, *waiting("new", 1, spec=spec), priority="high", queue="q")
        objects = storage_class(), claim("data", volume="v"), there, capped, *nodes, *old, *mine
        assert evicted(*objects, conf=CONF.replace("proportion", "capacity")) == victims
