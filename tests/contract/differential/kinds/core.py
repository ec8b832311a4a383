"""Configuration, pods, nodes and events."""

from __future__ import annotations

import random

from tests.contract.differential.kind import OWN, Kind, Obj, chosen, obj, some, text


def _config_map(name: str, rng: random.Random) -> Obj:
    data = {key: text(rng) for key in rng.sample(("one", "two", "three"), rng.randint(0, 3))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _config_map_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"data": {rng.choice(("one", "two", "four")): text(rng)}},
            {"data": {"one": None}},
            {"data": None},
            {"binaryData": {"raw": "aGVsbG8="}},
            {"immutable": True},
        )
    )


def _secret(name: str, rng: random.Random) -> Obj:
    part = rng.choice(({"data": {"key": "aGVsbG8="}}, {"stringData": {"key": text(rng)}}, {"type": "example.com/own"}))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}} | part


def _secret_change(rng: random.Random) -> Obj:
    return rng.choice(({"stringData": {"more": text(rng)}}, {"data": {"key": "d29ybGQ="}}, {"type": "Opaque"}))


def pod(name: str, rng: random.Random) -> Obj:
    container: Obj = {"name": "main", "image": rng.choice(("busybox", "busybox:1.36", "r.example.com/a/b:latest"))}
    if rng.random() < 0.5:
        amount = {"cpu": rng.choice(("1", "500m", "0.1")), "memory": rng.choice(("1Gi", "64Mi", "1e6"))}
        container["resources"] = {rng.choice(("requests", "limits")): amount}
    if rng.random() < 0.3:
        container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": text(rng)}]
    if rng.random() < 0.3:
        container["ports"] = [{"containerPort": 80}]
    spec: Obj = {"containers": [container], "schedulerName": "absent", "automountServiceAccountToken": False}
    if rng.random() < 0.3:
        spec["restartPolicy"] = rng.choice(("Never", "OnFailure"))
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "special", "operator": "Exists"}]
    if rng.random() < 0.2:
        spec["terminationGracePeriodSeconds"] = rng.choice((0, 5))
    if rng.random() < 0.2:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _pod_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"containers": [{"name": "main", "image": "other:2"}]}},
            {"spec": {"activeDeadlineSeconds": rng.choice((60, 600, 0))}},
            {"spec": {"tolerations": [{"key": "more", "operator": "Exists", "effect": "NoSchedule"}]}},
            {"spec": {"nodeSelector": {"disk": "hdd"}}},
            {"spec": {"nodeName": "sneaked"}},
            {"spec": {"priority": 7}},
        )
    )


def _pod_status(rng: random.Random) -> Obj:
    condition = {"type": rng.choice(("Ready", "Initialized")), "status": rng.choice(("True", "False"))}
    return rng.choice(
        (
            {"phase": rng.choice(("Running", "Pending", "Failed"))},
            {"conditions": [condition]},
            {"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]},
        )
    )


def _node(name: str, rng: random.Random) -> Obj:
    taint = {"key": rng.choice(("example.com/t", "bad key")), "effect": rng.choice(("NoSchedule", "NoExecute", "Odd"))}
    spec = some(rng, 0.3, taints=[taint], unschedulable=True, podCIDR=chosen("10.9.0.0/24", "rubbish"))
    spec |= some(rng, 0.2, providerID="p://1", taints=[taint, taint])
    return obj("v1", "Node", name, spec=spec | {"unschedulable": True})


def _node_change(rng: random.Random) -> Obj:
    return {"spec": rng.choice(({"providerID": rng.choice(("p://1", "p://2"))}, {"podCIDR": "10.8.0.0/24"}))}


def _node_status(rng: random.Random) -> Obj:
    return rng.choice(
        ({"capacity": {"cpu": "4"}}, {"allocatable": {"cpu": "3500m"}}, {"nodeInfo": {"kubeletVersion": "v"}})
    )


def _involved(rng: random.Random) -> Obj:
    return {"kind": "Pod", "name": "a", "namespace": rng.choice((OWN, OWN, "elsewhere", ""))}


def _event(name: str, rng: random.Random) -> Obj:
    parts = some(rng, 0.5, reason="Because", message=text, type=chosen("Normal", "Warning", "Odd"), count=1)
    parts |= some(rng, 0.3, source={"component": "me"}, action="Do", reportingComponent="example.com/me")
    return obj("v1", "Event", name, involvedObject=_involved(rng), **parts)


def _new_event(name: str, rng: random.Random) -> Obj:
    parts = some(rng, 0.9, reason="Because", action="Do", type=chosen("Normal", "Odd"), reportingInstance="me-1")
    parts |= some(
        rng, 0.9, eventTime="2026-01-01T00:00:00.000000Z", reportingController=chosen("example.com/me", "Bad Name")
    )
    parts |= some(rng, 0.3, note=text)
    return obj("events.k8s.io/v1", "Event", f"new-{name.removeprefix('new-')}", regarding=_involved(rng), **parts)


CORE = (
    Kind("configmaps", _config_map, _config_map_change),
    Kind("secrets", _secret, _secret_change),
    Kind("pods", pod, _pod_change, status=_pod_status),
    Kind("nodes", _node, _node_change, status=_node_status, cluster=True, shared=True),
    Kind("events", _event, lambda rng: {"count": rng.choice((2, 3)), "message": text(rng)}, shared=True),
    Kind("events.v1.events.k8s.io", _new_event, lambda rng: {"note": text(rng)}, called="new-{}", shared=True),
)
