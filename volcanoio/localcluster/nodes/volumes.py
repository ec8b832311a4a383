"""Volumes of simulated pods: what they refer to must exist, and claims must be bound.

A missing ConfigMap, Secret or claim keeps the pod in ContainerCreating, as a kubelet does; so does a claim that
is not bound yet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from volcanoio.kube.transport import Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.model.core import Pod
from volcanoio.model.kinds import CONFIG_MAP, PVC, SECRET, Kind
from volcanoio.model.storage import PersistentVolumeClaim

_REMEMBER = 5.0  # seconds for which a found object is not checked again


class Reference(NamedTuple):
    """An object that a volume of a pod requires."""

    volume: str
    kind: Kind
    name: str


def references(pod: Pod) -> list[Reference]:
    """Return the required ConfigMaps, Secrets and claims of a pod's volumes."""
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
    """Check that the objects of volumes exist."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._found: dict[tuple[str, str, str], float] = {}

    async def missing(self, pod: Pod) -> str | None:
        """Return why the pod's volumes cannot be set up yet.

        The result is None when they can. Raises TransportError.
        """
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
            if kind is PVC and _phase(response.body) != "Bound":
                return f'MountVolume.SetUp failed for volume "{volume}" : PVC {namespace}/{name} is not bound'
            self._remember(key)
        return None

    def _remember(self, key: tuple[str, str, str]) -> None:
        now = self._clock.now()
        if len(self._found) > 10_000:
            self._found = {known: until for known, until in self._found.items() if until > now}
        self._found[key] = now + _REMEMBER


def _phase(body: bytes) -> str:
    """Return the phase of a claim."""
    return msgspec.json.decode(body, type=PersistentVolumeClaim).status.phase
