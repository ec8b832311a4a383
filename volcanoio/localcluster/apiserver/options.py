"""Parameters of requests, from the query and, for deletions, from the body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, unsupported
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.apply.managers import invalid_options, name_errors
from volcanoio.localcluster.apiserver.errors import MALFORMED, bad_request

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]

_PROPAGATIONS: dict[str, Propagation] = {"Background": "Background", "Foreground": "Foreground", "Orphan": "Orphan"}
_MATCH = "resourceVersionMatch"
_LARGEST = 2**64 - 1
_VALIDATIONS: dict[str, FieldValidation] = {"Strict": "Strict", "Warn": "Warn", "Ignore": "Ignore"}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete. `grace` is in seconds, None for the object's own; uid and resource_version are preconditions."""

    grace: int | None = None
    propagation: Propagation = "Background"
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
    unsaid: bool = False
    """Whether nothing was said of dependents."""


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
    """Whether `dryRun=All` is asked for; raises ApiError 422."""
    return _is_dry_run(request, request.query.get("dryRun", []))


def _is_dry_run(request: ApiRequest, values: list[str]) -> bool:
    if found := _dry_run_errors(values):
        raise invalid_options(request, found)
    return values == ["All"]


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    return [] if values in ([], [""], ["All"]) else [unsupported("dryRun", values, ["All"])]


def write_options(request: ApiRequest, found: Sequence[FieldError] = ()) -> tuple[FieldValidation, bool]:
    """What happens to unknown fields, and whether nothing shall be stored; `found` is wrong with the rest.

    Raises ApiError 422, which names all that is wrong.
    """
    query = request.query
    if not query and not found:
        return "Warn", False
    named, values = request.first("fieldManager"), query.get("dryRun", [])
    wrong = [*found, *(name_errors(named) if named else ()), *_dry_run_errors(values)]
    if wrong := wrong + field_validation_errors(request):
        raise invalid_options(request, wrong)
    return _VALIDATIONS[request.first("fieldValidation") or "Warn"], values == ["All"]


def field_validation(request: ApiRequest) -> FieldValidation:
    """What happens to unknown fields; Warn unless said otherwise. Raises ApiError 422."""
    value = request.first("fieldValidation") or "Warn"
    if value in _VALIDATIONS:
        return _VALIDATIONS[value]
    raise invalid_options(request, field_validation_errors(request))


def field_validation_errors(request: ApiRequest) -> list[FieldError]:
    """What is wrong with what is said of unknown fields."""
    value = request.first("fieldValidation")
    known = not value or value in _VALIDATIONS
    return [] if known else [unsupported("fieldValidation", value, ["", *sorted(_VALIDATIONS)])]


def delete_options(request: ApiRequest) -> DeleteOptions:
    """The options of a DELETE: the body's, and where it says nothing the query's; raises ApiError 400 and 422."""
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
        grace=grace if grace is None or grace >= 0 else 1,  # less than nothing is the shortest grace there is
        propagation=_propagation(request, propagation, body.orphan_dependents),
        unsaid=not propagation and body.orphan_dependents is None,
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
    """A number as Go's strconv reads it; raises ApiError 400 with its text."""
    if not text.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def version(text: str) -> int:
    """A resource version; raises ValueError with the text of the real server, which parses it with Go's strconv."""
    if not (text.isascii() and text.isdigit()):
        why = "invalid syntax"
    elif int(text) > _LARGEST:
        why = "value out of range"
    else:
        return int(text)
    raise ValueError(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}')


def number(request: ApiRequest, name: str) -> int:
    """A numeric parameter; 0 when absent. Raises ApiError 400."""
    text = request.first(name)
    return _integer(text) if text else 0


def check_list_options(request: ApiRequest, *, watching: bool) -> None:
    """Parameters of a list or watch that contradict each other; raises ApiError 400 and 422.

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
