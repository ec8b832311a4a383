"""Access and token reviews. Authenticated users may do everything, so `can-i` always answers yes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError, bad_request, causes, summary
from volcanoio.localcluster.apiserver.apimachinery.request import ANONYMOUS_NAME, ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.authn.tokens import ISSUER, Tokens
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, invalid

_EVERYTHING: Final = ["*"]
_GROUPS: Final = ("authorization.k8s.io/v1", "authentication.k8s.io/v1")
_KINDS: Final = {
    kind.lower() + "s": kind
    for kind in (
        *("SelfSubjectAccessReview", "SubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectRulesReview"),
        *("SelfSubjectReview", "TokenReview"),
    )
}


class Reviews:
    """A route that answers created reviews."""

    def __init__(self, core: Core, tokens: Tokens) -> None:
        self._core = core
        self._tokens = tokens
        self._answers: dict[str, Callable[[Manifest, ApiRequest], Manifest]] = {
            "SelfSubjectAccessReview": self._may,
            "SubjectAccessReview": self._subject_may,
            "LocalSubjectAccessReview": self._subject_may,
            "SelfSubjectRulesReview": _rules,
            "SelfSubjectReview": _self,
            "TokenReview": self._token,
        }

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer a review; None for any other request."""
        prefix, _, plural = request.path.rpartition("/")
        kind = _KINDS.get(plural)
        if kind is None or request.method != "POST":
            return None
        api_version = next((one for one in _GROUPS if f"{prefix}/".startswith(f"/apis/{one}/")), "")
        if not api_version:
            return None
        try:
            review: Manifest = msgspec.json.decode(request.body or b"{}", type=dict)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise bad_request(f"body: not a JSON object: {error}") from None
        if review.get("kind") not in {None, "", kind}:
            text = f"kind: {review['kind']!r} does not belong to {request.path}; send a {kind}"
            raise bad_request(text)
        spec, stated = review.get("spec") or {}, review.get("metadata") or {}
        if not isinstance(spec, dict) or not isinstance(stated, dict):
            raise bad_request(f"{'metadata' if isinstance(spec, dict) else 'spec'}: expected an object")
        status = self._answers[kind](spec, request)
        metadata = dict(stated)
        if kind == "SelfSubjectReview":
            metadata["creationTimestamp"] = self._core.now()
        answer = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if kind != "SelfSubjectReview":
            answer["spec"] = spec
        return ApiResponse(201, msgspec.json.encode(answer | {"status": status}))

    def _may(self, spec: Manifest, request: ApiRequest) -> Manifest:
        del request
        _one_question(spec)
        return {"allowed": True}

    def _subject_may(self, spec: Manifest, request: ApiRequest) -> Manifest:
        del request
        _one_question(spec)
        if not spec.get("user") and not spec.get("groups"):
            raise _invalid([invalid("spec.user", "", "at least one of user or group must be specified")])
        if spec.get("user") == ANONYMOUS_NAME:
            return {"allowed": False}
        return {"allowed": True}

    def _token(self, spec: Manifest, request: ApiRequest) -> Manifest:
        del request
        token = spec.get("token")
        if not token or not isinstance(token, str):
            raise bad_request("token is required for TokenReview in authentication")
        found = self._tokens.verify(token, tuple(spec.get("audiences") or (ISSUER,)))
        if found.user is None:
            return {"user": {}, "error": found.problem}
        return {"authenticated": True, "user": found.user.info(), "audiences": found.audiences}


def _self(spec: Manifest, request: ApiRequest) -> Manifest:
    del spec
    return {"userInfo": request.user.info()}


def _rules(spec: Manifest, request: ApiRequest) -> Manifest:
    del request
    if not spec.get("namespace"):
        raise bad_request("no namespace on request")
    return {
        "resourceRules": [{"verbs": _EVERYTHING, "apiGroups": _EVERYTHING, "resources": _EVERYTHING}],
        "nonResourceRules": [{"verbs": _EVERYTHING, "nonResourceURLs": _EVERYTHING}],
        "incomplete": False,
    }


def _one_question(spec: Manifest) -> None:
    """Check that an access review is about either a resource or a path."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        rule = "cannot be specified in combination with resourceAttributes"
        raise _invalid([invalid("spec.nonResourceAttributes", path, rule)])
    if resource is None and path is None:
        rule = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid([invalid("spec.resourceAttributes", None, rule)])


def _invalid(found: list[FieldError]) -> ApiError:
    details: dict[str, Any] = {"group": "authorization.k8s.io", "causes": causes(found)}
    return ApiError(422, "Invalid", f'.authorization.k8s.io "" is invalid: {summary(found)}', details)
