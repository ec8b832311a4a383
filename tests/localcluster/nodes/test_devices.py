"""Devices of simulated nodes: what they register, which choices of a scheduler they refuse, and what they write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.localcluster.nodes.cluster import cluster
from volcanoio.localcluster.nodes.devices import DeviceManager, NodeDevicesError, parse_node_devices, register
from volcanoio.localcluster.nodes.hollow import uniform_fleet
from volcanoio.model.core import Pod

IDS = "volcano.sh/vgpu-ids-new"


def test_devices_are_registered_as_their_plugins_do() -> None:
    shown = register(parse_node_devices("vgpu=2, memory=100, split=3, type=NVIDIA A30, mode=mig; mindcluster=2"), "n")
    assert shown.resources == {
        "volcano.sh/vgpu-number": "6",
        "volcano.sh/vgpu-memory": "200",
        "volcano.sh/vgpu-cores": "200",
        "huawei.com/npu-core": "16",
    }
    assert shown.annotations == {
        "volcano.sh/node-vgpu-register": "GPU-n-0,3,100,NVIDIA A30,true,mig:GPU-n-1,3,100,NVIDIA A30,true,mig:"
    }
    assert shown.labels == {"servertype": "Ascend310P-8"}
    npus = register(parse_node_devices("npu=1"), "n")
    assert npus.resources == {"huawei.com/Ascend310P": "7"}
    assert npus.annotations["hami.io/node-register-Ascend310P"].startswith('[{"id":"Ascend310P-n-0","index":0')
    assert register(parse_node_devices("gpu=2,memory=8"), "n").resources == {
        "volcano.sh/gpu-number": "2",
        "volcano.sh/gpu-memory": "16",
    }


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("fpga=1", "'fpga' is no kind of devices; valid values: gpu, vgpu, npu, mindcluster"),
        ("vgpu", "count must be a whole number greater than 0, not ''"),
        ("vgpu=0", "count must be a whole number greater than 0, not '0'"),
        ("vgpu=1,memory=4Gi", "memory must be a whole number greater than 0, not '4Gi'"),
        ("vgpu=1,colour=red", "colour=red is no field; give memory, split, cores, type, or mode=hami-core|mig"),
        ("npu=1; npu=2", "npu is given 2 times; give each kind once, all its devices are alike"),
        ("vgpu=1,mode=mps", "mode=mps is no field; give memory, split, cores, type, or mode=hami-core|mig"),
    ],
)
def test_wrong_devices_are_explained(text: str, rule: str) -> None:
    with pytest.raises(NodeDevicesError) as caught:
        parse_node_devices(text)
    assert str(caught.value).startswith(f"--node-devices: '{text}': {rule}; write for example ")


def pod(uid: str, limits: dict[str, str], **annotations: str) -> Pod:
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    return msgspec.convert({"metadata": {"name": uid, "uid": uid, "annotations": annotations}, "spec": spec}, Pod)


def vgpu(uid: str, ids: str) -> Pod:
    return pod(uid, {"volcano.sh/vgpu-number": "1"}, **{IDS: ids})


def by_memory(uid: str, ids: str = "") -> Pod:
    """Return a pod that asks for memory alone: one vGPU."""
    return pod(uid, {"volcano.sh/vgpu-memory": "6"}, **({IDS: ids} if ids else {}))


def mindcluster(uid: str, core: str) -> Pod:
    return pod(uid, {"huawei.com/npu-core": "1"}, **{"huawei.com/npu-core": core})


def gpu(uid: str, memory: str, index: str) -> Pod:
    limits = {"volcano.sh/gpu-memory": memory} if memory else {"volcano.sh/gpu-number": "1"}
    return pod(uid, limits, **{"volcano.sh/gpu-index": index})


def npu(uid: str, ids: str) -> Pod:
    return pod(uid, {"huawei.com/Ascend310P": "1"}, **{"hami.io/Ascend310P-devices-allocated": ids})


@pytest.mark.parametrize(
    ("devices", "first", "second", "fault"),
    [
        ("vgpu=1", None, pod("b", {"volcano.sh/vgpu-number": "1"}), "no vgpu is named by the pod's annotations"),
        ("vgpu=1", None, vgpu("b", "GPU-7,NVIDIA,1,0:"), "GPU-7 is no vgpu of this node"),
        ("vgpu=1,memory=10", vgpu("a", "GPU-n-0,NVIDIA,6,0:"), vgpu("b", "GPU-n-0,NVIDIA,5,0:"),
         "GPU-n-0 has memory 10, used 6, and 5 more are asked for"),
        ("vgpu=1", vgpu("a", "GPU-n-0,NVIDIA,1,60:"), vgpu("b", "GPU-n-0,NVIDIA,1,50:"),
         "GPU-n-0 has cores 100, used 60, and 50 more are asked for"),
        ("vgpu=1,split=1", vgpu("a", "GPU-n-0,NVIDIA,1,0:"), vgpu("b", "GPU-n-0,NVIDIA,1,0:"),
         "GPU-n-0 is shared by 1 pods already"),
        ("vgpu=1,mode=mig", vgpu("a", "GPU-n-0[g1-0],NVIDIA,1,0:"), vgpu("b", "GPU-n-0[g1-0],NVIDIA,1,0:"),
         "GPU-n-0 has its instance g1-0 in use"),
        ("vgpu=1,mode=mig", vgpu("a", "GPU-n-0[g1-0],NVIDIA,1,0:"), vgpu("b", "GPU-n-0[g2-1],NVIDIA,1,0:"),
         "GPU-n-0 cannot be divided by several geometries: g1, g2"),
        ("gpu=1,memory=10", gpu("a", "6", "0"), gpu("b", "5", "0"),
         "0 has memory 10, used 6, and 5 more are asked for"),
        ("gpu=1", gpu("a", "", "0"), gpu("b", "", "0"), "0 is used by another pod"),
        ("npu=1,memory=10", npu("a", "Ascend310P-n-0,Ascend310P,6,0:;"), npu("b", "Ascend310P-n-0,Ascend310P,5,0:;"),
         "Ascend310P-n-0 has memory 10, used 6, and 5 more are asked for"),
        ("mindcluster=1", mindcluster("a", "0-vir04"), mindcluster("b", "0-vir04"),
         "0 has cpus 7, used 4, and 4 more are asked for"),
        ("mindcluster=1", mindcluster("a", "0-vir04"), mindcluster("b", "0"), "0 is used by another pod"),
        ("vgpu=1", None, by_memory("b"), "no vgpu is named by the pod's annotations"),
        ("vgpu=1,memory=10", by_memory("a", "GPU-n-0,NVIDIA,6,0:"), by_memory("b", "GPU-n-0,NVIDIA,6,0:"),
         "GPU-n-0 has memory 10, used 6, and 6 more are asked for"),
        ("npu=1", None, pod("b", {"huawei.com/Ascend310P-memory": "6"}), "no npu is named by the pod's annotations"),
        ("gpu=1", None, pod("b", {"volcano.sh/gpu-memory": "6"}), "no gpu is named by the pod's annotations"),
        ("vgpu=2", None, pod("b", {"volcano.sh/vgpu-number": "2"}, **{IDS: "GPU-n-0,NVIDIA,6,0:"}),
         "device number not matched: 2 asked for, 1 named by the pod's annotations"),
        ("mindcluster=2", None, pod("b", {"huawei.com/npu-core": "16"}, **{"huawei.com/npu-core": "0"}),
         "device number not matched: 2 asked for, 1 named by the pod's annotations"),
    ],
)  # fmt: skip
def test_a_wrong_choice_is_refused_until_the_first_pod_ends(
    devices: str, first: Pod | None, second: Pod, fault: str
) -> None:
    manager = DeviceManager("n", parse_node_devices(devices))
    assert first is None or manager.admit(first) is None
    refusal = manager.admit(second)
    assert refusal is not None
    assert refusal.reason == "UnexpectedAdmissionError"
    expected = f"Allocate failed due to rpc error: code = Unknown desc = {fault}, which is unexpected"
    assert refusal.message == expected
    if first is not None:
        manager.release("a")
        assert manager.admit(second) is None


def test_pods_of_an_earlier_process_keep_their_devices() -> None:
    manager = DeviceManager("n", parse_node_devices("vgpu=1,memory=10"))
    manager.restore(vgpu("a", "GPU-n-0,NVIDIA,10,0:"))
    assert manager.admit(vgpu("b", "GPU-n-0,NVIDIA,1,0:")) is not None


async def test_device_plugins_hand_over_and_unlock_the_node_or_the_pod_fails() -> None:
    devices = parse_node_devices("vgpu=1,memory=10")
    limits: dict[str, Any] = {"container": {"resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}}
    async with cluster() as api, api.nodes(uniform_fleet(1, None, devices)) as fleet:
        await api.patch("/api/v1/nodes/node-0", {"metadata": {"annotations": {"hamivgpu": "2026-01-01T00:00:00Z"}}})
        chosen = {IDS: "GPU-node-0-0,NVIDIA,10,0:", "volcano.sh/bind-phase": "allocating"}
        await api.submit("a", metadata={"annotations": chosen}, **limits)
        await api.until(lambda: api.phase("a") == "Running")
        stored = api.pod("a")
        assert stored is not None
        annotations = stored["metadata"]["annotations"]
        assert (annotations["volcano.sh/bind-phase"], annotations["volcano.sh/devices-to-allocate"]) == ("success", "")
        assert "hamivgpu" not in next(iter(api.all("nodes")))["metadata"]["annotations"]
        await api.submit("b", metadata={"annotations": {IDS: "GPU-node-0-0,NVIDIA,10,0:"}}, **limits)
        await api.until(lambda: api.phase("b") == "Failed")
        refused = api.pod("b")
        assert refused is not None
        assert refused["status"]["reason"] == "UnexpectedAdmissionError"
        assert [alarm.pod for alarm in fleet.overcommitted] == ["default/b"]
