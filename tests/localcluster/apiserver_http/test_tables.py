"""What `kubectl get` shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from volcanoio.localcluster.apiserver.apimachinery.resources import CustomResource, PrinterColumn, Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import BUILTINS
from volcanoio.localcluster.apiserver.printing.tables import BUILT_IN, JsonPath, JsonPathError, Tables
from volcanoio.model.printing.ages import human_duration, since
from volcanoio.model.printing.pods import view

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
BY_NAME = {one.name: one for one in BUILTINS}


class Noon:
    def now(self) -> datetime:
        return NOW


def meta(name: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": name, "creationTimestamp": "2026-01-01T11:59:30Z", **more}


def rows(name: str, *objects: dict[str, Any]) -> list[list[Any]]:
    table = Tables(Noon())(BY_NAME[name], list(objects), include_object="None", with_columns=True)
    shown = [row["cells"] for row in table["rows"]]
    assert all(len(cells) == len(table["columnDefinitions"]) for cells in shown)
    return shown


def container(name: str = "main", ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


def pod(*statuses: dict[str, Any], phase: str = "Running", **more: Any) -> dict[str, Any]:
    names = [one["name"] for one in statuses] or ["main"]
    return {
        "metadata": meta(**more.pop("meta", {})),
        "spec": {"containers": [{"name": name} for name in names], **more.pop("spec", {})},
        "status": {"phase": phase, "containerStatuses": list(statuses), **more},
    }


DONE = {"exitCode": 0, "reason": "Completed"}
KILLED = {"exitCode": 137, "reason": "OOMKilled"}
RUN = {"startedAt": "2026-01-01T11:59:40Z"}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (pod(phase="Pending"), ("0/1", "Pending", "0")),
        (pod(container(waiting={"reason": "ContainerCreating"}), phase="Pending"), ("0/1", "ContainerCreating", "0")),
        (pod(container(ready=True, running=RUN)), ("1/1", "Running", "0")),
        (pod(container(running=RUN), container("b", True, running=RUN)), ("1/2", "Running", "0")),
        (
            pod(container(terminated=DONE), phase="Succeeded"),
            ("0/1", "Completed", "0"),
        ),
        (pod(container(terminated={"exitCode": 2, "reason": "Error"}), phase="Failed"), ("0/1", "Error", "0")),
        (
            pod(container(terminated=KILLED), phase="Failed"),
            ("0/1", "OOMKilled", "0"),
        ),
        (pod(container(terminated={"exitCode": 3}), phase="Failed"), ("0/1", "ExitCode:3", "0")),
        (pod(container(terminated={"exitCode": 137, "signal": 9}), phase="Failed"), ("0/1", "Signal:9", "0")),
        (pod(container(restarts=4, waiting={"reason": "CrashLoopBackOff"})), ("0/1", "CrashLoopBackOff", "4")),
        (pod(phase="Failed", reason="OutOfcpu"), ("0/1", "OutOfcpu", "0")),
        (pod(container(ready=True, running=RUN), meta={"deletionTimestamp": "x"}), ("1/1", "Terminating", "0")),
        (pod(phase="Succeeded", meta={"deletionTimestamp": "x"}), ("0/1", "Succeeded", "0")),
        (pod(reason="NodeLost", meta={"deletionTimestamp": "x"}), ("0/1", "Unknown", "0")),
        (
            pod(phase="Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
            ("0/1", "SchedulingGated", "0"),
        ),
    ],
)
def test_pod_status_contains_more_than_the_phase(obj: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert view(obj, NOW) == expected


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ([container("i", running=RUN)], "Init:0/2"),
        ([container("i", terminated={"exitCode": 0}), container("j", running=RUN)], "Init:1/2"),
        ([container("i", terminated={"exitCode": 1, "reason": "Error"})], "Init:Error"),
        ([container("i", terminated={"exitCode": 7})], "Init:ExitCode:7"),
        ([container("i", waiting={"reason": "ImagePullBackOff"})], "Init:ImagePullBackOff"),
        ([container("i", waiting={"reason": "PodInitializing"})], "Init:0/2"),
    ],
)
def test_init_containers_come_first(init: list[dict[str, Any]], expected: str) -> None:
    waiting = container(waiting={"reason": "PodInitializing"})
    spec = {"initContainers": [{"name": "i"}, {"name": "j"}]}
    obj = pod(waiting, phase="Pending", initContainerStatuses=init, spec=spec)
    assert view(obj, NOW).status == expected


def test_a_sidecar_counts_as_a_container_and_keeps_its_restarts() -> None:
    sidecar = {**container("side", True, 2, running=RUN), "started": True}
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}]}
    obj = pod(container(ready=True, restarts=1, running=RUN), initContainerStatuses=[sidecar], spec=spec)
    assert view(obj, NOW) == ("2/2", "Running", "3")


def test_restarts_include_the_time_of_the_last_one() -> None:
    crashed = container(restarts=2, ready=True, running=RUN)
    crashed["lastState"] = {"terminated": {"finishedAt": "2026-01-01T11:55:00Z"}}
    assert view(pod(crashed), NOW).restarts == "2 (5m ago)"


def test_wide_columns_of_a_pod() -> None:
    spec = {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    obj = pod(spec=spec, podIP="10.0.0.1", conditions=[{"type": "a", "status": "True"}])
    assert rows("pods", obj)[0][4:] == ["30s", "10.0.0.1", "n1", "<none>", "1/2"]
    table = Tables(Noon())(BY_NAME["pods"], [], include_object="None", with_columns=True)
    assert [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]


def test_rows_of_other_kinds() -> None:
    node = {
        "metadata": meta("n", labels={"node-role.kubernetes.io/worker": ""}),
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
        },
    }
    assert rows("nodes", node)[0][:7] == ["n", "Ready,SchedulingDisabled", "worker", "30s", "v1", "10.0.0.9", "<none>"]
    assert rows("nodes", {"metadata": meta()})[0][1] == "Unknown"
    event = {
        "metadata": meta("e"),
        "involvedObject": {"kind": "Pod", "name": "p"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no room\n",
        "source": {"component": "volcano"},
        "lastTimestamp": "2026-01-01T11:59:00Z",
        "firstTimestamp": "2026-01-01T11:00:00Z",
        "count": 3,
    }
    cells = ["60s", "Warning", "FailedScheduling", "pod/p", "", "volcano", "no room", "60m", 3, "e"]
    assert rows("events", event) == [cells]
    service = {"metadata": meta(), "spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}}}
    assert rows("services", service)[0] == ["x", "ClusterIP", "None", "<none>", "80/TCP", "30s", "a=b"]
    claim = {
        "metadata": meta(),
        "spec": {"volumeName": "v", "storageClassName": "s"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    }
    assert rows("persistentvolumeclaims", claim)[0][:6] == ["x", "Bound", "v", "1Gi", "RWO", "s"]
    assert rows("configmaps", {"metadata": meta(), "data": {"a": "1", "b": "2"}}) == [["x", 2, "30s"]]
    assert rows("roles.rbac.authorization.k8s.io", {"metadata": meta()}) == [["x", meta()["creationTimestamp"]]]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_an_almost_empty_object_can_be_printed(name: str) -> None:
    assert len(rows(name, {"metadata": {"name": "x"}})) == 1


def test_contents_of_a_row() -> None:
    obj = {"kind": "Pod", "metadata": meta(), "spec": {}, "status": {}}
    carried = {
        include: Tables(Noon())(BY_NAME["pods"], [obj], include_object=include, with_columns=False)
        for include in ("None", "Metadata", "Object")
    }
    assert carried["None"]["rows"][0]["object"] is None
    assert carried["Object"]["rows"][0]["object"] == obj
    partial = carried["Metadata"]["rows"][0]["object"]
    assert (partial["kind"], partial["metadata"]) == ("PartialObjectMetadata", obj["metadata"])
    assert carried["None"]["columnDefinitions"] == []


def test_custom_resources_print_their_own_columns() -> None:
    columns = (
        PrinterColumn("Phase", "string", ".status.phase"),
        PrinterColumn("Min", "integer", ".spec.min"),
        PrinterColumn("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 1),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
        PrinterColumn("Odd", "string", "nonsense"),  # it and what follows is not shown, as in Kubernetes
        PrinterColumn("Late", "string", ".status.phase"),
    )
    custom = CustomResource({}, lambda _: [], lambda _: None, lambda _new, _old, _status, _said: [], columns)
    widget = Resource("example.com", "v1", "Widget", "widgets", custom=custom)
    obj = {
        "metadata": meta(),
        "spec": {"min": 2},
        "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
    }
    table = Tables(Noon())(widget, [obj], include_object="None", with_columns=True)
    assert table["rows"][0]["cells"] == ["x", None, 2, "True", "30s"]
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        (r".a.c\.d", ["dotted"]),
        (".a['c.d']", ["dotted"]),
        (".list[0].n", [1]),
        (".list[-1].n", [3]),
        (".list[9].n", []),
        (".list[*].n", [1, 2, 3]),
        (".list[?(@.n>1)].n", [2, 3]),
        ('.list[?(@.n=="1")].n', []),
        (".missing.b", []),
        (".a.b.c", []),
    ],
)
def test_jsonpath(path: str, found: list[Any]) -> None:
    value = {"a": {"b": 1, "c.d": "dotted"}, "list": [{"n": 1}, {"n": 2}, {"n": 3}]}
    assert JsonPath(path).find(value) == found


@pytest.mark.parametrize("path", [".a[", "a b", ".a[?(@.b=~c)]", ".a[?(@.b==c)]"])
def test_jsonpath_outside_the_subset_is_named(path: str) -> None:
    with pytest.raises(JsonPathError, match="JSONPath"):
        JsonPath(path)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (10 * 60, "10m"),
        (3 * 3600 + 1, "3h"),
        (7 * 3600 + 12 * 60, "7h12m"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_have_two_digits_worth(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_ages_of_missing_and_invalid_times() -> None:
    assert since(None, NOW) == "<unknown>"
    assert since("yesterday", NOW) == "<invalid>"
    assert since("2026-01-01T12:00:00.500000Z", NOW) == "0s"


def test_native_groups_show_their_policy_workload_and_conditions() -> None:
    def group(*conditions: tuple[str, str, str], **spec: Any) -> dict[str, Any]:
        listed = [dict(zip(("type", "status", "reason"), one, strict=True)) for one in conditions]
        return {"metadata": meta("g"), "spec": spec, "status": {"conditions": listed}}

    gang: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    done = ("PodGroupInitiallyScheduled", "True", "Scheduled")
    found = rows(
        "podgroups.scheduling.k8s.io",
        group(**gang, workloadRef={"workloadName": "w", "templateName": "t"}),
        group(("PodGroupInitiallyScheduled", "False", "Unschedulable"), **gang),
        group(done, schedulingPolicy={"basic": {}}),
        group(done, ("DisruptionTarget", "True", "PreemptionByScheduler"), **gang),
    )
    assert found == [
        ["g", "Gang", "w", "Pending", "30s"],
        ["g", "Gang", "<none>", "Unschedulable", "30s"],
        ["g", "Basic", "<none>", "Scheduled", "30s"],
        ["g", "Gang", "<none>", "PreemptionByScheduler", "30s"],
    ]
