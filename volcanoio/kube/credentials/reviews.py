"""What the API server says of the user of a transport: its name, and whether it may do something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from volcanoio.kube.errors import check
from volcanoio.kube.requests import Request
from volcanoio.kube.transport import Transport

_NAME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SECONDS = 30.0


class Action(NamedTuple):
    """A verb on a resource as RBAC names it, such as `pods/status`; in the namespace, or ("") in all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""


class _User(msgspec.Struct):
    username: str = ""


class _NameStatus(msgspec.Struct, rename="camel"):
    user_info: _User


class _NameReview(msgspec.Struct):
    status: _NameStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


async def own_name(transport: Transport) -> str:
    """Return the name of the user (SelfSubjectReview; servers since 1.28).

    Raises ApiError, TransportError, msgspec.DecodeError.
    """
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return msgspec.json.decode(await _review(transport, _NAME, review), type=_NameReview).status.user_info.username


async def may(transport: Transport, action: Action) -> bool:
    """Return whether the user may do this (SelfSubjectAccessReview).

    Raises ApiError, TransportError, msgspec.DecodeError.
    """
    resource, _, subresource = action.resource.partition("/")
    spec = {"resourceAttributes": {**action._asdict(), "resource": resource, "subresource": subresource}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    return msgspec.json.decode(await _review(transport, _ACCESS, review), type=_AccessReview).status.allowed


async def _review(transport: Transport, path: str, review: Mapping[str, object]) -> bytes:
    request = Request(method="POST", path=path, body=msgspec.json.encode(review))
    return check(await request.send(transport, timeout=_SECONDS)).body
