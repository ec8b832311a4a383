"""Options of requests, from the query and, for deletions, from the body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.errors import MALFORMED, bad_request
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apply.managers import invalid_options, name_errors
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, unsupported

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]

_PROPAGATIONS: dict[str, Propagation] = {"Background": "Background", "Foreground": "Foreground", "Orphan": "Orphan"}
_MATCH = "resourceVersionMatch"
_LARGEST = 2**64 - 1
_VALIDATIONS: dict[str, FieldValidation] = {"Strict": "Strict", "Warn": "Warn", "Ignore": "Ignore"}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion: `grace` in seconds (None: the object's own).

    Uid and version are preconditions.
    """

    grace: int | None = None
    propagation: Propagation = "Background"
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
    has_default_propagation: bool = False
    """Whether the request names no propagation policy."""


class WriteOptions(NamedTuple):
    """Options of a create or update.

    `managed_fields` are those of the object to write where the caller computed them. `webhooks` is off where the
    caller
    has called them already.
    """

    validation: FieldValidation = "Warn"
    dry_run: bool = False
    managed_fields: list[Manifest] | None = None
    webhooks: bool = True


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteBody(msgspec.Struct, rename="camel"):
    """`meta/v1 DeleteOptions`."""

    kind: str = ""
    api_version: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


_decode_delete = msgspec.json.Decoder(_DeleteBody).decode


def dry_run(request: ApiRequest) -> bool:
    """Return whether the request has `dryRun=All`; raises ApiError 422."""
    return _is_dry_run(request, request.query.get("dryRun", []))


def _is_dry_run(request: ApiRequest, values: list[str]) -> bool:
    if found := _dry_run_errors(values):
        raise invalid_options(request, found)
    return values == ["All"]


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    return [] if values in ([], [""], ["All"]) else [unsupported("dryRun", values, ["All"])]


def write_options(request: ApiRequest, found: Sequence[FieldError] = ()) -> WriteOptions:
    """Read the options of a write.

    Raises ApiError 422 with all errors, those already `found` first.
    """
    query = request.query
    if not query and not found:
        return WriteOptions()
    named, values = request.first("fieldManager"), query.get("dryRun", [])
    wrong = [*found, *(name_errors(named) if named else ()), *_dry_run_errors(values)]
    if wrong := wrong + field_validation_errors(request):
        raise invalid_options(request, wrong)
    return WriteOptions(_VALIDATIONS[request.first("fieldValidation") or "Warn"], values == ["All"])


def field_validation(request: ApiRequest) -> FieldValidation:
    """Return the treatment of unknown fields; Warn by default. Raises ApiError 422."""
    value = request.first("fieldValidation") or "Warn"
    if value in _VALIDATIONS:
        return _VALIDATIONS[value]
    raise invalid_options(request, field_validation_errors(request))


def field_validation_errors(request: ApiRequest) -> list[FieldError]:
    """Return errors of the parameter fieldValidation."""
    value = request.first("fieldValidation")
    known = not value or value in _VALIDATIONS
    return [] if known else [unsupported("fieldValidation", value, ["", *sorted(_VALIDATIONS)])]


def delete_options(request: ApiRequest) -> DeleteOptions:
    """Read the options of a DELETE, from the body before the query; raises ApiError 400 and 422."""
    try:
        body = _decode_delete(request.body) if request.body.strip() not in {b"", b"null"} else _DeleteBody()
    except MALFORMED as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if body.kind not in {"", "DeleteOptions"}:
        raise bad_request(f'no kind "{body.kind}" is registered for version "{body.api_version or "meta.k8s.io/v1"}"')
    grace = body.grace_period_seconds
    if grace is None and (text := request.first("gracePeriodSeconds")) is not None:
        grace = _integer(text)
    preconditions = body.preconditions or _Preconditions()
    propagation = body.propagation_policy or request.first("propagationPolicy")
    return DeleteOptions(
        grace=grace if grace is None or grace >= 0 else 1,  # a negative value means the shortest grace period
        propagation=_propagation(request, propagation, body.orphan_dependents),
        has_default_propagation=not propagation and body.orphan_dependents is None,
        uid=preconditions.uid or "",
        resource_version=preconditions.resource_version or "",
        dry_run=_is_dry_run(request, body.dry_run or []) or dry_run(request),
    )


def _propagation(request: ApiRequest, text: str | None, orphan: bool | None) -> Propagation:
    if not text:
        return "Orphan" if orphan else "Background"
    if text not in _PROPAGATIONS:
        supported = ["Foreground", "Background", "Orphan", "nil"]
        raise invalid_options(request, [unsupported("propagationPolicy", text, supported)])
    if orphan is not None:
        rule = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options(request, [invalid("propagationPolicy", text, rule)])
    return _PROPAGATIONS[text]


def _integer(text: str) -> int:
    """Parse a number as Go's strconv does; raises ApiError 400 with its text."""
    if not text.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def version(text: str) -> int:
    """Parse a resourceVersion; raises ValueError with the text of Go's strconv."""
    if not (text.isascii() and text.isdigit()):
        why = "invalid syntax"
    elif int(text) > _LARGEST:
        why = "value out of range"
    else:
        return int(text)
    raise ValueError(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}')


def number(request: ApiRequest, name: str) -> int:
    """Parse a numeric parameter; 0 when it is missing. Raises ApiError 400."""
    text = request.first(name)
    return _integer(text) if text else 0


def check_list_options(request: ApiRequest, *, watching: bool) -> None:
    """Refuse contradicting parameters of a list or watch; raises ApiError 400 and 422.

    Rules: apimachinery `pkg/apis/meta/internalversion/validation`.
    """
    query = request.query
    if not watching:
        number(request, "timeoutSeconds")
    match, initial = request.first("resourceVersionMatch") or "", "sendInitialEvents" in query
    if not match and not initial:
        return
    if found := _watch_errors(match, initial=initial) if watching else _list_errors(request, match, initial=initial):
        raise invalid_options(request, found)


def _watch_errors(match: str, *, initial: bool) -> list[FieldError]:
    if not initial:
        rule = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [forbidden(_MATCH, rule)]
    found: list[FieldError] = []
    if match != "NotOlderThan":
        found.append(forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
        if match:
            found.append(unsupported(_MATCH, match, ["NotOlderThan"]))
    return found


def _list_errors(request: ApiRequest, match: str, *, initial: bool) -> list[FieldError]:
    if initial:
        return [forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]
    version_asked = request.first("resourceVersion")
    if request.first("continue"):
        return [forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")]
    if not version_asked:
        return [forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")]
    if match not in {"Exact", "NotOlderThan"}:
        return [unsupported(_MATCH, match, ["Exact", "NotOlderThan", ""])]
    if match == "Exact" and version_asked == "0":
        return [forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')]
    return []
