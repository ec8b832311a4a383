"""Claims and volumes: who belongs to whom, what each says of it, and what protects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.support import Namespace, Obj, gone, unique

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


class Storage:
    """Volumes and classes with names of their own, removed at the end."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.class_name = unique("class")
        self._made: list[str] = []

    def volume(self, size: str = "1Gi", labels: Obj | None = None, **spec: Any) -> str:
        """Store a volume; returns its name."""
        base = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": self.class_name}
        name = unique("volume")
        body = {"metadata": {"name": name, "labels": labels or {}}, "spec": base | {"hostPath": {"path": "/x"}} | spec}
        self._made.append(f"{VOLUMES}/{name}")
        self.namespace.cluster.create(VOLUMES, body).ok()
        return name

    def claim(self, name: str, size: str = "1Gi", **spec: Any) -> Obj:
        """Store a claim."""
        base = {"accessModes": ["ReadWriteOnce"], "storageClassName": self.class_name}
        body = {"metadata": {"name": name}, "spec": base | {"resources": {"requests": {"storage": size}}} | spec}
        return self.namespace.cluster.create(self.namespace.path("persistentvolumeclaims"), body).ok()

    def storage_class(self, **fields: Any) -> str:
        """Store the class."""
        path = f"{CLASSES}/{self.class_name}"
        self._made.append(path)
        body = {"metadata": {"name": self.class_name}, "provisioner": "kubernetes.io/no-provisioner", **fields}
        self.namespace.cluster.create(CLASSES, body).ok()
        return path

    def claimed(self, name: str, done: Callable[[Obj], bool] = lambda one: one["status"]["phase"] == "Bound") -> Obj:
        """A claim once it is bound, or as expected."""
        return self._until(self.namespace.path("persistentvolumeclaims"), name, done)

    def volume_until(self, name: str, phase: str) -> Obj:
        """A volume once it is in a phase."""
        return self._until(VOLUMES, name, lambda one: one["status"].get("phase") == phase)

    def _until(self, collection: str, name: str, done: Callable[[Obj], bool]) -> Obj:
        with self.namespace.cluster.watch(collection, fieldSelector=f"metadata.name={name}") as events:
            return next(event["object"] for event in events if done(event["object"]))

    def close(self) -> None:
        claims = self.namespace.path("persistentvolumeclaims")
        self.namespace.cluster.delete(claims)
        for path in self._made:
            self.namespace.cluster.delete(path)


@pytest.fixture
def storage(namespace: Namespace) -> Iterator[Storage]:
    found = Storage(namespace)
    yield found
    found.close()


def test_a_volume_and_a_claim_are_joined(storage: Storage) -> None:
    name = storage.volume()
    fresh = storage.volume_until(name, "Available")
    assert fresh["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert fresh["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert fresh["spec"]["volumeMode"] == "Filesystem"
    made = storage.claim("c")
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert made["status"] == {"phase": "Pending"}
    bound = storage.claimed("c")
    assert bound["spec"]["volumeName"] == name
    assert bound["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    yes = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    assert bound["metadata"]["annotations"] == yes
    volume = storage.volume_until(name, "Bound")
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    reference = volume["spec"]["claimRef"]
    assert (reference["kind"], reference["name"], reference["uid"]) == (
        "PersistentVolumeClaim",
        "c",
        made["metadata"]["uid"],
    )


def test_the_smallest_that_fits(storage: Storage) -> None:
    storage.volume("10Gi")
    wanted = storage.volume("3Gi")
    storage.volume("1Gi")
    storage.volume("2Gi", accessModes=["ReadOnlyMany"])
    storage.volume("2Gi", storageClassName="other")
    storage.claim("c", "2Gi")
    assert storage.claimed("c")["spec"]["volumeName"] == wanted
    assert storage.claimed("c")["status"]["capacity"] == {"storage": "3Gi"}


def test_labels_and_modes(storage: Storage) -> None:
    storage.volume()
    wanted = storage.volume("2Gi", {"disk": "ssd"}, accessModes=["ReadWriteMany", "ReadWriteOnce"])
    storage.claim("c", accessModes=["ReadWriteMany"], selector={"matchLabels": {"disk": "ssd"}})
    bound = storage.claimed("c")
    assert bound["spec"]["volumeName"] == wanted
    assert set(bound["status"]["accessModes"]) == {"ReadWriteMany", "ReadWriteOnce"}


def test_a_claim_names_its_volume(storage: Storage) -> None:
    storage.volume()
    wanted = storage.volume("5Gi")
    storage.volume_until(wanted, "Available")
    storage.claim("c", volumeName=wanted)
    bound = storage.claimed("c")
    assert bound["spec"]["volumeName"] == wanted
    assert bound["metadata"]["annotations"] == {"pv.kubernetes.io/bind-completed": "yes"}


def test_a_volume_names_its_claim(storage: Storage) -> None:
    reference = {"namespace": storage.namespace.name, "name": "c", "kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    wanted = storage.volume("5Gi", claimRef=reference)
    storage.volume_until(wanted, "Available")
    storage.volume()
    storage.claim("c")
    assert storage.claimed("c")["spec"]["volumeName"] == wanted
    assert "annotations" not in storage.volume_until(wanted, "Bound")["metadata"]


def test_a_claim_waits_for_its_first_consumer(storage: Storage) -> None:
    storage.storage_class(volumeBindingMode="WaitForFirstConsumer")
    name = storage.volume()
    storage.claim("c")
    with storage.namespace.cluster.watch(storage.namespace.path("events")) as events:
        found = next(one["object"] for one in events if one["object"]["involvedObject"]["name"] == "c")
    assert (found["reason"], found["type"]) == ("WaitForFirstConsumer", "Normal")
    assert found["message"] == "waiting for first consumer to be created before binding"
    claim = storage.namespace.cluster.get(storage.namespace.path("persistentvolumeclaims", "c")).ok()
    assert claim["status"] == {"phase": "Pending"}
    kind = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}  # the scheduler reserves a volume in this way
    reference = kind | {"namespace": storage.namespace.name, "name": "c", "uid": claim["metadata"]["uid"]}
    storage.namespace.cluster.patch(f"{VOLUMES}/{name}", {"spec": {"claimRef": reference}}).ok()
    storage.claimed("c")


def test_no_class_and_no_volume(storage: Storage) -> None:
    storage.claim("c", storageClassName="")
    storage.claim("d", storageClassName="absent")
    reasons = {}
    with storage.namespace.cluster.watch(storage.namespace.path("events")) as events:
        for event in events:
            found = event["object"]
            reasons[found["involvedObject"]["name"]] = (found["reason"], found["type"], found["message"])
            if len(reasons) == 2:
                break
    text = "no persistent volumes available for this claim and no storage class is set"
    assert reasons["c"] == ("FailedBinding", "Normal", text)
    assert reasons["d"] == ("ProvisioningFailed", "Warning", 'storageclass.storage.k8s.io "absent" not found')


def test_a_volume_outlives_its_claim(storage: Storage) -> None:
    name = storage.volume()
    storage.claim("c")
    storage.claimed("c")
    path = storage.namespace.path("persistentvolumeclaims", "c")
    storage.namespace.cluster.delete(path).ok()
    gone(storage.namespace.cluster, path)
    storage.volume_until(name, "Released")
    storage.claim("d")
    storage.namespace.cluster.delete(f"{VOLUMES}/{name}").ok()
    gone(storage.namespace.cluster, f"{VOLUMES}/{name}")


def test_a_bound_volume_is_protected(storage: Storage) -> None:
    name = storage.volume()
    storage.claim("c")
    storage.claimed("c")
    storage.namespace.cluster.delete(f"{VOLUMES}/{name}").ok()
    kept = storage.namespace.cluster.get(f"{VOLUMES}/{name}").ok()
    assert kept["metadata"]["deletionTimestamp"]
    storage.namespace.cluster.delete(storage.namespace.path("persistentvolumeclaims", "c")).ok()
    gone(storage.namespace.cluster, f"{VOLUMES}/{name}")


def test_a_claim_in_use_is_protected(storage: Storage) -> None:
    storage.volume()
    storage.claim("c")
    storage.claimed("c")
    namespace = storage.namespace
    namespace.pod("p", nodeName="node-1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    path = namespace.path("persistentvolumeclaims", "c")
    deleting = namespace.cluster.delete(path).ok()
    assert deleting["metadata"]["deletionTimestamp"]
    assert namespace.cluster.get(path).ok()["status"]["phase"] == "Bound"
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    namespace.cluster.delete(namespace.path("pods", "p"), options).ok()
    gone(namespace.cluster, path)


def test_a_claim_that_lost_its_volume(storage: Storage) -> None:
    name = storage.volume()
    storage.claim("c")
    storage.claimed("c")
    storage.namespace.cluster.delete(f"{VOLUMES}/{name}").ok()
    storage.namespace.cluster.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}}).ok()
    storage.claimed("c", lambda one: one["status"]["phase"] == "Lost")


WRONG_CLAIMS: list[tuple[Obj, list[str]]] = [
    ({"accessModes": ["X"]}, ["spec.accessModes"]),
    ({"accessModes": []}, ["spec.accessModes"]),
    ({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}, ["spec.accessModes"]),
    ({"resources": {"requests": {"storage": "0"}}}, ["spec.resources[storage]"]),
    ({"resources": {}}, ["spec.resources[storage]"]),
]


@pytest.mark.parametrize(("spec", "fields"), WRONG_CLAIMS)
def test_a_claim_must_be_right(namespace: Namespace, spec: Obj, fields: list[str]) -> None:
    base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "c"}, "spec": base | spec}
    answer = namespace.cluster.create(namespace.path("persistentvolumeclaims"), body)
    assert [one["field"] for one in answer.refused(422, "Invalid")["details"]["causes"]] == fields


def test_allowed_changes_of_a_claim(storage: Storage) -> None:
    storage.claim("c")
    path = storage.namespace.path("persistentvolumeclaims", "c")
    larger = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    for change in ({"spec": {"accessModes": ["ReadWriteMany"]}}, larger):
        [cause] = storage.namespace.cluster.patch(path, change).refused(422, "Invalid")["details"]["causes"]
        assert cause["field"] == "spec"
        assert cause["message"].startswith("Forbidden: spec is immutable after creation except resources.requests and")
    causes = storage.namespace.cluster.patch(path, {"spec": {"volumeMode": "Block"}}).refused(422, "Invalid")["details"]
    assert [(cause["field"], cause["reason"]) for cause in causes["causes"]] == [
        ("spec", "FieldValueForbidden"),
        ("volumeMode", "FieldValueInvalid"),
    ]
    storage.volume()
    storage.claimed("c")
    answer = storage.namespace.cluster.patch(path, larger)
    text = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support"
    assert text in answer.refused(403, "Forbidden")["message"]


WRONG_VOLUMES: list[tuple[Obj, str]] = [
    ({"accessModes": ["X"]}, "spec.accessModes"),
    ({"capacity": {"storage": "0"}}, "spec.capacity[storage]"),
    ({"persistentVolumeReclaimPolicy": "X"}, "spec.persistentVolumeReclaimPolicy"),
    ({"hostPath": None}, "spec"),
]


@pytest.mark.parametrize(("spec", "field"), WRONG_VOLUMES)
def test_a_volume_must_be_right(namespace: Namespace, spec: Obj, field: str) -> None:
    base = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    answer = namespace.cluster.create(VOLUMES, {"metadata": {"name": unique("wrong")}, "spec": base | spec})
    assert answer.refused(422, "Invalid")["details"]["causes"][0]["field"] == field


def test_a_storage_class(storage: Storage) -> None:
    path = storage.storage_class()
    made = storage.namespace.cluster.get(path).ok()
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
    for change, field in (
        ({"provisioner": "other"}, "provisioner"),
        ({"reclaimPolicy": "Retain"}, "reclaimPolicy"),
        ({"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode"),
    ):
        answer = storage.namespace.cluster.patch(path, change)
        assert answer.refused(422, "Invalid")["details"]["causes"][0]["field"] == field
