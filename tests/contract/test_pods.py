"""Pods: defaults, rules, and what may change of one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.support import Namespace, Obj, pod

MAIN: Obj = {"name": "main", "image": "busybox"}


def main(**fields: Any) -> Obj:
    """A spec with one container."""
    return {"containers": [MAIN | fields]}


def resources(**named: Any) -> Obj:
    return main(resources=named)


def variable(source: Obj) -> Obj:
    return main(env=[{"name": "A", "valueFrom": source}])


SPREAD = {"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}
NOWHERE: Obj = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("spec", "broken"),
    [
        ({"containers": []}, ["spec.containers"]),
        (main(name="A"), ["spec.containers[0].name"]),
        (main(image=""), ["spec.containers[0].image"]),
        (main(image=" b"), ["spec.containers[0].image"]),
        ({"containers": [MAIN, MAIN]}, ["spec.containers[1].name"]),
        ({"initContainers": [MAIN]}, ["spec.initContainers[0].name"]),
        (main(imagePullPolicy="Some"), ["spec.containers[0].imagePullPolicy"]),
        (main(terminationMessagePolicy="Some"), ["spec.containers[0].terminationMessagePolicy"]),
        (main(livenessProbe={}), ["spec.containers[0].livenessProbe"]),
        (main(ports=[{"containerPort": 0}]), ["spec.containers[0].ports[0].containerPort"]),
        (main(ports=[{"containerPort": 80, "protocol": "X"}]), ["spec.containers[0].ports[0].protocol"]),
        (main(env=[{"name": "", "value": "x"}]), ["spec.containers[0].env[0].name"]),
        (variable({"fieldRef": {"fieldPath": "spec.x"}}), ["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"]),
        (main(volumeMounts=[{"name": "v", "mountPath": "/x"}]), ["spec.containers[0].volumeMounts[0].name"]),
        (resources(requests={"cpu": "-2"}), ["spec.containers[0].resources.requests[cpu]"]),
        (resources(requests={"x": "2"}), ["spec.containers[0].resources.requests[x]"] * 2),
        (resources(requests={"cpu": "2"}, limits={"cpu": "1"}), ["spec.containers[0].resources.requests"]),
        (resources(requests={"a.b/gpu": "1"}), ["spec.containers[0].resources.limits"]),
        ({"restartPolicy": "Some"}, ["spec.restartPolicy"]),
        ({"dnsPolicy": "Some"}, ["spec.dnsPolicy"]),
        ({"nodeName": "A_"}, ["spec.nodeName"]),
        ({"nodeSelector": {"a b": "c"}}, ["spec.nodeSelector"]),
        ({"hostname": "A_"}, ["spec.hostname"]),
        ({"activeDeadlineSeconds": 0}, ["spec.activeDeadlineSeconds"]),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, ["spec.volumes[1].name"]),
        ({"volumes": [{"name": "V_"}]}, ["spec.volumes[0].name"]),
        ({"volumes": [{"name": "v", "configMap": {}}]}, ["spec.volumes[0].configMap.name"]),
        ({"tolerations": [{"key": "a", "operator": "Some"}]}, ["spec.tolerations[0].operator"]),
        ({"tolerations": [{"key": "a", "effect": "Some"}]}, ["spec.tolerations[0].effect"]),
        ({"schedulingGates": [{"name": "x y"}]}, ["spec.schedulingGates[0]"]),
        ({"schedulingGates": [{"name": "x"}, {"name": "x"}]}, ["spec.schedulingGates[1]"]),
        ({"schedulingGates": [{"name": "x"}], "nodeName": "n"}, ["spec.nodeName"]),
        ({"affinity": NOWHERE}, [TERMS]),
        ({"topologySpreadConstraints": [SPREAD]}, ["spec.topologySpreadConstraints[0].maxSkew"]),
    ],
)
def test_rules(namespace: Namespace, spec: Obj, broken: list[str]) -> None:
    answer = namespace.cluster.create(namespace.path("pods"), pod("p", **spec), dryRun="All")
    status = answer.refused(422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == broken


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"serviceAccountName": "none"}, 'serviceaccount "none" not found'),
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"cpu": "1"}}, "pod rejected: Pod Overhead set without corresponding RuntimeClass"),
        ({"preemptionPolicy": "Some"}, "the string value of PreemptionPolicy (Some) must not be provided in pod spec"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
    ],
)
def test_admission_denials(namespace: Namespace, spec: Obj, said: str) -> None:
    status = namespace.cluster.create(namespace.path("pods"), pod("p", **spec), dryRun="All").refused(403, "Forbidden")
    assert said in status["message"]


def test_defaults(namespace: Namespace) -> None:
    container = MAIN | {
        "image": "busybox:1",
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "1000m"}},
    }
    volumes = [
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "h", "hostPath": {"path": "/x"}},
        {"name": "e"},
    ]
    stored = namespace.pod("p", containers=[container], volumes=volumes, terminationGracePeriodSeconds=-1)
    spec = stored["spec"]
    (main,) = spec["containers"]
    assert main["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert main["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert main["env"][0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}
    assert main["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert (main["imagePullPolicy"], main["terminationMessagePath"]) == ("IfNotPresent", "/dev/termination-log")
    named = {volume["name"]: volume for volume in spec["volumes"]}
    assert named["c"]["configMap"] == {"name": "x", "defaultMode": 420}
    assert named["h"]["hostPath"] == {"path": "/x", "type": ""}
    assert named["e"]["emptyDir"] == {}
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["terminationGracePeriodSeconds"]) == (
        "Always",
        "ClusterFirst",
        1,
    )
    assert (spec["serviceAccountName"], spec["priority"], spec["preemptionPolicy"]) == (
        "default",
        0,
        "PreemptLowerPriority",
    )
    assert {one["key"] for one in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert (stored["status"]["phase"], stored["status"]["qosClass"]) == ("Pending", "Burstable")


def test_ports_of_the_host_network(namespace: Namespace) -> None:
    stored = namespace.pod("p", hostNetwork=True, **main(ports=[{"containerPort": 80}]))
    assert stored["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


def test_a_runtime_class_gives_its_overhead(namespace: Namespace) -> None:
    name = namespace.name
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    body = {"metadata": {"name": name}, "handler": "h", "overhead": {"podFixed": {"cpu": "1"}}}
    scheduling = {"nodeSelector": {"kind": "special"}}
    namespace.cluster.create(path, body | {"scheduling": scheduling}).ok()
    spec = namespace.pod("p", runtimeClassName=name)["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "1"}, {"kind": "special"})
    namespace.cluster.delete(f"{path}/{name}").ok()


def changed(namespace: Namespace, spec: Obj) -> list[str]:
    """The fields that may not change like that; nothing when they may."""
    answer = namespace.cluster.patch(
        namespace.path("pods", "p"), {"spec": spec}, "application/strategic-merge-patch+json"
    )
    if answer.code == 200:
        return []
    return [cause["field"] for cause in answer.refused(422, "Invalid")["details"]["causes"]]


def test_allowed_changes_of_a_pod(namespace: Namespace) -> None:
    namespace.pod("p")
    assert changed(namespace, {"containers": [{"name": "main", "image": "other"}]}) == []
    assert changed(namespace, {"activeDeadlineSeconds": 10}) == []
    assert changed(namespace, {"activeDeadlineSeconds": 5}) == []
    assert changed(namespace, {"activeDeadlineSeconds": 7}) == ["spec.activeDeadlineSeconds"]
    assert changed(namespace, {"tolerations": [{"key": "k", "operator": "Exists"}]}) == []
    assert len(namespace.cluster.get(namespace.path("pods", "p")).ok()["spec"]["tolerations"]) == 3
    for spec in (
        {"nodeName": "x"},
        {"schedulerName": "other"},
        {"restartPolicy": "Never"},
        {"hostNetwork": True},
        {"terminationGracePeriodSeconds": 1},
        {"nodeSelector": {"a": "b"}},
        {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]},
    ):
        assert changed(namespace, spec) == ["spec"], spec
    assert changed(namespace, {"containers": [{"name": "second", "image": "b"}]}) == ["spec.containers"]
    assert changed(namespace, {"schedulingGates": [{"name": "x"}]}) == ["spec.schedulingGates[0].name"]


def test_allowed_changes_of_a_gated_pod(namespace: Namespace) -> None:
    namespace.pod("p", schedulingGates=[{"name": "x"}, {"name": "y"}])
    assert changed(namespace, {"nodeSelector": {"a": "b"}}) == []
    assert changed(namespace, {"nodeSelector": {"a": "c"}}) == ["spec.nodeSelector"]
    assert changed(namespace, {"nodeSelector": None}) == ["spec.nodeSelector"]
    assert changed(namespace, {"schedulingGates": [{"name": "z"}]}) == ["spec.schedulingGates[0].name"]
    assert changed(namespace, {"schedulingGates": [{"name": "y", "$patch": "delete"}]}) == []
    assert changed(namespace, {"schedulingGates": None}) == []
    assert changed(namespace, {"nodeSelector": {"b": "b"}}) == ["spec"]
    assert namespace.cluster.get(namespace.path("pods", "p")).ok()["metadata"]["generation"] == 4
