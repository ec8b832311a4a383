"""AdmissionReview v1: requests decoded, responses encoded, and changes as a JSON Patch (RFC 6902)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from volcanoio.engine.admission.request import Operation, ReviewRequest, User
from volcanoio.model.base import Manifest

MAX_DEPTH = 64
"""Deepest nesting of a reviewed object; the deepest field of a pod template in a JobFlow is below half of it."""
_API_VERSION = "admission.k8s.io/v1"


class ReviewError(ValueError):
    """The body is no AdmissionReview that can be reviewed; the message contains the field and the rule."""


class _Resource(msgspec.Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource: _Resource
    operation: str
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: User = User()
    object: Manifest | None = None
    old_object: Manifest | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class DecodedReview(msgspec.Struct, frozen=True):
    """One request with its uid, which the response repeats, and its author."""

    uid: str
    request: ReviewRequest
    user: User


_DECODER = msgspec.json.Decoder(_Review)


def decode(body: bytes) -> DecodedReview:
    """Decode an AdmissionReview. Raises ReviewError."""
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewError(f"the body is no AdmissionReview: {error}") from None
    except RecursionError:
        raise ReviewError(f"the body is nested more than {MAX_DEPTH} levels deep") from None
    asked = review.request
    if (review.api_version, review.kind) != (_API_VERSION, "AdmissionReview") or asked is None:
        raise ReviewError(f"the body is no {_API_VERSION} AdmissionReview with a request; list v1 in the configuration")
    if asked.operation not in Operation.__members__:
        raise ReviewError(f"request.operation: {asked.operation} is not reviewed; valid values: {', '.join(Operation)}")
    if asked.sub_resource:
        raise ReviewError(f"request.subResource: {asked.sub_resource} is not reviewed; remove it from the rules")
    for name, manifest in (("object", asked.object), ("oldObject", asked.old_object)):
        if _is_deeper(manifest, MAX_DEPTH):
            raise ReviewError(f"request.{name}: nested more than {MAX_DEPTH} levels deep")
    resource = asked.resource
    request = ReviewRequest(
        operation=Operation(asked.operation),
        resource=f"{resource.resource}.{resource.group}" if resource.group else resource.resource,
        name=asked.name,
        namespace=asked.namespace,
        object=asked.object,
        old=asked.old_object,
        username=asked.user_info.username,
    )
    return DecodedReview(asked.uid, request, asked.user_info)


def _is_deeper(value: Any, limit: int) -> bool:
    """Return whether a value has more than `limit` levels; without recursion."""
    level = [value]
    for _ in range(limit):
        nested = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        if not (level := [child for children in nested for child in children]):
            return False
    return any(isinstance(item, dict | list) for item in level)


def allowed(uid: str, patch: list[Manifest] | None = None, warnings: tuple[str, ...] = ()) -> bytes:
    """Encode an admission, with the changes to the object if there are any."""
    response: Manifest = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    return _encode(response, warnings)


def denied(uid: str, message: str, warnings: tuple[str, ...] = ()) -> bytes:
    """Encode a refusal."""
    status = {"status": "Failure", "message": message, "reason": "Forbidden", "code": 403}
    return _encode({"uid": uid, "allowed": False, "status": status}, warnings)


def _encode(response: Manifest, warnings: tuple[str, ...]) -> bytes:
    if warnings:
        response["warnings"] = list(warnings)
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})


def json_patch(before: Manifest, after: Manifest) -> list[Manifest]:
    """Return the operations that change one object into the other, none for fields that are equal."""
    return [{**operation, "path": _pointer(path)} for path, operation in _changes(before, after, ())]


_Path: TypeAlias = tuple[str | int, ...]


def _pointer(path: _Path) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def _changes(before: Any, after: Any, path: _Path) -> Iterator[tuple[_Path, Manifest]]:
    """Iterate over the changes; their paths become text only there, as keys can be long and objects large."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            at = (*path, key)
            if key not in after:
                yield at, {"op": "remove"}
            elif key not in before:
                yield at, {"op": "add", "value": after[key]}
            else:
                yield from _changes(before[key], after[key], at)
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for index, old in enumerate(before):
            yield from _changes(old, after[index], (*path, index))
        for added in after[len(before) :]:
            yield (*path, "-"), {"op": "add", "value": added}
    elif before != after or type(before) is not type(after):
        yield path, {"op": "replace", "value": after}
