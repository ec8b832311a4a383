"""Volumes of the default class: made for the first pod, grown, and gone with their claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.localcluster.apiserver.api import MERGE, PODS, Api, pod, running
from volcanoio.localcluster.apiserver.apimachinery.clock import ServerClock
from volcanoio.localcluster.apiserver.controllers.volume_binder import best_volume
from volcanoio.localcluster.clock import VirtualClock
from volcanoio.model.base import Manifest

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def claim(name: str = "c", **spec: Any) -> Manifest:
    base = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": base | spec}


def user(name: str = "p", claim_name: str = "c") -> Manifest:
    body = pod(name)
    body["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    return body


def there(path: Path) -> bool:
    return path.exists()


async def bind(api: Api, name: str = "p") -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
    assert (await api("POST", f"{PODS}/{name}/binding", body)).code == 201


async def bound(api: Api, name: str = "c") -> Manifest:
    answer = await api.until(f"{CLAIMS}/{name}", lambda one: one.body["status"]["phase"] == "Bound")
    return dict(answer.body)


async def test_a_directory_from_the_first_pod_to_the_last(tmp_path: Path) -> None:
    async with running(data=tmp_path) as api:
        made = await api.made(CLAIMS, claim())
        assert made["spec"]["storageClassName"] == "standard"
        await api.made(PODS, user())
        assert (await api.got(f"{CLAIMS}/c"))["status"] == {"phase": "Pending"}
        await bind(api)
        stored = await bound(api)
        volume = await api.got(f"{VOLUMES}/{stored['spec']['volumeName']}")
        directory = Path(volume["spec"]["hostPath"]["path"])
        assert directory.parent == tmp_path / "volumes"
        (directory / "file").write_text("kept")
        annotations = stored["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/selected-node"] == "n1"
        assert annotations["volume.kubernetes.io/storage-provisioner"] == "volcanoio.dev/directory"
        assert stored["status"]["accessModes"] == ["ReadWriteMany"]
        larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        assert (await api("PATCH", f"{CLAIMS}/c", larger, kind=MERGE)).code == 200
        await api.until(f"{CLAIMS}/c", lambda one: one.body["status"]["capacity"] == {"storage": "2Gi"})
        assert (await api("DELETE", f"{CLAIMS}/c")).code == 200
        assert (await api.got(f"{CLAIMS}/c"))["metadata"]["deletionTimestamp"]
        assert there(directory)
        await api("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await api.gone(f"{CLAIMS}/c")
        await api.gone(f"{VOLUMES}/{stored['spec']['volumeName']}")
        assert not there(directory)


async def test_a_finished_pod_releases_its_claim() -> None:
    async with running() as api:
        await api.made(CLAIMS, claim())
        await api.made(PODS, user())
        await bind(api)
        await bound(api)
        await api("DELETE", f"{CLAIMS}/c")
        await api("PATCH", f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, kind=MERGE)
        await api.gone(f"{CLAIMS}/c")


async def test_a_class_that_binds_at_once_and_keeps(tmp_path: Path) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    async with running(data=tmp_path) as api:
        fields = {"provisioner": "volcanoio.dev/directory", "reclaimPolicy": "Retain"}
        await api.made(classes, {"metadata": {"name": "kept"}, **fields})
        await api.made(CLAIMS, claim(storageClassName="kept"))
        name = (await bound(api))["spec"]["volumeName"]
        await api("DELETE", f"{CLAIMS}/c")
        await api.until(f"{VOLUMES}/{name}", lambda one: one.body["status"]["phase"] == "Released")
        assert (tmp_path / "volumes" / name).is_dir()


async def test_binding_continues_after_a_restart(tmp_path: Path) -> None:
    async with running(data=tmp_path) as api:
        await api.made(CLAIMS, claim())
    async with running(data=tmp_path) as api:
        await api.made(PODS, user())
        await bind(api)
        name = (await bound(api))["spec"]["volumeName"]
    async with running(data=tmp_path) as api:
        await api("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await api("DELETE", f"{CLAIMS}/c")
        await api.gone(f"{VOLUMES}/{name}")


async def test_pods_are_watched_only_while_a_claim_waits() -> None:
    async with running() as api:
        listeners = api.server.core.store._listeners
        assert "pods" not in listeners
        await api.made(CLAIMS, claim())
        await api.until("/api/v1/namespaces/default/events", lambda one: bool(one.body["items"]))
        assert "pods" in listeners
        await api.made(PODS, user())
        await bind(api)
        await bound(api)
        await api.until(f"{CLAIMS}/c", lambda _: "pods" not in listeners)


async def test_a_claim_of_a_missing_class_fails_only_without_a_pod() -> None:
    """A Job's claims are made before its pods."""
    clock = VirtualClock()
    async with running(clock=ServerClock(clock)) as api:
        for name in ("used", "unused"):
            await api.made(CLAIMS, claim(name, storageClassName="absent"))
        await clock.advance(8.0)
        await api.made(PODS, user("p", "used"))
        await bound(api, "used")
        await clock.advance(8.0)
        events = (await api.got("/api/v1/namespaces/default/events"))["items"]
        assert sorted((one["involvedObject"]["name"], one["reason"]) for one in events) == [
            ("unused", "ProvisioningFailed"),
            ("used", "ProvisioningSucceeded"),
        ]


def _volume(name: str, size: str, **fields: Any) -> Manifest:
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **fields}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(("volumes", "name"), [
    ([_volume("a", "2Gi"), _volume("b", "1Gi"), _volume("c", "1Gi")], "b"),
    ([_volume("a", "1Mi")], None),
    ([_volume("a", "1Gi", volumeMode="Block")], None),
    ([_volume("a", "1Gi", storageClassName="x")], None),
    ([_volume("a", "1Gi"), _volume("b", "5Gi", claimRef={"namespace": "n", "name": "c"})], "b"),
    ([_volume("a", "1Gi", claimRef={"namespace": "n", "name": "c", "uid": "other"})], None),
])  # fmt: skip
def test_the_volume_for_a_claim(volumes: list[Manifest], name: str | None) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    wanted = {"metadata": {"namespace": "n", "name": "c", "uid": "u"}, "spec": spec}
    found = best_volume(volumes, wanted, reserved_only=False)
    assert (found["metadata"]["name"] if found else None) == name
