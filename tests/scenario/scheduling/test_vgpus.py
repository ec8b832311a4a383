"""vGPUs: which card a pod gets, as its annotations say; memory is in MiB, cores in percent of a card."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.scenario.scheduling.devices import (
    annotated,
    card,
    configuration,
    gpu_node,
    groups,
    holding,
    vgpu,
    vgpu_node,
    with_limits,
)
from tests.scenario.scheduling.harness import World, group, labelled, node, priority_class
from volcanoio.model.base import Manifest

IDS = "volcano.sh/vgpu-ids-new"
PLAIN = configuration(VGPUEnable=True)
BINPACK = configuration(VGPUEnable=True, SchedulePolicy="binpack", ScheduleWeight=10)
SPREAD = configuration(VGPUEnable=True, SchedulePolicy="spread", ScheduleWeight=10)
TWO = [vgpu_node("n1", card("GPU-0"), card("GPU-1"))]
USED = [*TWO, holding("old", "n1", "GPU-0,NVIDIA,10000,20:", vgpu(memory=10000, cores=20))]


def ids(*shares: str) -> str:
    """Return the annotation of one container: `GPU-0,4096,25` for each share."""
    parts = [share.split(",") for share in shares]
    return "".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid, memory, cores in parts)


def asking(name: str, *containers: dict[str, str], labels: dict[str, str] | None = None, **more: str) -> Manifest:
    """Return a waiting pod, `more` being annotations with `_` for `-` and without the domain volcano.sh."""
    annotations = {f"volcano.sh/{key.replace('_', '-')}": text for key, text in more.items()}
    return labelled(with_limits(name, *(containers or (vgpu(memory=4096),)), annotations=annotations), **(labels or {}))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A cluster with one waiting pod, and the cards it gets; none: why it waits."""

    name: str
    cluster: list[Manifest]
    pod: Manifest
    conf: str = PLAIN
    node: str = "n1"
    ids: str = ""
    why: str = ""
    others: dict[str, Any] = field(default_factory=dict)


def unfit(reason: str) -> str:
    return f"0/1 nodes are unavailable: 1 {reason}."


NOT_FITTED = unfit("not enough gpu fitted on this node")

CASES = [
    Case(name="the last card is taken first without a policy", cluster=TWO, pod=asking("p"), ids=ids("GPU-1,4096,0")),
    Case(name="binpack prefers the card with most memory in use", cluster=USED, pod=asking("p"), conf=BINPACK,
         ids=ids("GPU-0,4096,0")),
    Case(name="spread prefers the card with fewest pods", cluster=USED, pod=asking("p"), conf=SPREAD,
         ids=ids("GPU-1,4096,0")),
    Case(name="a number of cards gives each container so many different ones", cluster=TWO,
         pod=asking("p", vgpu(2, memory=4096, cores=10)), ids=ids("GPU-1,4096,10", "GPU-0,4096,10")),
    Case(name="containers are separated, and may share a card", cluster=[vgpu_node("n1", card("GPU-0"))],
         pod=asking("p", vgpu(memory=4096), vgpu(memory=2048, cores=5)),
         ids=ids("GPU-0,4096,0") + ";" + ids("GPU-0,2048,5")),
    Case(name="memory alone means one card", cluster=TWO, pod=asking("p", vgpu(0, memory=4096)),
         ids=ids("GPU-1,4096,0")),
    Case(name="a number alone means whole cards", cluster=TWO, pod=asking("p", vgpu(1)), ids=ids("GPU-1,40960,0")),
    Case(name="percent of the memory is computed for each card", cluster=TWO, pod=asking("p", vgpu(1, percentage=25)),
         ids=ids("GPU-1,10240,0")),
    Case(name="percent overrides an amount", cluster=TWO, pod=asking("p", vgpu(1, memory=4096, percentage=50)),
         ids=ids("GPU-1,20480,0")),
    Case(name="a card without enough memory is passed over", cluster=USED, conf=BINPACK,
         pod=asking("p", vgpu(memory=31000)), ids=ids("GPU-1,31000,0")),
    Case(name="cores of a card are 100 at most", cluster=USED, conf=BINPACK, pod=asking("p", vgpu(memory=1, cores=81)),
         ids=ids("GPU-1,1,81")),
    Case(name="all cores of a card are for one pod only", cluster=USED, conf=BINPACK,
         pod=asking("p", vgpu(memory=1, cores=100)), ids=ids("GPU-1,1,100")),
    Case(name="a pod without cores does not get a card whose cores are all taken",
         cluster=[vgpu_node("n1", card("GPU-0")), holding("old", "n1", "GPU-0,NVIDIA,1,100:")],
         pod=asking("p", vgpu(memory=1)), why=NOT_FITTED),
    Case(name="a card takes so many pods as it registers",
         cluster=[vgpu_node("n1", card("GPU-0", number=1), card("GPU-1", number=1)),
                  holding("old", "n1", "GPU-1,NVIDIA,1,0:")],
         pod=asking("p", vgpu(memory=1)), ids=ids("GPU-0,1,0")),
    Case(name="more cards than the node has", cluster=TWO, pod=asking("p", vgpu(3, memory=1)),
         why=unfit("no enough gpu cards on node")),
    Case(name="an unhealthy card is not used", cluster=[vgpu_node("n1", card("GPU-0"), card("GPU-1", healthy=False))],
         pod=asking("p"), ids=ids("GPU-0,4096,0")),
    Case(name="a card is allowed by its uuid", cluster=TWO, pod=asking("p", vgpu_use_gpuuuid="GPU-9, GPU-0"),
         ids=ids("GPU-0,4096,0")),
    Case(name="a card is excluded by its uuid", cluster=TWO, pod=asking("p", vgpu_nouse_gpuuuid="GPU-1"),
         ids=ids("GPU-0,4096,0")),
    Case(name="a card is allowed by a part of its type",
         cluster=[vgpu_node("n1", card("GPU-0"), card("GPU-1", type="NVIDIA-V100"))],
         pod=annotated(asking("p"), **{"nvidia.com/use-gputype": "a100,H100"}), ids=ids("GPU-0,4096,0")),
    Case(name="a card is excluded by a part of its type",
         cluster=[vgpu_node("n1", card("GPU-0"), card("GPU-1", type="NVIDIA-V100"))],
         pod=annotated(asking("p"), **{"nvidia.com/nouse-gputype": "V100"}), ids=ids("GPU-0,4096,0")),
    Case(name="a mode that no card of the node has", cluster=TWO, pod=asking("p", vgpu_mode="mig"),
         why=unfit("pod required sharing mode mig is not the same as the node mode hami-core")),
    Case(name="a node without registered cards", cluster=[node("n1", **vgpu(10, memory=4096))],
         pod=asking("p"), why=unfit("node not initialized with device hamivgpu")),
    Case(name="a node without memory of cards", cluster=[node("n1", **{"volcano.sh/vgpu-number": "10"})],
         pod=asking("p"), why=unfit("Insufficient volcano.sh/vgpu-memory")),
    Case(name="the node with fuller cards wins by binpack", conf=BINPACK,
         cluster=[vgpu_node("n1", card("GPU-0")), vgpu_node("n2", card("GPU-2")),
                  holding("old", "n2", "GPU-2,NVIDIA,100,0:")],
         pod=asking("p"), node="n2", ids=ids("GPU-2,4096,0")),
    Case(name="the node with an unused card wins by spread", conf=SPREAD,
         cluster=[vgpu_node("n1", card("GPU-0")), vgpu_node("n2", card("GPU-2")),
                  holding("old", "n1", "GPU-0,NVIDIA,100,0:")],
         pod=asking("p"), node="n2", ids=ids("GPU-2,4096,0")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cards_of_a_pod(case: Case) -> None:
    world = World(*case.cluster, *groups("p"), case.pod, conf=case.conf).run()
    decided = {bind.name: (bind.node, bind.annotations[IDS]) for bind in world.requests}
    assert decided == ({"p": (case.node, case.ids)} if case.ids else {})
    assert world.fit_error("p") == case.why


def test_all_that_the_device_plugin_reads_is_written() -> None:
    world = World(*TWO, *groups("p"), asking("p"), conf=PLAIN, now=1700000000.0).run()
    (bind,) = world.requests
    assert bind.annotations == {
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": "1700000000",
        "volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,4096,0:",
        "volcano.sh/devices-to-allocate": "GPU-1,NVIDIA,4096,0:",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1700000000",
    }


def test_a_gang_shares_cards_in_one_cycle_and_fills_them_exactly() -> None:
    members = [with_limits(f"p{at}", vgpu(memory=20480), job="pg") for at in range(5)]
    world = World(*TWO, group("pg", 4, phase="Inqueue"), *members, conf=PLAIN).run()
    assert sorted(bind.annotations[IDS] for bind in world.requests) == [
        *[ids("GPU-0,20480,0")] * 2,
        *[ids("GPU-1,20480,0")] * 2,
    ]
    assert world.fit_error("pg") == unfit("Insufficient volcano.sh/vgpu-memory")


def test_a_gang_that_does_not_fit_takes_no_card() -> None:
    members = [with_limits(f"p{at}", vgpu(memory=20480), job="pg") for at in range(5)]
    world = World(*TWO, group("pg", 5, phase="Inqueue"), *members, *groups("q"), asking("q", vgpu(2)), conf=PLAIN)
    assert {bind.name: bind.annotations[IDS] for bind in world.run().requests} == {
        "q": ids("GPU-1,40960,0", "GPU-0,40960,0")
    }


def test_pods_of_a_podgroup_are_spread_over_cards() -> None:
    spread = {"volcano.sh/vgpu-podgroup-policy": "spread"}
    members = [with_limits(f"p{at}", vgpu(memory=1), job="pg", annotations=spread) for at in range(3)]
    world = World(*TWO, group("pg", 1, phase="Inqueue"), *members, conf=PLAIN).run(2)
    assert [bind.annotations[IDS] for bind in world.requests] == [ids("GPU-1,1,0"), ids("GPU-0,1,0")]
    other = with_limits("q", vgpu(memory=1), annotations=spread)
    for manifest in (*groups("q"), other):
        world.put(manifest)
    world.run()
    assert world.requests[-1].annotations[IDS] == ids("GPU-1,1,0"), "other PodGroups may use the same card"


def test_pods_that_match_an_exclusive_rule_do_not_share_a_card_with_one_another() -> None:
    conf = configuration(VGPUEnable=True, GPUExclusiveRules=[{"app": "training", "team": "ml"}, {"app": "serving"}])
    training, serving = {"app": "training", "team": "ml"}, {"app": "serving"}
    waiting = [
        asking("a", vgpu(memory=1), labels=training),
        asking("b", vgpu(memory=1), labels=training),
        asking("c", vgpu(memory=1), labels=training),
        asking("d", vgpu(memory=1), labels=serving),
        asking("e", vgpu(memory=1), labels={"app": "training"}),
    ]
    world = World(*TWO, *groups("a", "b", "c", "d", "e"), *waiting, conf=conf).run(2)
    assert {bind.name: bind.annotations[IDS].partition(",")[0] for bind in world.requests} == {
        "a": "GPU-1", "b": "GPU-0", "d": "GPU-1", "e": "GPU-1",
    }  # fmt: skip


def test_cards_are_free_again_when_pods_end_or_binds_are_refused() -> None:
    one = [vgpu_node("n1", card("GPU-0"))]
    world = World(*one, *groups("a", "b"), asking("a", vgpu()), asking("b", vgpu()), conf=PLAIN)
    world.cycle()
    world.echo(refuse={"a": 409})
    world.run()
    assert [bind.name for bind in world.requests] == ["a", "a"]
    world.set_pod("a", phase="Succeeded")
    world.run()
    assert world.requests[-1].name == "b"
    assert world.requests[-1].annotations[IDS] == ids("GPU-0,40960,0")


def test_a_new_process_reads_the_cards_from_the_pods() -> None:
    first = World(*TWO, *groups("a"), asking("a", vgpu()), conf=PLAIN).run()
    second = World(*TWO, *groups("a", "b", "c"), conf=PLAIN)
    for manifest in (first.pod("a"), asking("b", vgpu()), asking("c", vgpu())):
        second.put(manifest)
    assert {bind.name: bind.annotations[IDS] for bind in second.run().requests} == {"b": ids("GPU-0,40960,0")}


def test_a_pod_waits_on_the_node_for_a_card_of_a_terminating_pod() -> None:
    cluster = [vgpu_node("n1", card("GPU-0")), holding("old", "n1", "GPU-0,NVIDIA,40960,0:")]
    world = World(*cluster, *groups("p"), asking("p", vgpu()), conf=PLAIN)
    world.set_pod("old", deleting=True)
    assert world.run().pipelines == {"p": "n1"}
    assert world.binds == {}
    world.remove_terminating_pods()
    assert world.run().binds == {"p": "n1"}


def test_memory_and_cores_count_for_each_card() -> None:
    """Two cards of 20 GiB for each pod are 40 GiB, though the sum of limits is 20 GiB."""
    pods = [asking(name, vgpu(2, memory=20480, cores=50)) for name in ("a", "b", "c")]
    world = World(*TWO, *groups("a", "b", "c"), *pods, conf=PLAIN).run()
    assert sorted(world.binds) == ["a", "b"]
    requests = world.state.ledger.tasks["ns-a"].shape.requests
    assert {name: amount // 1000 for name, amount in requests.items() if "vgpu" in name} == {
        "volcano.sh/vgpu-number": 2,
        "volcano.sh/vgpu-memory": 40960,
        "volcano.sh/vgpu-cores": 100,
    }


def test_a_preemptor_gets_the_card_of_its_victim() -> None:
    conf = configuration(VGPUEnable=True).replace('"gang"', '"priority"}, {"name": "gang"}, {"name": "conformance"')
    conf = conf.replace("enqueue, allocate, backfill", "allocate, preempt")
    low, high = group("low", 0, phase="Running"), group("high", 1, phase="Inqueue", priorityClassName="high")
    old = holding("old", "n1", "GPU-0,NVIDIA,40960,0:", vgpu(), job="low")
    new = asking("high", vgpu())
    new["spec"]["priority"] = 100
    world = World(vgpu_node("n1", card("GPU-0")), priority_class("high", 100), low, old, high, new, conf=conf)
    world.run()
    assert (world.evictions, world.binds, world.pipelines) == (["old"], {}, {"high": "n1"})
    world.run(2)
    assert (world.evictions, world.binds) == (["old"], {}), "nothing more is evicted while the victim terminates"
    world.remove_terminating_pods()
    world.run()
    assert world.requests[-1].annotations[IDS] == ids("GPU-0,40960,0")


def test_nodes_of_gpu_sharing_are_not_for_vgpus() -> None:
    world = World(gpu_node("n1", 2, 100), *groups("p"), asking("p"), conf=PLAIN).run()
    assert world.fit_error("p") == unfit("Insufficient volcano.sh/vgpu-memory")
