"""The kinds that random scripts write, and what may be changed in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.contract import widgets

Obj = dict[str, Any]


class Kind(NamedTuple):
    """One kind: where it is served, how to make one, and changes of it (top-level parts of an object, merged in)."""

    plural: str
    new: Callable[[str, random.Random], Obj]
    change: Callable[[random.Random], Obj]
    custom: bool = False
    status: Callable[[random.Random], Obj] | None = None


def _text(rng: random.Random) -> str:
    return rng.choice(("a", "b", "", "long" * 10, "ünïcode", "1"))


def _config_map(name: str, rng: random.Random) -> Obj:
    data = {key: _text(rng) for key in rng.sample(("one", "two", "three"), rng.randint(0, 3))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _config_map_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"data": {rng.choice(("one", "two", "four")): _text(rng)}},
            {"data": {"one": None}},
            {"data": None},
            {"binaryData": {"raw": "aGVsbG8="}},
            {"immutable": True},
        )
    )


def _secret(name: str, rng: random.Random) -> Obj:
    part = rng.choice(({"data": {"key": "aGVsbG8="}}, {"stringData": {"key": _text(rng)}}, {"type": "example.com/own"}))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}} | part


def _secret_change(rng: random.Random) -> Obj:
    return rng.choice(({"stringData": {"more": _text(rng)}}, {"data": {"key": "d29ybGQ="}}, {"type": "Opaque"}))


def _pod(name: str, rng: random.Random) -> Obj:
    container: Obj = {"name": "main", "image": rng.choice(("busybox", "busybox:1.36", "r.example.com/a/b:latest"))}
    if rng.random() < 0.5:
        amount = {"cpu": rng.choice(("1", "500m", "0.1")), "memory": rng.choice(("1Gi", "64Mi", "1e6"))}
        container["resources"] = {rng.choice(("requests", "limits")): amount}
    if rng.random() < 0.3:
        container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": _text(rng)}]
    if rng.random() < 0.3:
        container["ports"] = [{"containerPort": 80}]
    spec: Obj = {"containers": [container], "schedulerName": "nobody", "automountServiceAccountToken": False}
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


def _quota(name: str, rng: random.Random) -> Obj:
    hard = rng.choice(
        ({"pods": "100"}, {"requests.cpu": "50"}, {"count/configmaps": "50"}, {"cpu": "-1"}, {"oops": "1"})
    )
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}


def _lease(name: str, rng: random.Random) -> Obj:
    spec = {"holderIdentity": _text(rng) or "me", "leaseDurationSeconds": rng.choice((15, 0, -1))}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def _widget(name: str, rng: random.Random) -> Obj:
    spec = rng.choice(({}, {"color": "blue"}, {"color": "green"}, {"parts": ["a", "b"]}, {"size": 0}, {"unknown": 1}))
    return widgets.widget(name, **spec)


def _widget_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"size": rng.choice((1, 2, 0, "three", None))}},
            {"spec": {"color": rng.choice(("red", "blue", "pink", None))}},
            {"spec": {"parts": rng.choice((["x"], [], None, ["a", 1]))}},
            {"spec": {"unknown": {"deep": [1]}}},
            {"status": {"phase": "Ignored"}},
        )
    )


def _widget_status(rng: random.Random) -> Obj:
    return rng.choice(
        ({"phase": "Ready"}, {"size": 4}, {"phase": 5}, {"unknown": "x"}, {"conditions": [{"type": "Ok"}]})
    )


def _service(name: str, rng: random.Random) -> Obj:
    spec: Obj = {"ports": [{"port": 80}], "selector": {"app": "a"}}
    spec |= rng.choice(
        ({}, {"clusterIP": "None"}, {"type": "NodePort"}, {"type": "Odd"}, {"sessionAffinity": "ClientIP"})
    )
    if rng.random() < 0.3:
        spec["ports"] = rng.choice(([], [{"port": 0}], [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]))
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _service_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"selector": {"app": rng.choice(("a", "b"))}}},
            {"spec": {"ports": [{"port": rng.choice((80, 81)), "targetPort": rng.choice(("web", 8080))}]}},
            {"spec": {"sessionAffinity": rng.choice(("None", "ClientIP", "Sometimes"))}},
            {"spec": {"clusterIP": "10.0.0.1"}},
        )
    )


def _account(name: str, rng: random.Random) -> Obj:
    secrets = rng.choice(({}, {"secrets": [{"name": "a"}]}, {"automountServiceAccountToken": False}))
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}} | secrets


def _role(name: str, rng: random.Random) -> Obj:
    rule: Obj = {"apiGroups": [""], "resources": ["pods"], "verbs": rng.choice((["get"], ["*"], []))}
    rules = rng.choice(([rule], [], [{"verbs": ["get"]}]))
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    return {**kind, "metadata": {"name": name}, "rules": rules}


def _limits(name: str, rng: random.Random) -> Obj:
    limit: Obj = {"type": rng.choice(("Container", "Pod", "Odd"))}
    limit |= rng.choice(({"max": {"cpu": "8"}}, {"default": {"cpu": "2"}}, {"min": {"cpu": "9"}, "max": {"cpu": "8"}}))
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": [limit]}}


def _deployment(name: str, rng: random.Random) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": rng.choice((labels, labels, {"app": "other"}))}, "spec": _pod(name, rng)["spec"]}
    spec: Obj = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    if rng.random() < 0.3:
        spec["strategy"] = rng.choice(({"type": "Recreate"}, {"type": "Odd"}, {"rollingUpdate": {"maxSurge": "30%"}}))
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _deployment_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"minReadySeconds": rng.choice((3, -1))}},
            {"spec": {"selector": {"matchLabels": {"app": "other"}}}},
            {"spec": {"paused": rng.choice((True, None))}},
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other:3"}]}}}},
            {"spec": {"revisionHistoryLimit": rng.choice((2, -2))}},
        )
    )


KINDS = (
    Kind("services", _service, _service_change),
    Kind("serviceaccounts", _account, lambda rng: {"automountServiceAccountToken": rng.choice((True, None))}),
    Kind("roles.v1.rbac.authorization.k8s.io", _role, lambda rng: {"rules": rng.choice(([], None))}),
    Kind("limitranges", _limits, lambda _: {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "7"}}]}}),
    Kind("deployments.v1.apps", _deployment, _deployment_change),
    Kind("configmaps", _config_map, _config_map_change),
    Kind("secrets", _secret, _secret_change),
    Kind("pods", _pod, _pod_change, status=_pod_status),
    Kind("leases.v1.coordination.k8s.io", _lease, lambda rng: {"spec": {"leaseTransitions": rng.randint(0, 3)}}),
    Kind(widgets.PLURAL, _widget, _widget_change, custom=True, status=_widget_status),
    Kind("resourcequotas", _quota, lambda rng: {"spec": {"hard": {"pods": rng.choice(("90", "x"))}}}),
)
