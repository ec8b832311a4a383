"""Node locks: one pod at a time gets devices of a node, until its device plugin removes the lock."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.devices import (
    annotated,
    card,
    configuration,
    groups,
    npu,
    npu_node,
    vgpu,
    vgpu_node,
    with_limits,
)
from tests.scenario.scheduling.harness import World, group
from volcanoio.model.base import Manifest

VGPU = configuration(VGPUEnable=True, NodeLockEnable=True)
NPU = configuration(AscendHAMiVNPUEnable=True, NodeLockEnable=True)
CARDS, CHIPS = vgpu_node("n1", card("GPU-0")), npu_node({"id": "A"})
SMALL, PART = vgpu(memory=1), npu(1, 3072)


def lock(name: str, text: str | None) -> Manifest:
    return {"metadata": {"annotations": {name: text}}}


@pytest.mark.parametrize(
    ("conf", "cluster", "limits", "name", "value"),
    [
        (VGPU, CARDS, SMALL, "hamivgpu", "1970-01-01T00:16:40Z"),
        (NPU, CHIPS, PART, "hami.io/mutex.lock", "1970-01-01T00:16:40Z,ns,a"),
    ],
)
def test_a_node_is_locked_until_the_device_plugin_unlocks_it(
    conf: str, cluster: Manifest, limits: dict[str, str], name: str, value: str
) -> None:
    world = World(cluster, *groups("a", "b"), *[with_limits(each, limits) for each in "ab"], conf=conf).run()
    assert list(world.binds) == ["a"]
    (step,) = world.requests[0].prebind
    assert (step.before, step.patch, step.undo) == (lock(name, None), lock(name, value), lock(name, None))
    kind = "hamivgpu" if conf == VGPU else "Ascend310P"
    reason = f"0/1 nodes are unavailable: 1 node has been locked within 5 minutes for {kind}."
    assert world.run().fit_error("b") == reason
    world.put(cluster)
    assert list(world.run().binds) == ["a", "b"]


@pytest.mark.parametrize(
    ("conf", "cluster", "limits", "name", "value"),
    [
        (VGPU, CARDS, SMALL, "hamivgpu", "1970-01-01T00:16:00Z"),  # 40 seconds before
        (NPU, CHIPS, PART, "hami.io/mutex.lock", "1970-01-01T00:16:00Z,other,pod"),
    ],
)
def test_a_lock_expires_after_five_minutes_and_is_replaced_only_if_it_is_unchanged(
    conf: str, cluster: Manifest, limits: dict[str, str], name: str, value: str
) -> None:
    locked = {**cluster, "metadata": {**cluster["metadata"], "annotations": dict(cluster["metadata"]["annotations"])}}
    world = World(annotated(locked, **{name: value}), *groups("p"), with_limits("p", limits), conf=conf)
    assert world.run().binds == {}
    world.now = 16 * 60 + 301.0
    assert world.run().binds == {"p": "n1"}
    assert world.requests[0].prebind[0].before == lock(name, value)


def test_nodes_are_not_locked_unless_that_is_configured() -> None:
    world = World(CHIPS, *groups("a", "b"), *[with_limits(each, PART) for each in "ab"],
                  conf=configuration(AscendHAMiVNPUEnable=True)).run()  # fmt: skip
    assert {bind.name: bind.prebind for bind in world.requests} == {"a": (), "b": ()}


def test_chips_of_one_node_share_its_lock() -> None:
    """HAMi has one lock for all devices of a node: a pod with chips of another kind waits, too."""
    conf = configuration(AscendHAMiVNPUEnable=True, NodeLockEnable=True)
    described = "{commonWord: %s, resourceName: huawei.com/%s, memoryAllocatable: 21527, memoryCapacity: 24576}"
    config: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-vgpu-device-config", "namespace": "kube-system", "uid": "cards"},
        "data": {"device-config.yaml": f"vnpus: [{', '.join(described % (chip, chip) for chip in 'XY')}]"},
    }
    both, other = npu_node({"id": "A"}, chip="X"), npu_node({"id": "B"}, chip="Y")
    both["metadata"]["annotations"].update(other["metadata"]["annotations"])
    both["status"]["allocatable"].update(other["status"]["allocatable"])
    pods = [with_limits("a", npu(chip="Y")), with_limits("b", npu(chip="X"))]
    assert list(World(config, both, *groups("a", "b"), *pods, conf=conf).run().binds) == ["a"]


@pytest.mark.parametrize(
    ("conf", "nodes", "limits", "room"),
    [
        (VGPU, [vgpu_node(name, card(f"GPU-{name}")) for name in ("n1", "n2")], vgpu(memory=20480), 4),
        (NPU, [CHIPS], PART, 7),
    ],
)
def test_a_gang_gets_several_pods_to_a_node_whose_binds_follow_one_another(
    conf: str, nodes: list[Manifest], limits: dict[str, str], room: int
) -> None:
    members = [with_limits(f"p{at}", limits, job="pg") for at in range(room)]
    world = World(*nodes, group("pg", room, phase="Inqueue"), *members, conf=conf).run()
    assert world.batches == [[f"p{at}" for at in range(room)]]
    assert all(bind.prebind for bind in world.requests)


def test_other_pods_wait_for_all_binds_of_a_gang() -> None:
    gang = [group("pg", 2, phase="Inqueue"), *[with_limits(f"p{at}", SMALL, job="pg") for at in range(2)]]
    world = World(CARDS, *gang, *groups("q"), with_limits("q", SMALL), conf=VGPU)
    world.cycle()
    world.put(CARDS)  # the first lock was released, the second is not written yet
    world.cycle()
    assert "q" not in world.binds


def test_a_node_that_is_locked_already_gets_no_gang() -> None:
    gang = [group("pg", 2, phase="Inqueue"), *[with_limits(f"p{at}", SMALL, job="pg") for at in range(2)]]
    locked = annotated(vgpu_node("n1", card("GPU-0")), hamivgpu="1970-01-01T00:16:30Z")
    assert World(locked, *gang, conf=VGPU).run().binds == {}
