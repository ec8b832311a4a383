"""Pods without a PodGroup: their annotations and labels about devices and CPUs count as those of other pods do."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.devices import (
    NPU_CORE,
    annotated,
    atlas,
    card,
    configuration,
    vgpu,
    vgpu_node,
    with_limits,
)
from tests.scenario.scheduling.harness import World, labelled, node
from tests.scenario.scheduling.numa_nodes import CONF, fixed, numa_node
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.model.base import Manifest

IDS = "volcano.sh/vgpu-ids-new"
MINDCLUSTER = configuration(AscendMindClusterVNPUEnable=True)
VGPU = configuration(VGPUEnable=True)
CHIP = labelled(node("n1", **{NPU_CORE: "8"}), servertype="Ascend310P-8")


def single(made: Manifest) -> Manifest:
    """Return a pod as a pod of the default scheduler without a PodGroup."""
    made["spec"]["schedulerName"] = "default-scheduler"
    made["metadata"]["annotations"].pop("scheduling.k8s.io/group-name", None)
    return made


def single_pods(conf: str, *objects: Manifest) -> World:
    options = StateOptions(single_pod_schedulers=frozenset({"default-scheduler"}))
    return World(*objects, conf=conf, state=ClusterState(options)).run(2)


def test_pods_for_mindcluster_get_chips_while_there_are_some() -> None:
    pods = [single(atlas("a", 4)), single(atlas("b", 8))]
    world = single_pods(MINDCLUSTER, CHIP, node("n2", **{NPU_CORE: "8"}), *pods)
    assert [(bind.name, bind.node, bind.annotations[NPU_CORE]) for bind in world.requests] == [
        ("a", "n1", "0-vir04_3c")
    ]


def test_a_node_without_the_label_of_chips_gets_no_pod_for_mindcluster() -> None:
    assert single_pods(MINDCLUSTER, node("n1", **{NPU_CORE: "8"}), single(atlas("a", 4))).binds == {}


@pytest.mark.parametrize(
    ("annotations", "bound"),
    [
        ({}, ["p"]),
        ({"volcano.sh/vgpu-mode": "mig"}, []),
        ({"volcano.sh/vgpu-use-gpuuuid": "GPU-1"}, []),
        ({"nvidia.com/nouse-gputype": "A100"}, []),
    ],
)
def test_annotations_about_cards_are_read(annotations: dict[str, str], bound: list[str]) -> None:
    waiting = annotated(single(with_limits("p", vgpu(memory=1))), **annotations)
    world = single_pods(VGPU, vgpu_node("n1", card("GPU-0")), waiting)
    assert [bind.name for bind in world.requests if bind.annotations[IDS]] == bound


@pytest.mark.parametrize(("cpus", "binds"), [("4", {"p": "n"}), ("5", {})])
def test_a_policy_of_numa_nodes_is_read(cpus: str, binds: dict[str, str]) -> None:
    waiting = single(fixed("p", "", cpus, policy="single-numa-node"))
    assert single_pods(CONF, *numa_node("n"), waiting).binds == binds
