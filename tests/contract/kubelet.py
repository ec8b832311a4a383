"""What a kubelet does, for tests of controllers: pods that appear run, or end as the test says.

Pods stay without a node, so that a deletion is carried out at once on any server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.contract.support import Cluster, Namespace, Obj, pod

Fate = Callable[[Obj], Obj | None]
"""The status that a pod gets; None leaves it alone."""
_STOP = "the-kubelet-stops"


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(obj: Obj) -> Obj:
    """Let the pod run and be ready."""
    del obj
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": now()}]
    return {"phase": "Running", "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}], "conditions": conditions}


def succeeded(obj: Obj) -> Obj:
    """Let the pod succeed."""
    return ended(obj, 0)


def ended(obj: Obj, code: int) -> Obj:
    """Let the pod's containers end with that exit code."""
    states = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "finishedAt": now(), "startedAt": now()}},
        }
        for one in obj["spec"]["containers"]
    ]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": states}


@contextmanager
def kubelet(namespace: Namespace, fate: Fate = running) -> Iterator[None]:
    """Apply a fate to the existing and new pods of a namespace while open."""
    cluster = Cluster.of(namespace.cluster.kubeconfig)
    thread = threading.Thread(target=_serve, args=(Namespace(cluster, namespace.name), fate), name="kubelet")
    thread.start()
    try:
        yield
    finally:
        namespace.cluster.create(namespace.path("pods"), pod(_STOP))
        thread.join()
        cluster.close()
        namespace.cluster.delete(namespace.path("pods", _STOP), {"gracePeriodSeconds": 0})


def _serve(namespace: Namespace, fate: Fate) -> None:
    done: set[str] = set()
    with namespace.cluster.watch(namespace.path("pods")) as events:
        for event in events:
            obj = event["object"]
            name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
            if name == _STOP:
                return
            if event["type"] == "DELETED" or uid in done or obj["metadata"].get("deletionTimestamp"):
                continue
            status = fate(obj)
            if status is not None:
                done.add(uid)
                namespace.cluster.patch(namespace.path("pods", name, "status"), {"status": status})


def until(namespace: Namespace, plural: str, name: str, holds: Callable[[Obj], bool]) -> Obj:
    """Return the object once a condition holds; waits by watching, as a client does."""
    collection = namespace.path(plural)
    last: Obj = {}
    with namespace.cluster.watch(collection, fieldSelector=f"metadata.name={name}", timeoutSeconds=20) as events:
        for event in events:
            last = event["object"]
            if event["type"] in ("ADDED", "MODIFIED") and holds(last):
                return last
    raise AssertionError(last)


def pods_of(namespace: Namespace, **labels: str) -> list[Obj]:
    """The pods with these labels that are not being deleted, by name."""
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    listed = namespace.cluster.get(namespace.path("pods"), labelSelector=selector).ok()["items"]
    alive = [one for one in listed if not one["metadata"].get("deletionTimestamp")]
    return sorted(alive, key=lambda one: str(one["metadata"]["name"]))


def template(*, restart: str = "Always", image: str = "one", **labels: str) -> Obj:
    """A pod template for a scheduler that does not exist."""
    spec = {"schedulerName": "contract-tests", "containers": [{"name": "main", "image": image}]}
    if restart != "Always":
        spec["restartPolicy"] = restart
    return {"metadata": {"labels": labels}, "spec": spec}


def events_of(namespace: Namespace, kind: str, reason: str, least: int = 1) -> list[str]:
    """Return that many messages of Events with a reason about a kind."""
    found: dict[str, str] = {}
    query: dict[str, Any] = {"fieldSelector": f"involvedObject.kind={kind},reason={reason}", "timeoutSeconds": 20}
    with namespace.cluster.watch(namespace.path("events"), **query) as events:
        for event in events:
            found[event["object"]["metadata"]["uid"]] = event["object"]["message"]
            if len(found) >= least:
                return sorted(found.values())
    raise AssertionError(found)
