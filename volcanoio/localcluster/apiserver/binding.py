"""Binding a pod to a node (Kubernetes: pkg/registry/core/pod/storage, BindingREST)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

SUCCESS: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Target(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    target: _Target = msgspec.field(default_factory=_Target)


_decode = msgspec.json.Decoder(_Binding).decode


class Binder:
    """Carries out Bindings."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pods: Resource = core.registry.builtin("pods")

    def bind(self, namespace: str, name: str, body: bytes, *, dry_run: bool = False) -> bytes:
        """Assign the pod to the node; `name` may be empty when the Binding names the pod. Raises ApiError."""
        try:
            binding = _decode(body)
        except errors.MALFORMED as error:
            raise errors.bad_request(f"the body is not a Binding object: {error}") from None
        name = name or binding.metadata.name
        if binding.metadata.name and binding.metadata.name != name:
            text = f"the name of the object ({binding.metadata.name}) does not match the name on the URL ({name})"
            raise errors.bad_request(text)
        if not binding.target.name or binding.target.kind not in {"", "Node"}:
            raise errors.bad_request("target: a Binding names a Node: set target.kind to Node and target.name")
        ref = Ref("pods", namespace, name)
        stored = self._core.store.get(ref)
        if stored is None:
            raise errors.not_found(self._pods, name)
        pod = stored.decode()
        self._check(pod, name, binding)
        self._assign(pod, binding)
        if not dry_run:
            self._core.check_writable()
            self._core.store.put(ref, pod)
        return SUCCESS

    def _check(self, pod: Manifest, name: str, binding: _Binding) -> None:
        meta, spec, wanted = pod["metadata"], pod["spec"], binding.metadata
        if wanted.uid and wanted.uid != meta["uid"]:
            why = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {meta['uid']}"
            raise errors.conflict(self._pods, name, why)
        if wanted.resource_version and wanted.resource_version != meta["resourceVersion"]:
            raise errors.modified(self._pods, name)
        if meta.get("deletionTimestamp"):
            raise errors.conflict(self._pods, name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
            raise errors.conflict(self._pods, name, why)
        if spec.get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
            raise errors.conflict(self._pods, name, why)

    def _assign(self, pod: Manifest, binding: _Binding) -> None:
        pod["spec"]["nodeName"] = binding.target.name
        meta = pod["metadata"]
        if binding.metadata.annotations:
            meta["annotations"] = {**(meta.get("annotations") or {}), **binding.metadata.annotations}
        if binding.metadata.labels:
            meta["labels"] = {**(meta.get("labels") or {}), **binding.metadata.labels}
        status: dict[str, Any] = pod.setdefault("status", {})
        conditions = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True"}
        status["conditions"] = [*conditions, scheduled | {"lastTransitionTime": self._core.now()}]
