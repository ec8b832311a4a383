"""Reviews of what a user may do. Whoever holds the token may do everything, so every review says yes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.errors import bad_request
from volcanoio.model.base import Manifest

USER = {"username": "volcanoio", "groups": ["system:masters", "system:authenticated"]}
"""Who holds the token."""

_EVERYTHING = ["*"]
_ANSWERS: dict[str, Callable[[], dict[str, Any]]] = {
    "SelfSubjectAccessReview": lambda: {"allowed": True},
    "SubjectAccessReview": lambda: {"allowed": True},
    "LocalSubjectAccessReview": lambda: {"allowed": True},
    "SelfSubjectRulesReview": lambda: {
        "resourceRules": [{"verbs": _EVERYTHING, "apiGroups": _EVERYTHING, "resources": _EVERYTHING}],
        "nonResourceRules": [{"verbs": _EVERYTHING, "nonResourceURLs": _EVERYTHING}],
        "incomplete": False,
    },
    "SelfSubjectReview": lambda: {"userInfo": USER},
}
_GROUPS = ("authorization.k8s.io/v1", "authentication.k8s.io/v1")
_KINDS = {kind.lower() + "s": kind for kind in _ANSWERS}


async def reviews(request: ApiRequest) -> ApiResponse | None:
    """Answer the creation of a review; None for any other request."""
    prefix, _, plural = request.path.rpartition("/")
    kind = _KINDS.get(plural)
    if request.method != "POST" or kind is None or not prefix.startswith(tuple(f"/apis/{one}" for one in _GROUPS)):
        return None
    try:
        review: Manifest = msgspec.json.decode(request.body, type=dict)
    except msgspec.DecodeError as error:
        return bad_request(f"body: not a JSON object: {error}").response()
    if review.get("kind") not in {None, kind}:
        text = f"kind: {review['kind']!r} does not belong to {request.path}; send a {kind}"
        return bad_request(text).response()
    api_version = next(one for one in _GROUPS if prefix.startswith(f"/apis/{one}"))
    answer = {"kind": kind, "apiVersion": api_version, **review, "status": _ANSWERS[kind]()}
    return ApiResponse(201, msgspec.json.encode(answer))
