"""Random scripts of applies, updates and patches, to be sent to two servers and compared.

By hand: `VOLCANOIO_CONTRACT_KUBECONFIG=… python -m tests.contract.applyscripts [FIRST_SEED] [SEEDS]`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.contract import gadgets
from tests.contract.support import FOREIGN, JSON_PATCH, MERGE, STRATEGIC, Answer, Cluster, Namespace, Obj, gone, unique

APPLY = "application/apply-patch+yaml"
MANAGERS = ("one", "two", "three")
STEPS = 14
"""Requests of a script."""


class Step(NamedTuple):
    """One request: what it does, as whom, on which subresource, with which body."""

    verb: str
    manager: str
    subresource: str
    body: Any
    force: bool = False
    version: str = ""


class Kind(NamedTuple):
    """One kind under test: where it is, and random parts of it."""

    plural: str
    api_version: str
    kind: str
    config: Callable[[Random], Obj]
    status: Callable[[Random], Obj] | None = None
    start: Callable[[], Obj] = dict
    versions: tuple[str, ...] = ()


def _some(random: Random, **parts: Callable[[], Any]) -> Obj:
    return {name: make() for name, make in parts.items() if random.random() < 0.45}


def _word(random: Random) -> str:
    return random.choice(("a", "b", "c"))


def _words(random: Random) -> list[str]:
    return random.sample(("a", "b", "c", "d"), random.randint(0, 3))


def _texts(random: Random) -> dict[str, str]:
    return {key: _word(random) for key in _words(random)}


def _metadata(random: Random) -> Obj:
    return _some(
        random,
        labels=lambda: _texts(random),
        annotations=lambda: _texts(random),
        finalizers=lambda: [f"contract.volcanoio.dev/{word}" for word in _words(random)],
    )


def config_map(random: Random) -> Obj:
    """A part of a ConfigMap."""
    return {"metadata": _metadata(random), **_some(random, data=lambda: _texts(random))}


def _env(random: Random) -> list[Obj]:
    return [
        {"name": name, "value": _word(random)}
        if random.random() < 0.7
        else {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}
        for name in _words(random)
    ]


def _ports(random: Random) -> list[Obj]:
    return [
        {"containerPort": port, **_some(random, name=f"p{port}".__str__, protocol=lambda: "TCP")}
        for port in random.sample((80, 443, 9090), random.randint(0, 3))
    ]


def _container(random: Random, name: str) -> Obj:
    return {
        "name": name,
        "image": f"busybox:{_word(random)}",
        **_some(
            random,
            env=lambda: _env(random),
            ports=lambda: _ports(random),
            command=lambda: _words(random),
            resources=lambda: {"limits": {"cpu": random.choice(("1", "2"))}},
            volumeMounts=lambda: [{"name": "v", "mountPath": f"/{word}"} for word in _words(random)],
            terminationMessagePath=lambda: "/dev/other",
        ),
    }


def _pod_spec(random: Random) -> Obj:
    return {
        "containers": [_container(random, name) for name in random.sample(("main", "side"), random.randint(1, 2))],
        "volumes": [{"name": "v", "emptyDir": {}}],
        **_some(
            random,
            nodeSelector=lambda: {"x": _word(random)},
            tolerations=lambda: [{"key": _word(random), "operator": "Exists"}],
            hostAliases=lambda: [{"ip": f"10.0.0.{n}", "hostnames": ["h"]} for n in range(random.randint(0, 2))],
            terminationGracePeriodSeconds=lambda: random.randint(1, 3),
            priorityClassName=lambda: "",
        ),
    }


def template(random: Random) -> Obj:
    """A part of a PodTemplate."""
    inner = {"metadata": _some(random, labels=lambda: _texts(random)), "spec": _pod_spec(random)}
    return {"metadata": _metadata(random), "template": inner}


def deployment(random: Random) -> Obj:
    """A part of a Deployment."""
    inner = {"metadata": {"labels": {"app": "x", **_texts(random)}}, "spec": _pod_spec(random)}
    spec = {
        "selector": {"matchLabels": {"app": "x"}},
        "template": inner,
        **_some(
            random,
            replicas=lambda: random.randint(0, 2),
            minReadySeconds=lambda: random.randint(0, 2),
            strategy=lambda: random.choice(
                ({"type": "RollingUpdate"}, {"rollingUpdate": {"maxSurge": random.choice((1, "50%"))}})
            ),
        ),
    }
    metadata = {key: value for key, value in _metadata(random).items() if key != "annotations"}
    return {"metadata": metadata, "spec": spec}  # annotations are the controller's too


def pod(random: Random) -> Obj:
    """A part of a Pod, whose spec hardly changes."""
    container = {"name": "main", "image": f"busybox:{_word(random)}"}
    spec: Obj = {"containers": [container]} if random.random() < 0.7 else {}
    if random.random() < 0.3:
        spec["activeDeadlineSeconds"] = random.randint(50, 60) - 10 * random.randint(0, 2)
    return {"metadata": _metadata(random), **({"spec": spec} if spec else {})}


def _first_pod() -> Obj:
    container = {
        "name": "main",
        "image": "busybox:first",
        "env": [{"name": "a", "value": "b"}],
        "ports": [{"containerPort": 80}],
    }
    return {"metadata": {}, "spec": {"containers": [container], "automountServiceAccountToken": False}}


def _condition(random: Random, name: str) -> Obj:
    return {
        "type": name,
        "status": random.choice(("True", "False")),
        **_some(random, message=lambda: _word(random)),
    }


def pod_status(random: Random) -> Obj:
    """A part of a pod's status."""
    names = random.sample(("Ready", "Mine", "Yours"), random.randint(0, 3))
    conditions = [_condition(random, name) for name in names]
    return {"status": _some(random, message=lambda: _word(random), conditions=lambda: conditions)}


def _gadget_ports(random: Random) -> list[Obj]:
    return [
        {
            "port": port,
            **_some(
                random,
                protocol=lambda: "TCP",
                host=lambda: _word(random),
                options=lambda: _some(random, a=lambda: _word(random), b=lambda: random.randint(0, 2)),
            ),
        }
        for port in random.sample((1, 2, 3), random.randint(0, 3))
    ]


def gadget(random: Random) -> Obj:
    """A part of a Gadget."""
    spec = _some(
        random,
        replicas=lambda: random.randint(0, 3),
        color=lambda: _word(random),
        note=lambda: random.choice((None, "x", "y")),
        amount=lambda: random.choice((1, "1", "50%")),
        ports=lambda: _gadget_ports(random),
        tags=lambda: _words(random),
        steps=lambda: _words(random),
        labels=lambda: _texts(random),
        whole=lambda: _texts(random),
        box=lambda: _some(random, height=lambda: random.randint(1, 2), width=lambda: random.randint(1, 2)),
        free=lambda: random.choice(({}, {"a": 1}, {"a": {"b": "c"}}, {"a": [1], "d": "e"})),
        inner=lambda: {"deep": _some(random, x=lambda: _word(random), y=lambda: _word(random))},
    )
    found: Obj = {"metadata": _metadata(random)}
    return found if not spec and random.random() < 0.5 else {**found, "spec": spec}


def gadget_status(random: Random) -> Obj:
    """A part of a gadget's status."""
    names = random.sample(("A", "B", "C"), random.randint(0, 3))
    return {
        "status": _some(
            random,
            replicas=lambda: random.randint(0, 2),
            conditions=lambda: [_condition(random, name) for name in names],
        )
    }


def service(random: Random) -> Obj:
    """A part of a Service."""
    ports = [
        {"port": port, "name": f"p{port}", **_some(random, protocol="TCP".__str__, targetPort=lambda: 8080)}
        for port in random.sample((80, 443, 9090), random.randint(1, 3))
    ]
    spec = {"ports": ports, **_some(random, selector=lambda: _texts(random))}
    return {"metadata": _metadata(random), "spec": spec}


def _first_service() -> Obj:
    return {"metadata": {}, "spec": {"ports": [{"port": 80, "name": "p80"}]}}


def role(random: Random) -> Obj:
    """A part of a Role."""
    rules = [
        {"apiGroups": [""], "resources": ["pods", *_words(random)], "verbs": ["get"]}
        for _ in range(random.randint(1, 2))
    ]
    return {"metadata": _metadata(random), "rules": rules}


KINDS = {
    "configmap": Kind("configmaps", "v1", "ConfigMap", config_map),
    "podtemplate": Kind("podtemplates", "v1", "PodTemplate", template),
    "deployment": Kind("deployments.v1.apps", "apps/v1", "Deployment", deployment),
    "pod": Kind("pods", "v1", "Pod", pod, pod_status, _first_pod),
    "service": Kind("services", "v1", "Service", service, start=_first_service),
    "role": Kind("roles.v1.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "Role", role),
    "gadget": Kind(gadgets.PLURAL, f"{gadgets.GROUP}/v1", "Gadget", gadget, gadget_status, versions=("v1", "v2")),
}


def script(kind: Kind, seed: str) -> list[Step]:
    """The requests of a seed."""
    random = Random(seed)
    steps = [Step("create", "creator", "", kind.start())] if kind.start is not dict else []
    for _ in range(STEPS):
        manager = random.choice(MANAGERS)
        on_status = kind.status is not None and random.random() < 0.3
        make = kind.status if on_status and kind.status else kind.config
        verb = random.choice(("apply", "apply", "apply", "merge", "replace", "json", "strategic", "reset", "scale"))
        if verb in {"reset", "scale"} and random.random() < 0.7:
            verb = "apply"
        if verb == "json" and on_status and kind.kind == "Pod":
            verb = "merge"  # a status replaced as a whole would lose what the server keeps in it
        if verb in {"replace", "json"} and kind.kind == "Service":
            verb = "merge"  # who owns an address that a replacement leaves out differs
        version = random.choice(kind.versions) if kind.versions else ""
        subresource = "status" if on_status else ""
        steps.append(Step(verb, manager, subresource, make(random), random.random() < 0.4, version))
    return steps


def _remove(cluster: Cluster, namespace: str, kind: Kind) -> None:
    path = Namespace(cluster, namespace).path(kind.plural, "x")
    cluster.patch(path, {"metadata": {"finalizers": None}})
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    cluster.delete(path, options)
    gone(cluster, path)


def _send(cluster: Cluster, namespace: Namespace, kind: Kind, step: Step) -> Answer:
    plural, api_version = kind.plural, kind.api_version
    if step.version:
        plural = plural.replace(".v1.", f".{step.version}.")
        api_version = api_version.replace("/v1", f"/{step.version}")
    path = namespace.path(plural, "x", step.subresource)
    whole = {"apiVersion": api_version, "kind": kind.kind, **step.body}
    whole["metadata"] = {"name": "x", **step.body.get("metadata", {})}
    match step.verb:
        case "create":
            return cluster.create(namespace.path(plural), whole, fieldManager=step.manager)
        case "replace":
            current = cluster.get(path)
            if current.code == 200 and kind.kind != "Deployment":  # whose controller may have come between
                whole["metadata"]["resourceVersion"] = current.body["metadata"]["resourceVersion"]
            return cluster.replace(path, whole, fieldManager=step.manager)
        case "merge":
            return cluster.patch(path, step.body, MERGE, fieldManager=step.manager)
        case "strategic":
            return cluster.patch(path, step.body, STRATEGIC, fieldManager=step.manager)
        case "json":
            operations = [{"op": "add", "path": f"/{key}", "value": value} for key, value in step.body.items()]
            operations = [one for one in operations if one["path"] != "/metadata"]
            return cluster.patch(path, operations, JSON_PATCH, fieldManager=step.manager)
        case "reset":
            return cluster.patch(path, {"metadata": {"managedFields": [{}]}}, MERGE, fieldManager=step.manager)
        case "scale":
            return cluster.patch(
                namespace.path(plural, "x", "scale"), {"spec": {"replicas": 7}}, MERGE, fieldManager=step.manager
            )
    return cluster.patch(path, whole, APPLY, fieldManager=step.manager, force=step.force)


_VARYING = ("uid", "resourceVersion", "creationTimestamp", "namespace", "deletionTimestamp", "generation")


def _normal(answer: Answer) -> Any:
    body = answer.body
    if not isinstance(body, dict):
        return [answer.code, body]
    if body.get("kind") == "Status":
        details = body.get("details") or {}
        causes = sorted(json.dumps(one, sort_keys=True) for one in details.get("causes") or ())
        message = body.get("message", "") if body.get("reason") == "Conflict" else ""
        return [answer.code, body.get("reason"), *sorted(message.splitlines()), *(causes if message else [])]
    metadata = {key: value for key, value in body["metadata"].items() if key not in _VARYING}
    annotations = metadata.get("annotations") or {}
    annotations.pop("deployment.kubernetes.io/revision", None)
    entries = [
        {**one, "time": "time" in one}
        for one in metadata.pop("managedFields", None) or ()
        if one["manager"] not in {"kube-controller-manager", "volcanoio"}
    ]
    if body["kind"] == "Deployment":
        for entry in entries:
            metadata_fields = entry["fieldsV1"].get("f:metadata", {"": {}})
            metadata_fields.pop("f:annotations", None)  # the controller's revision
            if not metadata_fields:
                del entry["fieldsV1"]["f:metadata"]
    found = {
        "managedFields": sorted(json.dumps(one, sort_keys=True) for one in entries),
        "metadata": _compact(metadata),
    }
    rest = {key: value for key, value in body.items() if key != "metadata"}
    if body["kind"] in {"ConfigMap", "Gadget"}:
        found["rest"] = rest if body["kind"] == "Gadget" else _compact(rest)
    return {"code": answer.code, **found}


def _compact(value: Any) -> Any:
    """Without empty objects, which one server writes and another leaves out."""
    if isinstance(value, dict):
        return {key: inner for key, one in value.items() if (inner := _compact(one)) not in ({}, [], None)}
    return value


def differences(one: Cluster, other: Cluster, namespace: str, kind: Kind, seed: str) -> Iterator[str]:
    """Describe the differences between two servers; a script ends at the first one."""
    history: list[str] = []
    for step in script(kind, seed):
        sent = [_send(cluster, Namespace(cluster, namespace), kind, step) for cluster in (one, other)]
        answers = [_normal(answer) for answer in sent]
        history.append(f"  {step}")
        messages = [str(answer.body.get("message")).partition("\n{")[0] for answer in sent if answer.code >= 300]
        history += [f"    {message}" for message in messages]
        if answers[0] != answers[1]:
            yield "\n".join([f"{kind.kind} {seed}", *history, *_apart(*answers)])
            break
    for cluster in (one, other):
        _remove(cluster, namespace, kind)


def _apart(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Describe the differences of two normalised responses, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = dict.fromkeys([*ours, *theirs])
        return [line for key in keys for line in _apart(ours.get(key), theirs.get(key), f"{path}.{key}")]
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        found = [f"  first  {path}: {one}" for one in ours if one not in theirs]
        found += [f"  second {path}: {one}" for one in theirs if one not in ours]
        return found or ([] if ours == theirs else [f"  order {path}: {ours} {theirs}"])
    return [] if ours == theirs else [f"  first  {path}: {ours}", f"  second {path}: {theirs}"]


def prepare(cluster: Cluster, namespace: str) -> None:
    """Gadgets are served, and the namespace exists."""
    gadgets.with_gadgets(cluster)
    cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}}).ok()
    with cluster.watch(f"/api/v1/namespaces/{namespace}/serviceaccounts") as events:
        next(events)


def main() -> None:
    """Run many seeds on the embedded server and the one of the environment."""
    from tests.contract.embedded import embedded_server

    first, count = (int(text) for text in [*sys.argv[1:3], *("0", "20")[len(sys.argv[1:3]) :]])
    kinds = sys.argv[3:] or list(KINDS)
    namespace = unique("applyscripts")
    with tempfile.TemporaryDirectory() as directory, embedded_server(Path(directory)) as kubeconfig:
        ours, theirs = Cluster.of(kubeconfig), Cluster.of(Path(os.environ[FOREIGN]))
        for cluster in (ours, theirs):
            prepare(cluster, namespace)
        failed = 0
        for seed in range(first, first + count):
            for name in kinds:
                for text in differences(ours, theirs, namespace, KINDS[name], f"{name}-{seed}"):
                    failed += 1
                    print(text, flush=True)
        print(f"{failed} of {count * len(kinds)} scripts differ")
        theirs.delete(f"/api/v1/namespaces/{namespace}")
        for cluster in (ours, theirs):
            cluster.close()


if __name__ == "__main__":
    main()
