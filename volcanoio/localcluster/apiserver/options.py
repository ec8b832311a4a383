"""Parameters of requests, from the query and, for deletions, from the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.errors import MALFORMED, bad_request

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]

_PROPAGATIONS: dict[str, Propagation] = {"Background": "Background", "Foreground": "Foreground", "Orphan": "Orphan"}
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


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteBody(msgspec.Struct, rename="camel"):
    """`meta/v1 DeleteOptions`."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


_decode_delete = msgspec.json.Decoder(_DeleteBody).decode


def dry_run(request: ApiRequest) -> bool:
    """Whether `dryRun=All` is asked for."""
    return _is_dry_run(request.query.get("dryRun", []))


def _is_dry_run(values: list[str]) -> bool:
    if not values or values == [""]:
        return False
    if values != ["All"]:
        raise bad_request(f"dryRun: Unsupported value: {values}: supported values: All")
    return True


def field_validation(request: ApiRequest) -> FieldValidation:
    """What happens to unknown fields; Warn unless said otherwise."""
    value = request.first("fieldValidation") or "Warn"
    if value in _VALIDATIONS:
        return _VALIDATIONS[value]
    raise bad_request(f'fieldValidation: Unsupported value: "{value}": supported values: {", ".join(_VALIDATIONS)}')


def delete_options(request: ApiRequest) -> DeleteOptions:
    """The options of a DELETE: the body's, and where it says nothing the query's; raises ApiError 400 and 415."""
    try:
        body = _decode_delete(request.body) if request.body.strip() else _DeleteBody()
    except MALFORMED as error:
        raise bad_request(f"the body is not a DeleteOptions object: {error}") from None
    grace = body.grace_period_seconds
    if grace is None and (text := request.first("gracePeriodSeconds")) is not None:
        grace = _integer("gracePeriodSeconds", text)
    if grace is not None and grace < 0:
        raise bad_request(f"gracePeriodSeconds: Invalid value: {grace}: must be greater than or equal to 0")
    preconditions = body.preconditions or _Preconditions()
    return DeleteOptions(
        grace=grace,
        propagation=_propagation(body.propagation_policy or request.first("propagationPolicy"), body.orphan_dependents),
        uid=preconditions.uid or "",
        resource_version=preconditions.resource_version or "",
        dry_run=_is_dry_run(body.dry_run or []) or dry_run(request),
    )


def _propagation(text: str | None, orphan: bool | None) -> Propagation:
    if not text:
        return "Orphan" if orphan else "Background"
    if text in _PROPAGATIONS:
        return _PROPAGATIONS[text]
    raise bad_request(f'propagationPolicy: Unsupported value: "{text}": supported values: {", ".join(_PROPAGATIONS)}')


def _integer(name: str, text: str) -> int:
    if not text.removeprefix("-").isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
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
    return _integer(name, text) if text else 0
