"""Protobuf bodies become JSON before anything else reads a request, so that only this package knows of them."""

from __future__ import annotations

from typing import Final

import msgspec

from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.errors import ApiError, bad_request, unsupported_media_type
from volcanoio.localcluster.apiserver.objects import encode
from volcanoio.localcluster.apiserver.paths import parse
from volcanoio.localcluster.apiserver.protobuf.decoding import UnknownKind, decode
from volcanoio.localcluster.apiserver.protobuf.wire import WireError
from volcanoio.localcluster.apiserver.registry import Registry
from volcanoio.localcluster.apiserver.resources import Resource

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_SHOWN_BYTES: Final = 64
"""How much of an unreadable body a refusal quotes."""


def is_protobuf(request: ApiRequest) -> bool:
    """Whether the body is an object in protobuf; a patch never is."""
    return request.headers.get("content-type", "").startswith(MEDIA_TYPE) and request.method not in {"GET", "PATCH"}


def as_json(request: ApiRequest, registry: Registry) -> ApiRequest:
    """The same request with its object in JSON; raises ApiError 400, and 415 for kinds without a protobuf form."""
    if not request.body and request.method == "DELETE":
        return request
    resource = _resource(request, registry)
    kind = resource.kind if resource else "JSON"
    try:
        obj = decode(request.body, (resource.api_version, kind) if resource else ("", ""))
    except UnknownKind as unknown:
        if resource:
            raise bad_request(f"the body cannot be handled as a {kind}: {unknown}") from None
        text = f"{unknown} - accepted media types include: application/json, application/yaml"
        raise unsupported_media_type(f"the body of the request was in an unknown format: {text}") from None
    except (WireError, msgspec.MsgspecError, RecursionError) as error:
        why = str(error) if request.body else "empty data"
        quoted = request.body[:_SHOWN_BYTES].hex() or "<empty>"
        text = f"the object provided is unrecognized (must be of type {kind}): {why} ({quoted})"
        raise bad_request(text) from None
    headers = {**request.headers, "content-type": "application/json"}
    return ApiRequest(request.method, request.path, request.query, headers, encode(obj), request.user)


def _resource(request: ApiRequest, registry: Registry) -> Resource | None:
    """The built-in resource whose objects the path takes; None for any other, and for subresources."""
    try:
        target = parse(request.path, registry)
    except ApiError:
        return None
    return None if target.resource.custom or target.subresource not in {"", "status"} else target.resource
