"""MindCluster's reports: pods do not get faulty chips, nor nodes that are to be left alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.scenario.scheduling.devices import ATLAS, NPU_CORE, annotated, atlas, configuration, groups
from tests.scenario.scheduling.harness import World, labelled, node
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

CONF = configuration(AscendMindClusterVNPUEnable=True)
NOTHING = "0/1 nodes are unavailable: 1 node not meet task request huawei.com/npu-core."


def config_map(namespace: str, name: str, key: str, content: Any) -> Manifest:
    text = content if isinstance(content, str) else json.dumps(content)
    meta = {"namespace": namespace, "name": name, "uid": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {key: text}}


def of_device_plugin(lists: Mapping[str, str]) -> Manifest:
    content = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}, "SuperPodID": -2, "CheckCode": "a5"}
    return config_map("kube-system", "mindx-dl-deviceinfo-n1", "DeviceInfoCfg", content)


def of_clusterd(lists: Mapping[str, str]) -> Manifest:
    content = {
        "mindx-dl-deviceinfo-n1": {"DeviceList": lists, "UpdateTime": 1, "CmName": "mindx-dl-deviceinfo-n1"},
        "mindx-dl-deviceinfo-n2": {"DeviceList": {"huawei.com/Ascend310P-Unhealthy": "Ascend310P-1"}},
    }
    return config_map("mindx-dl", "cluster-info-device-0", "cluster-info-device-0", content)


def of_noded(status: str) -> Manifest:
    content = {"NodeInfo": {"FaultDevList": [{"DeviceType": "CPU"}], "NodeStatus": status}, "CheckCode": "3a"}
    return config_map("mindx-dl", "mindx-dl-nodeinfo-n1", "NodeInfo", content)


def node_of_clusterd(status: str) -> Manifest:
    content = {"mindx-dl-nodeinfo-n1": {"NodeStatus": status}, "mindx-dl-nodeinfo-n2": {"NodeStatus": "UnHealthy"}}
    return config_map("mindx-dl", "cluster-info-node-cm", "cluster-info-node-cm", content)


def faulty(*chips: str, key: str = "Unhealthy") -> dict[str, str]:
    return {"huawei.com/Ascend310P": "", f"huawei.com/Ascend310P-{key}": ",".join(f"Ascend310P-{one}" for one in chips)}


def world(*objects: Manifest, cores: int = 8) -> World:
    return World(*objects, *groups("p"), atlas("p", cores), conf=CONF).run()


def chips_of(ran: World) -> list[str]:
    return [bind.annotations[NPU_CORE] for bind in ran.requests]


@pytest.mark.parametrize("report", [of_device_plugin, of_clusterd])
@pytest.mark.parametrize(
    ("lists", "chips"),
    [
        (faulty(), ["0"]),
        (faulty("0"), ["1"]),
        (faulty("1"), ["0"]),
        (faulty("0", key="Recovering"), ["1"]),
        (faulty("0", key="NetworkUnhealthy"), ["0"]),
        (faulty("0", "1"), []),
        (faulty("2c-100-0"), ["0"]),  # a virtual NPU
    ],
)
def test_a_faulty_chip_is_not_given(report: Any, lists: Mapping[str, str], chips: list[str]) -> None:
    assert chips_of(world(ATLAS, report(lists))) == chips


@pytest.mark.parametrize("report", [of_noded, node_of_clusterd])
@pytest.mark.parametrize(
    ("status", "is_used"), [("Healthy", True), ("", True), ("PreSeparate", False), ("UnHealthy", False)]
)
def test_a_faulty_node_gets_no_pods(report: Any, status: str, is_used: bool) -> None:
    ran = world(ATLAS, report(status))
    assert bool(ran.binds) is is_used
    reason = f"0/1 nodes are unavailable: 1 node is {status}, due to nodeD reported node status."
    assert ran.fit_error("p") == ("" if is_used else reason)


def test_the_kubelet_takes_a_faulty_chip_off_what_is_allocatable_not_off_the_capacity() -> None:
    one_left = labelled(node("n1", **{NPU_CORE: "16"}), servertype="Ascend310P-8")
    one_left["status"] = {**one_left["status"], "allocatable": {**one_left["status"]["allocatable"], NPU_CORE: "8"}}
    assert chips_of(world(one_left, of_device_plugin(faulty("0")))) == ["1"]
    assert chips_of(world(one_left)) == ["0"], "no report names the faulty one"


def test_chips_have_the_numbers_that_the_device_plugin_lists() -> None:
    listed = {"Ascend310P-10": {"IP": ""}, "Ascend310P-2": {"IP": ""}, "Ascend310P-2c-100-2": {"IP": ""}}
    known = {**ATLAS, "metadata": {**ATLAS["metadata"]}}
    assert chips_of(world(annotated(known, baseDeviceInfos=json.dumps(listed)), cores=16)) == ["2,10"]


def test_a_waiting_pod_gets_the_chip_once_its_fault_is_gone() -> None:
    ran = world(ATLAS, of_clusterd(faulty("0", "1")), of_device_plugin(faulty("0", "1")))
    assert ran.binds == {}
    ran.put(of_clusterd(faulty()))
    assert ran.run().binds == {}, "both reports count"
    ran.put(of_device_plugin(faulty("0")))
    assert chips_of(ran.run()) == ["1"]


def test_what_was_reported_ends_with_the_config_map() -> None:
    ran = world(ATLAS, of_noded("UnHealthy"), of_device_plugin(faulty("0", "1")))
    assert ran.binds == {}
    for key in ("mindx-dl/mindx-dl-nodeinfo-n1", "kube-system/mindx-dl-deviceinfo-n1"):
        ran.remove(kinds.CONFIG_MAP, key)
    assert chips_of(ran.run()) == ["0"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"DeviceInfo": 7}'])
def test_a_report_that_cannot_be_read_reports_nothing(text: str) -> None:
    assert chips_of(world(ATLAS, config_map("kube-system", "mindx-dl-deviceinfo-n1", "DeviceInfoCfg", text))) == ["0"]


@pytest.mark.parametrize(
    ("groups_of_chip", "cores", "chips"),
    [
        (["0", "1"], 4, ["0-vir04_3c"]),
        (["0", "1", "2"], 4, []),
        (["0", "1", "2"], 2, ["0-vir02_1c"]),
        (["0", "1", "2", "3"], 2, []),
        (["0", "1", "2", "3"], 1, ["0-vir01"]),
        (["0", "0", "0"], 4, ["0-vir04_3c"]),
    ],
)
def test_more_groups_of_virtual_npus_leave_room_for_smaller_ones(
    groups_of_chip: list[str], cores: int, chips: list[str]
) -> None:
    one = labelled(node("n1", **{NPU_CORE: "8"}), servertype="Ascend310P-8")
    held = [
        atlas(f"old{at}", 1, "n1", "0-vir01", f"Ascend310P-1c.1cpu-{100 + at}-0_{name}")
        for at, name in enumerate(groups_of_chip)
    ]
    ran = world(one, *held, cores=cores)
    assert chips_of(ran) == chips
    assert ran.fit_error("p") == ("" if chips else NOTHING)
