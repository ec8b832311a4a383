"""AdmissionReview: the request sent to a webhook, and the checks of its answer.

Kubernetes: apiserver `pkg/admission/plugin/webhook/request` and `errors`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.admission.webhooks.attributes import Attributes
from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.request import User
from volcanoio.model.base import Manifest

VERSIONS = ("v1", "v1beta1")
"""Supported AdmissionReview versions."""


class InvalidAnswer(Exception):  # noqa: N818 - named for what it is
    """The answer violates the protocol; the text contains the reason."""


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """`AdmissionReview.response`; `patch` is the decoded JSON patch."""

    uid: str = ""
    allowed: bool = False
    status: Manifest | None = None
    patch: bytes = b""
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: tuple[str, ...] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: Answer | None = None


_decode = msgspec.json.Decoder(_Review).decode


def version_for(accepted: tuple[str, ...]) -> str:
    """Return the first version that both sides support; raises InvalidAnswer."""
    found = next((one for one in accepted if one in VERSIONS), None)
    if found is None:
        msg = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
        raise InvalidAnswer(msg)
    return found


def question(uid: str, version: str, shown: Attributes, asked: Attributes, user: User) -> bytes:
    """Encode a review.

    `shown` is the write as the webhook matched it, `asked` as the client sent it.
    """
    request = {"uid": uid, **request_fields(shown, asked, user), "object": shown.object, "oldObject": shown.old}
    api_version = f"admission.k8s.io/{version}"
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": api_version, "request": request})


def request_fields(shown: Attributes, asked: Attributes, user: User) -> Manifest:
    """Return the request of a review without its uid and objects."""
    found: Manifest = {
        "kind": _kind(shown),
        "resource": _resource(shown),
        "requestKind": _kind(asked),
        "requestResource": _resource(asked),
        "operation": shown.operation,
        "userInfo": user.info(),
        "dryRun": shown.dry_run,
        "options": shown.options or None,
    }
    optional = {
        "subResource": shown.subresource,
        "requestSubResource": asked.subresource,
        "name": shown.name,
        "namespace": shown.namespace,
    }
    return found | {key: value for key, value in optional.items() if value}


def _kind(write: Attributes) -> dict[str, str]:
    kind = write.kind
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(write: Attributes) -> dict[str, str]:
    resource = write.resource
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def verified(body: bytes, uid: str, version: str, *, mutating: bool) -> Answer:
    """Decode and check an AdmissionReview; raises InvalidAnswer."""
    try:
        review = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        msg = f"the body is not an AdmissionReview: {error}"
        raise InvalidAnswer(msg) from None
    answer = review.response
    if answer is None:
        msg = "webhook response was absent"
        raise InvalidAnswer(msg)
    if version == "v1":
        problem = _v1_problem(review, answer, uid, mutating=mutating)
        if problem:
            raise InvalidAnswer(problem)
    elif not mutating:
        answer = msgspec.structs.replace(answer, patch=b"", patch_type=None)
    return answer


def _v1_problem(review: _Review, answer: Answer, uid: str, *, mutating: bool) -> str:
    if answer.uid != uid:
        return f'expected response.uid="{uid}", got "{answer.uid}"'
    if (review.api_version, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        found = f"{review.api_version}, Kind={review.kind}"
        return f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {found}"
    patch, type_ = answer.patch, answer.patch_type
    rules: tuple[tuple[Any, str], ...]
    if mutating:
        rules = (
            (patch and type_ is None, "webhook returned response.patch but not response.patchType"),
            (not patch and type_ is not None, "webhook returned response.patchType but not response.patch"),
            (type_ == "", 'webhook returned invalid response.patchType of ""'),
        )
    else:
        rules = (
            (patch, "validating webhook may not return response.patch"),
            (type_ is not None, "validating webhook may not return response.patchType"),
        )
    return next((text for broken, text in rules if broken), "")


def refusal(name: str, status: Manifest | None) -> ApiError:
    """Return the error for a refusal, with the code, reason and details of the webhook."""
    stated = status or {}
    code = stated.get("code")
    code = code if isinstance(code, int) and code >= 400 else 400
    denied = f'admission webhook "{name}" denied the request'
    why = stated.get("message") or stated.get("reason")
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    return ApiError(code, str(stated.get("reason") or ""), message, stated.get("details"))
