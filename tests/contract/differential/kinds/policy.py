"""What steers others: budgets, scaling, classes of pods, webhooks, definitions, leases, quotas."""

from __future__ import annotations

import random

from tests.contract.differential.kind import OWN, SELECTORS, Kind, Obj, chosen, obj, some, text


def _quota(name: str, rng: random.Random) -> Obj:
    hard = rng.choice(
        ({"pods": "100"}, {"requests.cpu": "50"}, {"count/configmaps": "50"}, {"cpu": "-1"}, {"oops": "1"})
    )
    return obj("v1", "ResourceQuota", name, spec={"hard": hard})


def _lease(name: str, rng: random.Random) -> Obj:
    spec = {"holderIdentity": text(rng) or "me", "leaseDurationSeconds": rng.choice((15, 0, -1))}
    return obj("coordination.k8s.io/v1", "Lease", name, spec=spec)


def _limits(name: str, rng: random.Random) -> Obj:
    limit: Obj = {"type": rng.choice(("Container", "Pod", "Odd", "PersistentVolumeClaim"))}
    limit |= rng.choice(({"max": {"cpu": "8"}}, {"default": {"cpu": "2"}}, {"min": {"cpu": "9"}, "max": {"cpu": "8"}}))
    return obj("v1", "LimitRange", name, spec={"limits": [limit]})


def _budget(name: str, rng: random.Random) -> Obj:
    amounts = (1, 0, -1, "30%", "130%", "many")
    spec = some(rng, 0.5, minAvailable=chosen(*amounts), maxUnavailable=chosen(*amounts), selector=chosen(*SELECTORS))
    spec |= some(rng, 0.2, unhealthyPodEvictionPolicy=chosen("AlwaysAllow", "Odd"))
    return obj("policy/v1", "PodDisruptionBudget", name, spec=spec)


def _metric(rng: random.Random) -> Obj:
    target = rng.choice(
        (
            {"type": "Utilization", "averageUtilization": 50},
            {"type": "AverageValue", "averageValue": "100m"},
            {"type": "Utilization", "averageUtilization": 0},
            {"type": "Utilization"},
            {"type": "Odd"},
        )
    )
    resource = {"name": rng.choice(("cpu", "memory", "")), "target": target}
    return rng.choice(
        (
            {"type": "Resource", "resource": resource},
            {"type": "Resource", "resource": resource},
            {"type": "Resource"},
            {
                "type": "Pods",
                "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
            },
            {"type": "Odd"},
        )
    )


def _scaler_spec(rng: random.Random) -> Obj:
    target = {"apiVersion": "apps/v1", "kind": rng.choice(("Deployment", "Deployment", "")), "name": "nothing"}
    spec: Obj = {"scaleTargetRef": target, "maxReplicas": rng.choice((3, 5, 0))}
    spec |= some(rng, 0.4, minReplicas=chosen(1, 4, 0, -1), metrics=[_metric(rng)])
    window = {"stabilizationWindowSeconds": rng.choice((60, -1, 4000))}
    policies = {"policies": [{"type": "Pods", "value": rng.choice((1, 0)), "periodSeconds": 60}]}
    return spec | some(rng, 0.2, behavior={"scaleDown": rng.choice((window, policies, {}))})


def _scaler(name: str, rng: random.Random) -> Obj:
    return obj("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=_scaler_spec(rng))


def _priority_class(name: str, rng: random.Random) -> Obj:
    parts = some(rng, 0.3, description=text, preemptionPolicy=chosen("Never", "Odd"))
    return obj("scheduling.k8s.io/v1", "PriorityClass", name, value=rng.choice((7, 0, -5, 2 * 10**9)), **parts)


def _priority_class_change(rng: random.Random) -> Obj:
    return rng.choice(({"value": rng.choice((7, 8))}, {"description": "more"}, {"preemptionPolicy": "Never"}))


def _runtime_class(name: str, rng: random.Random) -> Obj:
    handler = rng.choice(("runc", "kata", "Not_A_Name", ""))
    toleration = {"key": "k", "operator": rng.choice(("Exists", "Odd"))}
    scheduling = some(rng, 0.5, nodeSelector=chosen({"a": "b"}, {"bad key": "x"}), tolerations=[toleration])
    overhead = {
        "podFixed": rng.choice(({"cpu": "100m"}, {"cpu": "0.1", "memory": "1e6"}, {"oops": "1"}, {"cpu": "-1"}))
    }
    return obj(
        "node.k8s.io/v1",
        "RuntimeClass",
        name,
        handler=handler,
        **some(rng, 0.3, overhead=overhead, scheduling=scheduling),
    )


def _hooks(kind: str, name: str, rng: random.Random) -> Obj:
    client = rng.choice(
        (
            {"url": "https://localhost:1/hook"},
            {"service": {"name": "s", "namespace": "n"}},
            {"url": "http://localhost/hook"},
            {"service": {"name": "", "namespace": "n", "path": "x"}},
            {},
        )
    )
    no_namespace = {"matchLabels": {"kubernetes.io/metadata.name": "no-such-namespace"}}
    rule: Obj = {"apiGroups": ["absent.example.com"], "apiVersions": ["v1"], "resources": ["nothings"]}
    rule["operations"] = rng.choice((["CREATE"], ["*"], ["CREATE", "UPDATE"], ["ODD"], []))
    rule |= some(rng, 0.2, scope=chosen("Namespaced", "Odd"))
    hook: Obj = {
        "name": rng.choice(("a.b.example.com", "a.b.example.com", "short")),
        "clientConfig": client,
        "rules": [rule],
        "namespaceSelector": no_namespace,
        "sideEffects": rng.choice(("None", "NoneOnDryRun", "Some", "Odd")),
        "admissionReviewVersions": rng.choice((["v1"], ["v1", "v1beta1"], ["v9"], [])),
    }
    hook |= some(
        rng,
        0.2,
        failurePolicy=chosen("Ignore", "Odd"),
        timeoutSeconds=chosen(5, 0, 31),
        matchPolicy=chosen("Exact", "Odd"),
    )
    if kind.startswith("Mutating"):
        hook |= some(rng, 0.2, reinvocationPolicy=chosen("IfNeeded", "Odd"))
    return obj("admissionregistration.k8s.io/v1", kind, name, webhooks=[hook])


def _validating(name: str, rng: random.Random) -> Obj:
    return _hooks("ValidatingWebhookConfiguration", name, rng)


def _mutating(name: str, rng: random.Random) -> Obj:
    return _hooks("MutatingWebhookConfiguration", name, rng)


def _definition(name: str, rng: random.Random) -> Obj:
    plural, _, group = name.partition(".")
    names: Obj = {"plural": plural, "kind": rng.choice((plural.title(), plural.title(), "bad kind", ""))}
    names |= some(rng, 0.3, singular=plural[:-1], shortNames=["x" + plural[:2]], listKind=f"{plural.title()}List")
    schema: Obj = {"type": "object", "properties": {"spec": {"type": rng.choice(("object", "object", "odd"))}}}
    version: Obj = {
        "name": rng.choice(("v1", "v1", "V_1")),
        "served": rng.choice((True, True, False)),
        "storage": rng.choice((True, True, True, False)),
        **some(rng, 0.9, schema={"openAPIV3Schema": schema}),
        **some(rng, 0.3, subresources={"status": {}}),
    }
    spec = {"group": group, "scope": rng.choice(("Namespaced", "Cluster", "Odd")), "names": names}
    return obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec=spec | {"versions": [version]})


def _definition_change(rng: random.Random) -> Obj:
    return {
        "spec": rng.choice(
            ({"scope": "Cluster"}, {"names": {"shortNames": ["zz"]}}, {"conversion": {"strategy": "Odd"}})
        )
    }


_HOOK = "admissionregistration.k8s.io"

POLICY = (
    Kind("leases.v1.coordination.k8s.io", _lease, lambda rng: {"spec": {"leaseTransitions": rng.randint(0, 3)}}),
    Kind("resourcequotas", _quota, lambda rng: {"spec": {"hard": {"pods": rng.choice(("90", "x"))}}}, shared=True),
    Kind("limitranges", _limits, lambda _: {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "7"}}]}}),
    Kind(
        "poddisruptionbudgets.v1.policy",
        _budget,
        lambda rng: {"spec": {"minAvailable": rng.choice((2, "20%", None)), "selector": rng.choice(SELECTORS)}},
        shared=True,
    ),
    Kind("horizontalpodautoscalers.v2.autoscaling", _scaler, lambda rng: {"spec": _scaler_spec(rng)}, shared=True),
    Kind("priorityclasses.v1.scheduling.k8s.io", _priority_class, _priority_class_change, cluster=True),
    Kind(
        "runtimeclasses.v1.node.k8s.io",
        _runtime_class,
        lambda rng: {"handler": rng.choice(("runc", "kata"))},
        cluster=True,
    ),
    Kind(f"validatingwebhookconfigurations.v1.{_HOOK}", _validating, lambda _: {"webhooks": None}, cluster=True),
    Kind(f"mutatingwebhookconfigurations.v1.{_HOOK}", _mutating, lambda _: {"webhooks": None}, cluster=True),
    Kind(
        "customresourcedefinitions.v1.apiextensions.k8s.io",
        _definition,
        _definition_change,
        cluster=True,
        shared=True,
        called=f"{{}}s.{OWN}.example.com",
    ),
)
