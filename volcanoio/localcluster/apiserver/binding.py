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
        if not name and not binding.metadata.name:
            raise errors.bad_request("Name parameter required.")
        name = name or binding.metadata.name
        if binding.metadata.name != name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        if binding.metadata.namespace not in {"", namespace}:
            raise errors.other_namespace()
        if not binding.target.name:
            raise errors.unclassified("target.name: Required value")
        if binding.target.kind not in {"", "Node"}:
            kind = binding.target.kind
            text = f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
            raise errors.unclassified(text)
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
        if meta.get("deletionTimestamp"):
            raise self._refusal(name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise self._refusal(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
        for what, asked, found in (
            ("UID", wanted.uid, meta["uid"]),
            ("ResourceVersion", wanted.resource_version, meta["resourceVersion"]),
        ):
            if asked and asked != found:
                raise errors.conflict(self._pods, name, _precondition(pod, what, asked, found))
        if spec.get("schedulingGates"):
            raise self._refusal(name, f"pod {name} has non-empty .spec.schedulingGates")

    def _refusal(self, name: str, why: str) -> errors.ApiError:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
        return errors.ApiError(409, "Conflict", message, {"name": name, "kind": "pods/binding"})

    def _assign(self, pod: Manifest, binding: _Binding) -> None:
        pod["spec"]["nodeName"] = binding.target.name
        meta = pod["metadata"]
        if binding.metadata.annotations:
            meta["annotations"] = {**(meta.get("annotations") or {}), **binding.metadata.annotations}
        if binding.metadata.labels:
            meta["labels"] = {**(meta.get("labels") or {}), **binding.metadata.labels}
        status: dict[str, Any] = pod.setdefault("status", {})
        conditions = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        status["conditions"] = [*conditions, scheduled | {"lastTransitionTime": self._core.now()}]


def _precondition(pod: Manifest, what: str, asked: str, found: str) -> str:
    """The text of storage, which names the key of etcd."""
    meta = pod["metadata"]
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{meta['namespace']}/{meta['name']}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {asked}, "
        f"{what} in object meta: {found}"
    )
