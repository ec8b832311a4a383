"""`serviceaccounts/X/token`: a TokenRequest is answered with a token (authentication.k8s.io/v1)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.localcluster.apiserver import bodies, errors
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.authn.tokens import ISSUER, Bound, Private
from volcanoio.localcluster.apiserver.clock import rfc3339
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Ref, encode
from volcanoio.localcluster.apiserver.options import dry_run
from volcanoio.localcluster.apiserver.paths import Target

_SHORTEST: Final = 600
_LONGEST: Final = 1 << 32
_DEFAULT: Final = 3600
_BOUND: Final = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}


class _Reference(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    audiences: tuple[str, ...] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _Reference | None = None


class _Request(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def create_token(core: Core, target: Target, request: ApiRequest) -> bytes:
    """The TokenRequest with its status; raises ApiError."""
    account = core.store.get(target.ref)
    if account is None:
        raise errors.not_found(target.resource, target.name)
    body = bodies.read(request)
    try:
        asked = msgspec.convert(body or {}, _Request).spec
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
    """The token's claims, bound to an object that exists; raises ApiError."""
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
