"""Subresources with an operation of their own: binding, eviction, finalize, token.

Binding: Kubernetes' pkg/registry/core/pod/storage (BindingREST). Eviction: `eviction.go` beside it; the required number
of healthy pods is taken from the budget's status, or computed from the pods where no controller has observed the budget
yet; healthy pods are counted at the moment of the eviction, so that no two evictions use one allowance. `finalize`
changes a namespace's `spec.finalizers` alone. `serviceaccounts/X/token` answers a TokenRequest.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal

import msgspec

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.clock import rfc3339
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored, decode, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.selectors import Selection, matches_label_selector, read_again
from volcanoio.localcluster.apiserver.authn.tokens import ISSUER, Bound, Private
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry import bodies
from volcanoio.localcluster.apiserver.registry.deleter import Deleter, check_preconditions
from volcanoio.localcluster.apiserver.registry.options import delete_options, dry_run
from volcanoio.localcluster.apiserver.registry.pod_writes import Parts, at_revision, join, split
from volcanoio.localcluster.apiserver.registry.preconditions import check_versions, is_finished
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import qualified_rule
from volcanoio.model.validation.field_errors import FieldError, invalid

_SHORTEST: Final = 600
_LONGEST: Final = 1 << 32
_DEFAULT: Final = 3600
_BOUND: Final = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}


class _Reference(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _TokenSpec(msgspec.Struct, rename="camel"):
    audiences: tuple[str, ...] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _Reference | None = None


class _TokenRequest(msgspec.Struct):
    spec: _TokenSpec = msgspec.field(default_factory=_TokenSpec)


def create_token(core: Core, target: Target, request: ApiRequest) -> bytes:
    """Answer a TokenRequest; raises ApiError."""
    account = core.store.get(target.ref)
    if account is None:
        raise errors.not_found(target.resource, target.name)
    body = bodies.read(request)
    try:
        asked = msgspec.convert(body or {}, _TokenRequest).spec
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"the body is not a TokenRequest object: {error}") from None
    seconds = _DEFAULT if asked.expiration_seconds is None else asked.expiration_seconds
    if problem := _duration_error(seconds):
        raise _invalid(problem)
    audiences = asked.audiences or (ISSUER,)
    private = Private(target.namespace, Bound(target.name, account.uid))
    if asked.bound_object_ref is not None:
        private = _bind(core, private, asked.bound_object_ref)
    token, expires = ("", None) if dry_run(request) else core.tokens.issue(private, audiences, seconds)
    reference = asked.bound_object_ref
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "uid": account.uid,
            "creationTimestamp": core.now(),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": reference and {k: v for k, v in msgspec.to_builtins(reference).items() if v},
        },
        "status": {"token": token, "expirationTimestamp": expires and rfc3339(datetime.fromtimestamp(expires, UTC))},
    }
    return encode(answer)


def _duration_error(seconds: int) -> FieldError | None:
    if seconds < _SHORTEST:
        rule = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST:
        rule = "may not specify a duration larger than 2^32 seconds"
    else:
        return None
    return invalid("spec.expirationSeconds", seconds, rule)


def _invalid(problem: FieldError) -> errors.ApiError:
    cause = {"reason": problem.reason, "message": problem.message, "field": problem.field}
    details = {"group": "authentication.k8s.io", "kind": "TokenRequest", "causes": [cause]}
    message = f'TokenRequest.authentication.k8s.io "" is invalid: {problem}'
    return errors.ApiError(422, "Invalid", message, details)


def _bind(core: Core, private: Private, reference: _Reference) -> Private:
    """Return the token's claims, bound to an existing object; raises ApiError."""
    plural = _BOUND.get((reference.api_version, reference.kind))
    if plural is None:
        group, _, version = reference.api_version.rpartition("/")
        text = f"cannot bind token to object of type {group}/{version}, Kind={reference.kind}"
        raise errors.bad_request(text)
    resource = core.registry.builtin(plural)
    namespace = private.namespace if resource.namespaced else ""
    stored = core.store.get(Ref(plural, namespace, reference.name))
    if stored is None:
        raise errors.not_found(resource, reference.name)
    if reference.uid and reference.uid != stored.uid:
        why = f"the UID in the bound object reference ({reference.uid}) does not match the UID in record. "
        why += "The object might have been deleted and then recreated"
        raise errors.conflict(resource, reference.name, why)
    bound = Bound(stored.name, stored.uid)
    if plural == "pods":
        spec = stored.decode()["spec"]
        if spec.get("serviceAccountName") != private.serviceaccount.name:
            account = private.serviceaccount.name
            text = f'cannot bind token for serviceaccount "{account}" to pod running with different'
            raise errors.bad_request(f"{text} serviceaccount name.")
        private = msgspec.structs.replace(private, pod=bound)
        if node := spec.get("nodeName"):
            found = core.store.get(Ref("nodes", "", node))
            private = msgspec.structs.replace(private, node=Bound(node, found.uid if found else ""))
        return private
    return msgspec.structs.replace(private, **{reference.kind.lower(): bound})


_fields_of = read_again(("spec.nodeName",))
SUCCESS: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _BindingMeta(msgspec.Struct, rename="camel"):
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
    metadata: _BindingMeta = msgspec.field(default_factory=_BindingMeta)
    target: _Target = msgspec.field(default_factory=_Target)


class _BindingSpec(msgspec.Struct, rename="camel"):
    """Fields of a pod's spec that decide whether it may be bound."""

    node_name: str | None = None
    scheduling_gates: list[msgspec.Raw] | None = None


_decode_spec = msgspec.json.Decoder(_BindingSpec).decode
_decode = msgspec.json.Decoder(_Binding).decode


class Binder:
    """Executor of Bindings."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pods: Resource = core.registry.builtin("pods")

    def bind(self, namespace: str, name: str, body: bytes, *, dry_run: bool = False) -> bytes:
        """Bind the pod to the node.

        `name` may be empty when the Binding names the pod. Raises ApiError.
        """
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
            raise errors.wrong_namespace()
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
            self._core.store.put_with(ref, partial(self._bound, stored, pod, placed, binding))
        return SUCCESS

    def _check(self, stored: Stored, spec: _BindingSpec, binding: _Binding) -> None:
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
        """Return the next version of the pod, bound to its node."""
        status: Manifest = decode(pod["status"]) if "status" in pod else {}
        conditions = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        status["conditions"] = [*conditions, scheduled | {"lastTransitionTime": self._core.now()}]
        added = binding.metadata.annotations, binding.metadata.labels
        metadata = None if any(added) else at_revision(pod["metadata"], stored.revision, revision)
        if metadata is not None:
            data = join({**pod, "metadata": metadata, "spec": placed, "status": status})
            return stored.next_version(
                revision, data, _fields_of(stored.fields, {"spec": {"nodeName": binding.target.name}})
            )
        meta: Manifest = {**decode(pod["metadata"]), "resourceVersion": str(revision)}
        for key, more in zip(("annotations", "labels"), added, strict=True):
            if more:
                meta[key] = {**(meta.get(key) or {}), **more}
        data = join({**pod, "metadata": meta, "spec": placed, "status": status})
        return Stored(stored.namespace, stored.name, revision, {"metadata": meta}, data)


def _placed(spec: msgspec.Raw, known: _BindingSpec, node: str) -> msgspec.Raw | Manifest:
    """Return the spec with the node's name, appended where it has none yet."""
    if known.node_name is None and len(bytes(spec)) > len(b"{}"):
        return msgspec.Raw(b'%s,"nodeName":%s}' % (bytes(spec)[:-1], encode(node)))
    return {**decode(spec), "nodeName": node}


def _precondition(pod: Stored, what: str, asked: str, found: str) -> str:
    """Return the storage's text for a failed precondition, with the key of etcd."""
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{pod.namespace}/{pod.name}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {asked}, "
        f"{what} in object meta: {found}"
    )


_BUDGETS: Final = "poddisruptionbudgets.policy"
_SUCCESS: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _EvictionMeta(msgspec.Struct):
    name: str | None = None


class _Eviction(msgspec.Struct, rename="camel"):
    """`policy/v1 Eviction`."""

    api_version: Literal["policy/v1", "policy/v1beta1", ""] | None = None
    metadata: _EvictionMeta = msgspec.field(default_factory=_EvictionMeta)
    delete_options: Manifest | None = None


class Evictor:
    """Executor of evictions, as far as budgets allow."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter

    async def evict(self, target: Target, request: ApiRequest) -> bytes:
        """Evict the pod; raises ApiError 429 when a budget does not allow it."""
        try:
            body = msgspec.convert(bodies.read(request), _Eviction)
        except msgspec.ValidationError as error:
            raise errors.bad_request(f"the body is not a policy/v1 Eviction object: {error}") from None
        if body.metadata.name != target.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        pod = self._core.store.get(target.ref)
        if pod is None:
            raise errors.not_found(target.resource, target.name)
        obj = pod.decode()
        if _is_disruptive(obj):
            self._check_budgets(pod, obj)
        inner = ApiRequest("DELETE", request.path, body=encode(body.delete_options or {}))
        options = delete_options(inner)
        main = Target(target.resource, target.namespace, target.name)
        check_preconditions(main, pod, options)
        if dry_run(request) or options.dry_run:
            return _SUCCESS
        self._core.check_writable()
        self._record_disruption(main, obj)
        await self._deleter.delete(main, replace(options, resource_version=""), webhooks=False)
        return _SUCCESS

    def _record_disruption(self, target: Target, pod: Manifest) -> None:
        """Write the reason of the eviction into the pod's conditions; the pod gets a new version."""
        status = pod.setdefault("status", {})
        others = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionTarget"]
        condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None}
        condition |= {"lastTransitionTime": self._core.now(), "reason": "EvictionByEvictionAPI"}
        status["conditions"] = [*others, condition | {"message": "Eviction API: evicting"}]
        self._core.store.put(target.ref, pod)

    def _check_budgets(self, pod: Stored, obj: Manifest) -> None:
        budgets = [
            one
            for stored in self._core.store.collection(_BUDGETS).select(Selection(pod.namespace))
            if matches_label_selector((one := stored.decode()).get("spec", {}).get("selector"), pod.labels)
        ]
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise errors.ApiError(500, "InternalError", text)
        for budget in budgets:
            needed, healthy = self._needed_and_healthy(budget, pod.namespace)
            if not _is_ready(obj) and _may_evict_unhealthy(budget, needed, healthy):
                continue
            if healthy <= needed:
                name = budget["metadata"]["name"]
                message = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
                cause = {"reason": "DisruptionBudget", "message": message}
                text = "Cannot evict pod as it would violate the pod's disruption budget."
                raise errors.too_many_requests(text, [cause])

    def _needed_and_healthy(self, budget: Manifest, namespace: str) -> tuple[int, int]:
        spec, status = budget["spec"], budget.get("status") or {}
        pods = [
            stored.decode()
            for stored in self._core.store.collection("pods").select(Selection(namespace))
            if matches_label_selector(spec.get("selector"), stored.labels)
        ]
        living = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}]
        healthy = sum(_is_ready(pod) and not pod["metadata"].get("deletionTimestamp") for pod in living)
        if status.get("observedGeneration", 0) >= budget["metadata"].get("generation", 1):
            return int(status.get("desiredHealthy") or 0), healthy
        if spec.get("maxUnavailable") is not None:
            return len(living) - _scaled(spec["maxUnavailable"], len(living)), healthy
        return _scaled(spec.get("minAvailable", 1), len(living)), healthy


def _may_evict_unhealthy(budget: Manifest, needed: int, healthy: int) -> bool:
    """Return whether an unhealthy pod may be evicted without counting against the budget."""
    return budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= needed > 0


def _scaled(amount: Any, total: int) -> int:
    """Return a count, or a percentage of the total rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-total * int(amount[:-1]) // 100)
    return int(amount)


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _is_disruptive(pod: Manifest) -> bool:
    """Return whether the eviction counts against budgets.

    Finished, unscheduled and terminating pods do not count.
    """
    phase = (pod.get("status") or {}).get("phase")
    return phase not in {"Succeeded", "Failed", "Pending"} and not pod["metadata"].get("deletionTimestamp")


_STANDARD: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def finalize_namespace(core: Core, target: Target, request: ApiRequest) -> bytes:
    """Set the namespace's finalizers to those of the body; raises ApiError."""
    stated, body = bodies.read_object(request, target.resource)
    bodies.check_fields(stated, body, target.resource, "Ignore")
    stored = core.store.get(target.ref)
    if stored is None:
        raise errors.not_found(target.resource, target.name)
    if stated["metadata"].get("name", target.name) != target.name:
        name = stated["metadata"]["name"]
        text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(text)
    check_versions(target, stored, stated["metadata"], required=False)
    finalizers = (stated.get("spec") or {}).get("finalizers") or []
    if found := _finalizer_errors(finalizers):
        raise errors.invalid_object(target.resource, target.name, found)
    obj = stored.decode()
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if key != "finalizers"}
    obj["spec"] = spec | ({"finalizers": finalizers} if finalizers else {})
    if dry_run(request) or obj == stored.decode():
        return encode(obj)
    core.check_writable()
    if stored.deleting and is_finished(target.resource, obj):
        return core.store.remove(target.ref, obj).data
    return core.store.put(target.ref, obj).data


def _finalizer_errors(finalizers: list[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for at, name in enumerate(finalizers):
        path = f"spec.finalizers[{at}]"
        if rule := qualified_rule(str(name)):
            found.append(invalid(path, name, rule))
        elif "/" not in name and name not in _STANDARD:
            rule = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(invalid(path, name, rule))
    return found
