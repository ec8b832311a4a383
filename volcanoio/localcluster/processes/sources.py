"""Objects and fields a pod's containers are made from: ConfigMaps, Secrets, claims, tokens, its node and itself.

`fieldRef` and `resourceFieldRef` are resolved here, for variables and for downward API volumes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model import quantity
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import CONFIG_MAP, NODE, PVC, SECRET, Kind

Content = Mapping[str, bytes]
"""Keys and data of a ConfigMap or Secret."""


class Missing(ValueError):  # noqa: N818 - named for what it is
    """An object or key that a container requires is missing; the text is a kubelet's."""


@dataclass(frozen=True)
class Sources:
    """Objects that a pod refers to; missing ones are absent."""

    config_maps: Mapping[str, Content] = field(default_factory=dict)
    secrets: Mapping[str, Content] = field(default_factory=dict)
    claims: Mapping[str, Manifest] = field(default_factory=dict)
    volumes: Mapping[str, Manifest] = field(default_factory=dict)
    """PersistentVolumes of the claims, by claim."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Service account tokens by audience."""
    allocatable: Mapping[str, Any] = field(default_factory=dict)
    """What the pod's node offers."""

    def config_map(self, reference: Mapping[str, Any]) -> Content | None:
        """Return a ConfigMap by reference, None for a missing optional one. Raises Missing."""
        return _wanted(self.config_maps, "configmap", str(reference.get("name", "")), reference)

    def secret(self, reference: Mapping[str, Any]) -> Content | None:
        """Return a Secret by reference (`name` or `secretName`), None for an optional one.

        Raises Missing.
        """
        name = str(reference.get("secretName") or reference.get("name", ""))
        return _wanted(self.secrets, "secret", name, reference)


def _wanted(found: Mapping[str, Content], kind: str, name: str, reference: Mapping[str, Any]) -> Content | None:
    if name in found:
        return found[name]
    if reference.get("optional"):
        return None
    raise Missing(f'{kind} "{name}" not found')


class SourceReader:
    """Reader of pods' sources from the API server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self, pod: Manifest, tokens: Mapping[str, str] | None = None) -> Sources:
        """Return all existing objects that the pod refers to; valid `tokens` are reused.

        Raises TransportError, and Missing for a token that is not to be had.
        """
        namespace = pod["metadata"]["namespace"]
        names = {kind: sorted(set(_names(pod, kind))) for kind in (CONFIG_MAP, SECRET, PVC)}
        wanted = [(kind, name) for kind, found in names.items() for name in found]
        objects = await asyncio.gather(*[self.get(kind.path(namespace, name)) for kind, name in wanted])
        found = {key: one for key, one in zip(wanted, objects, strict=True) if one is not None}
        claims = {name: one for (kind, name), one in found.items() if kind is PVC}
        node = await self.get(NODE.path("", pod["spec"].get("nodeName", ""))) if _asks_node(pod) else None
        if tokens is None:
            tokens = {audience: await self._token(pod, audience) for audience in sorted(_audiences(pod))}
        return Sources(
            config_maps={name: _content(one) for (kind, name), one in found.items() if kind is CONFIG_MAP},
            secrets={name: _content(one) for (kind, name), one in found.items() if kind is SECRET},
            claims=claims,
            volumes=await self._volumes(claims),
            tokens=tokens,
            allocatable=((node or {}).get("status") or {}).get("allocatable") or {},
        )

    async def _volumes(self, claims: Mapping[str, Manifest]) -> dict[str, Manifest]:
        found: dict[str, Manifest] = {}
        for name, claim in claims.items():
            bound = (claim.get("spec") or {}).get("volumeName")
            volume = await self.get(f"/api/v1/persistentvolumes/{bound}") if bound else None
            if volume is not None:
                found[name] = volume
        return found

    async def _token(self, pod: Manifest, audience: str) -> str:
        account = pod["spec"].get("serviceAccountName") or "default"
        meta = pod["metadata"]
        spec: dict[str, Any] = {
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        }
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        response = await self._transport.request(
            "POST",
            f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token",
            body=msgspec.json.encode(body),
        )
        if not response.ok:
            raise Missing(f"no token for service account {account}: HTTP {response.status}")
        return str(msgspec.json.decode(response.body)["status"]["token"])

    async def get(self, path: str) -> Manifest | None:
        """Return an object, None when it does not exist. Raises TransportError."""
        response = await self._transport.request("GET", path)
        if response.status == 404:
            return None
        if not response.ok:
            raise TransportError(f"GET {path}: HTTP {response.status}")
        found: Manifest = msgspec.json.decode(response.body)
        return found


def _content(one: Manifest) -> Content:
    """Return the data of a ConfigMap (text, and binaryData in base64) or of a Secret (base64)."""
    text = {key: value.encode() for key, value in (one.get("data") or {}).items() if one.get("kind") == "ConfigMap"}
    coded = one.get("binaryData") if one.get("kind") == "ConfigMap" else one.get("data")
    return text | {key: _decoded(value) for key, value in (coded or {}).items()}


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except (binascii.Error, ValueError):
        return b""


def containers_of(pod: Manifest) -> Iterator[Manifest]:
    """Return all containers of a pod, init containers first."""
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"].get("containers") or ()


def _names(pod: Manifest, kind: Kind) -> Iterator[str]:
    """Return the names of the objects of a kind that a pod refers to."""
    yield from _names_in_volumes(pod, kind)
    if kind is not PVC:
        yield from _names_in_containers(pod, kind)


def _names_in_volumes(pod: Manifest, kind: Kind) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            for field_, of in (("configMap", CONFIG_MAP), ("secret", SECRET), ("persistentVolumeClaim", PVC)):
                reference = source.get(field_)
                if of is kind and reference:
                    yield str(reference.get("claimName") or reference.get("secretName") or reference.get("name") or "")
        if kind is PVC and volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"


def _names_in_containers(pod: Manifest, kind: Kind) -> Iterator[str]:
    of_all = "configMapRef" if kind is CONFIG_MAP else "secretRef"
    of_one = "configMapKeyRef" if kind is CONFIG_MAP else "secretKeyRef"
    for container in containers_of(pod):
        for bundle in container.get("envFrom") or ():
            if of_all in bundle:
                yield str(bundle[of_all].get("name", ""))
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get(of_one)
            if reference:
                yield str(reference.get("name", ""))


def _audiences(pod: Manifest) -> set[str]:
    return {
        str(source["serviceAccountToken"].get("audience") or "")
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("serviceAccountToken")
    }


def _asks_node(pod: Manifest) -> bool:
    """Return whether a resourceFieldRef may require the capacity of the node."""
    in_variables = any(
        "resourceFieldRef" in (variable.get("valueFrom") or {})
        for container in containers_of(pod)
        for variable in container.get("env") or ()
    )
    return in_variables or any(
        "resourceFieldRef" in item
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ()))
        for item in (source.get("downwardAPI") or {}).get("items") or ()
    )


_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class FieldError(ValueError):
    """A reference that cannot be resolved; the text contains the reason."""


def field_value(pod: Manifest, path: str) -> str:
    """Return the text of a field. Raises FieldError for an unsupported one."""
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    read = _FIELDS.get(path)
    if read is None:
        msg = f"unsupported fieldPath: {path}; use one of {', '.join(_FIELDS)}, or metadata.labels['KEY']"
        raise FieldError(msg)
    return read(pod)


def _map(field: str) -> Callable[[Manifest], str]:
    """Return a label or annotation map as lines `key="value"`, as downward API volumes show it."""
    return lambda pod: "\n".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted((pod["metadata"].get(field) or {}).items())
    )


def _text(part: str, field: str) -> Callable[[Manifest], str]:
    return lambda pod: str((pod.get(part) or {}).get(field, ""))


_FIELDS: dict[str, Callable[[Manifest], str]] = {
    "metadata.name": _text("metadata", "name"),
    "metadata.namespace": _text("metadata", "namespace"),
    "metadata.uid": _text("metadata", "uid"),
    "metadata.labels": _map("labels"),
    "metadata.annotations": _map("annotations"),
    "spec.nodeName": _text("spec", "nodeName"),
    "spec.serviceAccountName": lambda pod: str(pod["spec"].get("serviceAccountName") or "default"),
    "status.hostIP": _text("status", "hostIP"),
    "status.hostIPs": _text("status", "hostIP"),
    "status.podIP": _text("status", "podIP"),
    "status.podIPs": _text("status", "podIP"),
}
"""Field path → how it is read. Pods with a runtime have one address of each kind."""


def resource_value(pod: Manifest, container: str, reference: Mapping[str, Any], allocatable: Mapping[str, Any]) -> str:
    """Return a container's request or limit, divided and rounded up.

    Without a limit, it is the capacity of the node.

    Kubernetes: `pkg/api/v1/resource`, ExtractContainerResourceValue.
    """
    spec = pod["spec"]
    name = reference.get("containerName") or container
    found = next(
        (one for one in (*spec["containers"], *(spec.get("initContainers") or ())) if one["name"] == name), None
    )
    if found is None:
        msg = f"resourceFieldRef: there is no container {name} in the pod"
        raise FieldError(msg)
    kind, _, resource = str(reference.get("resource", "")).partition(".")
    if kind not in ("limits", "requests") or not resource:
        msg = f"resourceFieldRef: {reference.get('resource')!r} must be limits.NAME or requests.NAME"
        raise FieldError(msg)
    amount = ((found.get("resources") or {}).get(kind) or {}).get(resource)
    if amount is None:
        amount = allocatable.get(resource, "0") if kind == "limits" else "0"
    divisor = str(reference.get("divisor") or "1")
    parts = quantity.parse(str(amount)) / (quantity.parse(divisor) or 1)
    return str(-((-parts.numerator) // parts.denominator))
