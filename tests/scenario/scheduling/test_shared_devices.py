"""GPU sharing, MIG and NPUs: which devices a pod gets, as its annotations say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.scenario.scheduling.devices import (
    ATLAS,
    atlas,
    card,
    configuration,
    gpu_node,
    groups,
    holding,
    npu,
    npu_node,
    vgpu,
    vgpu_node,
    with_limits,
)
from tests.scenario.scheduling.harness import World, group, labelled, node
from volcanoio.model.base import Manifest

BY_MEMORY, BY_NUMBER = configuration(GPUSharingEnable=True), configuration(GPUNumberEnable=True)
VGPU, NPU = configuration(VGPUEnable=True), configuration(AscendHAMiVNPUEnable=True)
MINDCLUSTER = configuration(AscendMindClusterVNPUEnable=True)
GPU_INDEX, NPU_CORE = "volcano.sh/gpu-index", "huawei.com/npu-core"


def memory(amount: int) -> dict[str, str]:
    return {"volcano.sh/gpu-memory": str(amount)}


def number(count: int) -> dict[str, str]:
    return {"volcano.sh/gpu-number": str(count)}


def sharing(name: str, index: str, limits: dict[str, str]) -> Manifest:
    """Return a running pod with GPUs."""
    return with_limits(name, limits, on="n1", phase="Running", annotations={GPU_INDEX: index})


MIG_CONFIG = """
nvidia:
  knownMigGeometries:
  - models: [A30]
    allowedGeometries:
    - group: group1
      geometries: [{name: 1g.6gb, memory: 6144, count: 4}]
    - group: group2
      geometries: [{name: 2g.12gb, memory: 12288, count: 1}, {name: 1g.6gb, memory: 6144, count: 2}]
    - group: group3
      geometries: [{name: 4g.24gb, memory: 24576, count: 1}]
"""


def described(text: str) -> Manifest:
    """Return the ConfigMap that describes cards."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-vgpu-device-config", "namespace": "kube-system", "uid": "cards"},
        "data": {"device-config.yaml": text},
    }


MIG = [described(MIG_CONFIG), vgpu_node("n1", card("GPU-0", memory=24576, type="NVIDIA-A30", mode="mig"))]


def divided(ids: str) -> Manifest:
    return holding("old", "n1", ids, vgpu(memory=1))


def holding_npu(text: str) -> Manifest:
    annotations = {"hami.io/Ascend310P-devices-allocated": text}
    return with_limits("old", npu(1, 3072), on="n1", phase="Running", annotations=annotations)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A cluster with one waiting pod, and an annotation that it gets; without: why it waits."""

    name: str
    conf: str
    cluster: list[Manifest]
    pod: Manifest
    gets: Mapping[str, str] | None = None
    why: str = ""


def unfit(reason: str) -> str:
    return f"0/1 nodes are unavailable: 1 {reason}."


def case(name: str, conf: str, cluster: list[Manifest], pod: Manifest, gets: Any) -> Case:
    """Return a case; a text as the result is the reason."""
    if isinstance(gets, str):
        return Case(name=name, conf=conf, cluster=cluster, pod=pod, why=unfit(gets))
    return Case(name=name, conf=conf, cluster=cluster, pod=pod, gets=gets)


TWO_GPUS = gpu_node("n1", 2, 100)
NO_MEMORY, NO_CARDS = "GpuShare no enough gpu memory on node", "GpuNumber no enough gpu number on node"
CHIPS = npu_node({"id": "A"}, {"id": "B"})
NETWORKED = npu_node(
    *[{"id": f"N{at}", "devmem": 65536, "custominfo": {"NetworkID": at % 2}} for at in range(5)], chip="Ascend910B"
)
NPU_CONFIG = """
vnpus:
  configs:
  - {commonWord: Ascend910B, chipName: 910B, resourceName: huawei.com/Ascend910B, memoryAllocatable: 65536,
     resourceMemoryName: huawei.com/Ascend910B-memory, memoryCapacity: 65536, aiCore: 20, aiCPU: 7,
     templates: [{name: vir05, memory: 16384, aiCore: 5}, {name: vir10, memory: 32768, aiCore: 10}]}
"""
CASES = [
    case("memory is taken from the first GPU with enough", BY_MEMORY, [TWO_GPUS, sharing("old", "0", memory(60))],
         with_limits("p", memory(50)), {GPU_INDEX: "1"}),
    case("a GPU is filled up before the next one", BY_MEMORY, [TWO_GPUS, sharing("old", "0", memory(60))],
         with_limits("p", memory(40)), {GPU_INDEX: "0"}),
    case("memory of several GPUs does not add up", BY_MEMORY,
         [TWO_GPUS, sharing("old", "0", memory(60)), sharing("older", "1", memory(60))],
         with_limits("p", memory(50)), NO_MEMORY),
    case("containers of a pod share one GPU", BY_MEMORY, [TWO_GPUS, sharing("old", "0", memory(60))],
         with_limits("p", memory(20), memory(30)), {GPU_INDEX: "1"}),
    case("unhealthy GPUs are not used", BY_MEMORY, [gpu_node("n1", 2, 100, **{"volcano.sh/gpu-unhealthy-ids": "0"})],
         with_limits("p", memory(1)), {GPU_INDEX: "1"}),
    case("a number gives whole unused GPUs", BY_NUMBER, [gpu_node("n1", 4, 100), sharing("old", "1", number(1))],
         with_limits("p", number(2)), {GPU_INDEX: "0,2"}),
    case("too few unused GPUs", BY_NUMBER,
         [gpu_node("n1", 3, 100, **{"volcano.sh/gpu-unhealthy-ids": "2"}), sharing("old", "1", number(1))],
         with_limits("p", number(2)), NO_CARDS),
    case("the first geometry with a large enough instance is taken", VGPU, MIG, with_limits("p", vgpu(memory=6000)),
         {"volcano.sh/vgpu-ids-new": "GPU-0[group1-0],NVIDIA,6000,0:"}),
    case("an unused card is divided as the pod needs it", VGPU, MIG, with_limits("p", vgpu(memory=8000)),
         {"volcano.sh/vgpu-ids-new": "GPU-0[group2-0],NVIDIA,8000,0:"}),
    case("a used card keeps its geometry, and its smallest free instance is taken", VGPU,
         [*MIG, divided("GPU-0[group2-1],NVIDIA,5000,0:")], with_limits("p", vgpu(memory=1000)),
         {"volcano.sh/vgpu-ids-new": "GPU-0[group2-2],NVIDIA,1000,0:"}),
    case("a larger instance is taken when the small ones are in use", VGPU,
         [*MIG, divided("GPU-0[group2-1],NVIDIA,1,0:GPU-0[group2-2],NVIDIA,1,0:")], with_limits("p", vgpu(memory=1000)),
         {"volcano.sh/vgpu-ids-new": "GPU-0[group2-0],NVIDIA,1000,0:"}),
    case("a geometry in use has no instance of that size", VGPU, [*MIG, divided("GPU-0[group1-0],NVIDIA,5000,0:")],
         with_limits("p", vgpu(memory=8000)), "not enough gpu fitted on this node"),
    case("all of an instance's memory counts", VGPU, [*MIG, divided("GPU-0[group3-0],NVIDIA,1,0:")],
         with_limits("p", vgpu(memory=1)), "not enough gpu fitted on this node"),
    case("a pod may ask for the mode", VGPU, MIG,
         with_limits("p", vgpu(memory=1), annotations={"volcano.sh/vgpu-mode": "mig"}),
         {"volcano.sh/vgpu-ids-new": "GPU-0[group1-0],NVIDIA,1,0:"}),
    case("cards of a model without geometries are shared by hami-core", VGPU,
         [described(MIG_CONFIG), vgpu_node("n1", card("GPU-0", mode="mig"))], with_limits("p", vgpu(memory=1)),
         {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1,0:"}),
    case("a unit of memory may stand for several MiB", VGPU,
         [described(MIG_CONFIG.replace("nvidia:", "nvidia:\n  gpuMemoryFactor: 1024")),
          vgpu_node("n1", card("GPU-0", memory=24, type="NVIDIA-A30", mode="mig"))],
         with_limits("p", vgpu(memory=12)), {"volcano.sh/vgpu-ids-new": "GPU-0[group2-0],NVIDIA,12,0:"}),
    case("a ConfigMap that cannot be read is named", VGPU, [described("nvidia: {knownMigGeometries: 7}"), MIG[1]],
         with_limits("p", vgpu(memory=1)),
         "ConfigMap kube-system/volcano-vgpu-device-config, key device-config.yaml: Expected `array`, got `int` - at "
         "`$.nvidia.knownMigGeometries`; fix it, or delete the ConfigMap for the defaults"),
    case("memory of an NPU is rounded up to a template's", NPU, [CHIPS], with_limits("p", npu(1, 4000)),
         {"hami.io/Ascend310P-devices-to-allocate": "A,Ascend310P,6144,0:;",
          "hami.io/Ascend310P-devices-allocated": "A,Ascend310P,6144,0:;",
          "huawei.com/Ascend310P": '[{"UUID":"A","temp":"vir02"}]', "hami.io/bind-phase": "allocating"}),
    case("an NPU without memory is a whole one", NPU, [CHIPS, holding_npu("A,Ascend310P,3072,0:;")],
         with_limits("p", npu(1)), {"huawei.com/Ascend310P": '[{"UUID":"B"}]'}),
    case("several NPUs are whole ones", NPU, [CHIPS], with_limits("p", npu(2, 3072)),
         "vNPU does not support partial memory allocation when requesting multiple devices"),
    case("containers get different NPUs", NPU, [CHIPS], with_limits("p", npu(1, 3072), npu(1, 3072)),
         {"hami.io/Ascend310P-devices-allocated": "A,Ascend310P,3072,0:;B,Ascend310P,3072,0:;"}),
    case("binpack fills an NPU that is in use",
         configuration(AscendHAMiVNPUEnable=True, SchedulePolicy="binpack", ScheduleWeight=1),
         [CHIPS, holding_npu("B,Ascend310P,3072,0:;")], with_limits("p", npu(1, 3072)),
         {"huawei.com/Ascend310P": '[{"UUID":"B","temp":"vir01"}]'}),
    case("spread takes an unused NPU",
         configuration(AscendHAMiVNPUEnable=True, SchedulePolicy="spread", ScheduleWeight=1),
         [CHIPS, holding_npu("A,Ascend310P,3072,0:;")], with_limits("p", npu(1, 3072)),
         {"huawei.com/Ascend310P": '[{"UUID":"B","temp":"vir01"}]'}),
    case("an unhealthy NPU is not used", NPU, [npu_node({"id": "A", "health": False}, {"id": "B"})],
         with_limits("p", npu(1, 3072)), {"huawei.com/Ascend310P": '[{"UUID":"B","temp":"vir01"}]'}),
    case("NPUs of one network are taken together", NPU, [described(NPU_CONFIG), NETWORKED],
         with_limits("p", npu(3, chip="Ascend910B")),
         {"huawei.com/Ascend910B": '[{"UUID":"N0"},{"UUID":"N2"},{"UUID":"N4"}]'}),
    case("a virtual NPU of low level by default", MINDCLUSTER, [ATLAS], atlas("p", 4), {NPU_CORE: "0-vir04_3c"}),
    case("a virtual NPU of high level", MINDCLUSTER, [ATLAS], atlas("p", 4, **{"vnpu-level": "high"}),
         {NPU_CORE: "0-vir04"}),
    case("a virtual NPU with a video unit", MINDCLUSTER, [ATLAS], atlas("p", 4, **{"vnpu-dvpp": "yes"}),
         {NPU_CORE: "0-vir04_4c_dvpp"}),
    case("the chip with least room is taken", MINDCLUSTER, [ATLAS, atlas("old", 4, "n1", "1-vir04_3c", "Ascend310P-1")],
         atlas("p", 1), {NPU_CORE: "1-vir01"}),
    case("a chip's video unit is for one virtual NPU only", MINDCLUSTER,
         [ATLAS, atlas("old", 4, "n1", "0-vir04_4c_dvpp", "Ascend310P-0")],
         atlas("p", 2), {NPU_CORE: "1-vir02_1c"}),
    case("a video unit is taken whole from a chip where no pod uses it", MINDCLUSTER,
         [ATLAS, atlas("old", 4, "n1", "0-vir04_3c", "Ascend310P-0")],
         atlas("p", 4, **{"vnpu-dvpp": "yes"}), {NPU_CORE: "1-vir04_4c_dvpp"}),
    case("pods that do without the video unit leave it to others", MINDCLUSTER,
         [ATLAS, atlas("old", 4, "n1", "0-vir04_3c_ndvpp", "Ascend310P-0")],
         atlas("p", 4, **{"vnpu-dvpp": "yes"}), {NPU_CORE: "0-vir04_4c_dvpp"}),
    case("fewer AI CPUs are used where they do not suffice", MINDCLUSTER,
         [labelled(node("n1", **{NPU_CORE: "8"}), servertype="Ascend310P-8"),
          atlas("old", 4, "n1", "0-vir04", "Ascend310P-0", **{"vnpu-level": "high"})],
         atlas("p", 4, **{"vnpu-level": "high"}), {NPU_CORE: "0-vir04_3c"}),
    case("whole chips must be unused", MINDCLUSTER, [ATLAS, atlas("old", 1, "n1", "0-vir01", "Ascend310P-0")],
         atlas("p", 8), {NPU_CORE: "1"}),
    case("several whole chips", MINDCLUSTER, [ATLAS], atlas("p", 16), {NPU_CORE: "0,1"}),
    case("one template at a time while the device plugin creates virtual NPUs", MINDCLUSTER,
         [ATLAS, atlas("old", 4, "n1", "0-vir04_3c")], atlas("p", 1),
         "node is creating a virtual NPU of another template"),
    case("no template has so many AI cores", MINDCLUSTER, [ATLAS], atlas("p", 3),
         "huawei.com/npu-core must be 1, 2, 4 or a multiple of a chip's AI cores"),
]  # fmt: skip


@pytest.mark.parametrize("one", CASES, ids=[one.name for one in CASES])
def test_devices_of_a_pod(one: Case) -> None:
    world = World(*one.cluster, *groups("p"), one.pod, conf=one.conf).run()
    decided = {bind.name: {key: bind.annotations.get(key) for key in one.gets or ()} for bind in world.requests}
    assert decided == ({} if one.gets is None else {"p": one.gets})
    assert world.fit_error("p") == one.why


def test_times_of_gpu_sharing_and_npus_are_in_nanoseconds_and_seconds() -> None:
    world = World(TWO_GPUS, *groups("p"), with_limits("p", memory(1)), conf=BY_MEMORY, now=1700000000.0).run()
    assert world.requests[0].annotations == {GPU_INDEX: "0", "volcano.sh/predicate-time": "1700000000000000000"}
    world = World(CHIPS, *groups("p"), with_limits("p", npu(1)), conf=NPU, now=1700000000.0).run()
    times = ("predicate-time", "hami.io/vgpu-time", "hami.io/bind-time", "hami.io/vgpu-node")
    assert [world.requests[0].annotations[key] for key in times] == [*["1700000000"] * 3, "n1"]


CARDS = vgpu_node("n1", card("GPU-0"))


def test_gauges_of_vgpus_follow_the_pods() -> None:
    class Gauges(dict[Any, float]):
        def gauge(self, name: str, value: float, **labels: str) -> None:
            self[name, *sorted(labels.values())] = value

        def forget(self, name: str, **labels: str) -> None:
            del self[name, *sorted(labels.values())]

        def count(self, name: str, amount: float = 1.0, **labels: str) -> None: ...

        def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None: ...

    world = World(CARDS, *groups("p"), with_limits("p", vgpu(memory=4096, cores=30)), conf=VGPU).run()
    (plugin,) = [one.plugin for tier in world.profile.tiers for one in tier if one.plugin.name == "deviceshare"]
    gauges, prefix = Gauges(), "volcano_vgpu_device_"
    list(plugin.report(gauges))  # type: ignore[attr-defined]
    on_card = {"shared_number": 1.0, "allocated_memory": 4096.0, "allocated_cores": 30.0, "memory_limit": 40960.0}
    of_pod = {"memory_allocation_for_a_certain_pod": 4096.0, "core_allocation_for_a_certain_pod": 30.0}
    expected: dict[Any, float] = {(prefix + name, "GPU-0", "n1"): value for name, value in on_card.items()}
    expected |= {(prefix + name, "GPU-0", "n1", "p"): value for name, value in of_pod.items()}
    assert gauges == expected
    world.set_pod("p", phase="Succeeded")
    world.run()
    list(plugin.report(gauges))  # type: ignore[attr-defined]
    free = {"shared_number": 0.0, "allocated_memory": 0.0, "allocated_cores": 0.0, "memory_limit": 40960.0}
    assert gauges == {(prefix + name, "GPU-0", "n1"): value for name, value in free.items()}


def test_without_a_mode_devices_are_plain_amounts() -> None:
    world = World(CARDS, *groups("p"), with_limits("p", vgpu(memory=1)), conf=configuration()).run()
    assert (world.binds, world.requests[0].annotations) == ({"p": "n1"}, {})


@pytest.mark.parametrize("gpus", [{"GPUSharingEnable": True}, {"GPUNumberEnable": True}])
def test_a_gang_over_several_nodes_gets_gpus_on_each(gpus: dict[str, bool]) -> None:
    limits = memory(100) if "GPUSharingEnable" in gpus else number(1)
    members = [with_limits(f"p{at}", limits, job="pg") for at in range(4)]
    nodes = [gpu_node("n1", 2, 100), gpu_node("n2", 2, 100)]
    world = World(*nodes, group("pg", 4, phase="Inqueue"), *members, conf=configuration(**gpus)).run()
    assert sorted((bind.node, bind.annotations[GPU_INDEX]) for bind in world.requests) == [
        ("n1", "0"), ("n1", "1"), ("n2", "0"), ("n2", "1"),
    ]  # fmt: skip


def test_a_chip_that_the_config_map_describes_later_is_used() -> None:
    pods = [with_limits(name, npu(1, 10000, chip="Ascend910B")) for name in "ab"]
    world = World(NETWORKED, *groups("a"), pods[0], conf=NPU).run()
    assert (world.binds, world.requests[0].annotations) == ({"a": "n1"}, {}), "without a description a plain amount"
    for manifest in (described(NPU_CONFIG), *groups("b"), pods[1]):
        world.put(manifest)
    world.run()
    assert world.requests[-1].annotations["huawei.com/Ascend910B"] == '[{"UUID":"N0","temp":"vir05"}]'
