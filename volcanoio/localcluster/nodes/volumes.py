"""Volumes of simulated pods: what they refer to must exist, and claims are bound when first used.

A missing ConfigMap, Secret or claim keeps the pod in ContainerCreating, as a kubelet does. Claims behave like those of
a StorageClass with `volumeBindingMode: WaitForFirstConsumer`: the first bound pod that uses one gets it a volume.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from volcanoio.kube.transport import ContentType, Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.model.core import PersistentVolumeClaim, Pod
from volcanoio.model.kinds import CONFIG_MAP, PVC, SECRET, Kind

_REMEMBER = 5.0  # seconds for which a thing once found is not looked for again
_PV_PATH = "/api/v1/persistentvolumes"
_PROVISIONER = "sim.volcanoio.dev/provisioner"


class Reference(NamedTuple):
    """What a volume of a pod needs to exist."""

    volume: str
    kind: Kind
    name: str


def references(pod: Pod) -> list[Reference]:
    """The ConfigMaps, Secrets and claims that a pod's volumes need; optional ones are not needed."""
    found: list[Reference] = []
    for volume in pod.spec.volumes:
        label = str(volume.get("name", ""))
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            found.extend(Reference(label, kind, name) for kind, name in _sources(source))
    return found


def _sources(volume: dict[str, Any]) -> list[tuple[Kind, str]]:
    needed = []
    for field, kind, key in (
        ("configMap", CONFIG_MAP, "name"),
        ("secret", SECRET, "secretName" if "secretName" in (volume.get("secret") or {}) else "name"),
        ("persistentVolumeClaim", PVC, "claimName"),
    ):
        source = volume.get(field)
        if source and not source.get("optional") and source.get(key):
            needed.append((kind, str(source[key])))
    return needed


class Volumes:
    """Looks for what volumes need, and binds claims."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._found: dict[tuple[str, str, str], float] = {}

    async def missing(self, pod: Pod) -> str | None:
        """Why the pod's volumes cannot be set up yet; None when they can. Raises TransportError."""
        namespace = pod.metadata.namespace
        for volume, kind, name in references(pod):
            key = (namespace, kind.plural, name)
            if self._found.get(key, 0.0) > self._clock.now():
                continue
            response = await self._transport.request("GET", kind.path(namespace, name))
            if response.status == 404:
                self._found.pop(key, None)
                return f'MountVolume.SetUp failed for volume "{volume}" : {kind.kind.lower()} "{name}" not found'
            if not response.ok:
                msg = f"GET {kind.path(namespace, name)}: HTTP {response.status}"
                raise TransportError(msg)
            if kind is PVC:
                await self._bind(msgspec.json.decode(response.body, type=PersistentVolumeClaim))
            self._remember(key)
        return None

    def _remember(self, key: tuple[str, str, str]) -> None:
        now = self._clock.now()
        if len(self._found) > 10_000:
            self._found = {known: until for known, until in self._found.items() if until > now}
        self._found[key] = now + _REMEMBER

    async def _bind(self, claim: PersistentVolumeClaim) -> None:
        """Make a volume for an unbound claim and join the two. Every step may be repeated."""
        if claim.status.get("phase") == "Bound":
            return
        meta = claim.metadata
        volume = f"pvc-{meta.uid}"
        shared = {
            "capacity": (claim.spec.get("resources") or {}).get("requests") or {},
            "accessModes": claim.spec.get("accessModes") or [],
        }
        path = PVC.path(meta.namespace, meta.name)
        await self._send("POST", _PV_PATH, {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume, "annotations": {"pv.kubernetes.io/provisioned-by": _PROVISIONER}},
            "spec": {
                **shared,
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
                },
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": claim.spec.get("storageClassName") or "",
                "volumeMode": claim.spec.get("volumeMode") or "Filesystem",
                "hostPath": {"path": f"/var/lib/volcanoio/{volume}"},
            },
        })  # fmt: skip
        await self._send("PATCH", f"{_PV_PATH}/{volume}/status", {"status": {"phase": "Bound"}})
        await self._send("PATCH", path, {
            "metadata": {"uid": meta.uid, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume},
        })  # fmt: skip
        await self._send(
            "PATCH", f"{path}/status", {"metadata": {"uid": meta.uid}, "status": {**shared, "phase": "Bound"}}
        )

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        content_type = ContentType.MERGE_PATCH if method == "PATCH" else ContentType.JSON
        response = await self._transport.request(
            method, path, body=msgspec.json.encode(body), content_type=content_type
        )
        if not response.ok and response.status not in (404, 409):
            msg = f"{method} {path}: HTTP {response.status}: {response.body[:200]!r}"
            raise TransportError(msg)
