"""Under which name a request writes, and whether its writes are tracked.

Tracking costs as much as the write itself, so that what our own components create is not tracked until somebody applies
to it; a client of another program is always tracked, as in Kubernetes.
"""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.fielderrors import FieldError, invalid, too_long
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.caller import REQUEST
from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.localcluster.apiserver.fields import causes, summary

OURS: Final = "volcanoio"
"""The manager of what our own components write to tracked objects."""

UNKNOWN: Final = "unknown"
MAX_LENGTH: Final = 128
"""Bytes of a manager's name (Kubernetes: FieldManagerMaxLength)."""

_OPTIONS: Final = {
    "GET": "ListOptions",
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}


def current_manager() -> str:
    """The name the current request writes under; raises ApiError 422 for one that is none."""
    request = REQUEST.get()
    return OURS if request is None else manager_of(request)


def newcomer() -> str | None:
    """The name under which a new object is tracked from the start; None when it is our own, and is not."""
    request = REQUEST.get()
    if request is None or ("fieldManager" not in request.query and is_ours(request.headers.get("user-agent"))):
        return None
    return manager_of(request)


def is_ours(agent: str | None) -> bool:
    """Whether a request comes from a component of ours: in this process (no agent at all), or over HTTP."""
    return agent is None or agent.startswith("volcanoio/")


def manager_of(request: ApiRequest) -> str:
    """The manager a request names, else the program that sent it; raises ApiError 422."""
    named = request.first("fieldManager")
    if named:
        if found := name_errors(named):
            raise invalid_options(request, found)
        return named
    agent = request.headers.get("user-agent")
    return OURS if agent is None else _printable(agent.partition("/")[0]) or UNKNOWN


def _printable(text: str) -> str:
    """The printable characters, as many as fit."""
    found = "".join(letter for letter in text if letter.isprintable())
    return found.encode()[:MAX_LENGTH].decode(errors="ignore")


def name_errors(name: str) -> list[FieldError]:
    """The broken rules of a manager's name."""
    found: list[FieldError] = []
    if len(name.encode()) > MAX_LENGTH:
        found.append(too_long("fieldManager", MAX_LENGTH))
    at = 0
    for letter in name:
        if not letter.isprintable():
            rule = f"invalid character U+{ord(letter):04X} (at position {at})"
            found.append(invalid("fieldManager", name, rule))
        at += len(letter.encode())
    return found


def invalid_options(request: ApiRequest, found: list[FieldError]) -> ApiError:
    """The 422 about a request's parameters."""
    kind = _OPTIONS.get(request.method, "UpdateOptions")
    details = {"group": "meta.k8s.io", "kind": kind, "causes": causes(found)}
    return ApiError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {summary(found)}', details)
