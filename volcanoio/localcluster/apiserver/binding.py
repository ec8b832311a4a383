"""Binding a pod to a node (Kubernetes: pkg/registry/core/pod/storage, BindingREST)."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.fieldpaths import read_again
from volcanoio.localcluster.apiserver.objects import Ref, Stored, decode, encode
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.splicing.parts import Parts, at_revision, join, split
from volcanoio.model.base import Manifest

_fields_of = read_again(("spec.nodeName",))
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


class _Spec(msgspec.Struct, rename="camel"):
    """What of a pod's spec decides whether it may be bound."""

    node_name: str | None = None
    scheduling_gates: list[msgspec.Raw] | None = None


_decode_spec = msgspec.json.Decoder(_Spec).decode
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
        pod = split(stored.data)
        known = _decode_spec(pod["spec"])
        self._check(stored, known, binding)
        placed = _placed(pod["spec"], known, binding.target.name)
        if not dry_run:
            self._core.check_writable()
            self._core.store.put_made(ref, partial(self._bound, stored, pod, placed, binding))
        return SUCCESS

    def _check(self, stored: Stored, spec: _Spec, binding: _Binding) -> None:
        name, wanted = stored.name, binding.metadata
        if stored.deleting:
            raise self._refusal(name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.node_name:
            raise self._refusal(name, f'pod {name} is already assigned to node "{spec.node_name}"')
        for what, asked, found in (
            ("UID", wanted.uid, stored.uid),
            ("ResourceVersion", wanted.resource_version, str(stored.revision)),
        ):
            if asked and asked != found:
                raise errors.conflict(self._pods, name, _precondition(stored, what, asked, found))
        if spec.scheduling_gates:
            raise self._refusal(name, f"pod {name} has non-empty .spec.schedulingGates")

    def _refusal(self, name: str, why: str) -> errors.ApiError:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
        return errors.ApiError(409, "Conflict", message, {"name": name, "kind": "pods/binding"})

    def _bound(
        self, stored: Stored, pod: Parts, placed: msgspec.Raw | Manifest, binding: _Binding, revision: int
    ) -> Stored:
        """The pod on its node, as the next version of what is stored."""
        status: Manifest = decode(pod["status"]) if "status" in pod else {}
        conditions = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        status["conditions"] = [*conditions, scheduled | {"lastTransitionTime": self._core.now()}]
        added = binding.metadata.annotations, binding.metadata.labels
        metadata = None if any(added) else at_revision(pod["metadata"], stored.revision, revision)
        if metadata is not None:
            data = join({**pod, "metadata": metadata, "spec": placed, "status": status})
            return stored.succeeded_by(
                revision, data, _fields_of(stored.fields, {"spec": {"nodeName": binding.target.name}})
            )
        meta: Manifest = {**decode(pod["metadata"]), "resourceVersion": str(revision)}
        for key, more in zip(("annotations", "labels"), added, strict=True):
            if more:
                meta[key] = {**(meta.get(key) or {}), **more}
        data = join({**pod, "metadata": meta, "spec": placed, "status": status})
        return Stored(stored.namespace, stored.name, revision, {"metadata": meta}, data)


def _placed(spec: msgspec.Raw, known: _Spec, node: str) -> msgspec.Raw | Manifest:
    """The spec with the node's name in it: behind all else, where it is not named at all yet."""
    if known.node_name is None and len(bytes(spec)) > len(b"{}"):
        return msgspec.Raw(b'%s,"nodeName":%s}' % (bytes(spec)[:-1], encode(node)))
    return {**decode(spec), "nodeName": node}


def _precondition(pod: Stored, what: str, asked: str, found: str) -> str:
    """The text of storage, which names the key of etcd."""
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{pod.namespace}/{pod.name}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {asked}, "
        f"{what} in object meta: {found}"
    )
