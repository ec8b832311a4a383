"""The manager name of a request, and whether its writes are tracked in managedFields.

Tracking costs as much as the write itself. Objects that our own components create are therefore not tracked until
somebody applies to them; other clients are always tracked, as in Kubernetes.
"""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError, causes, summary
from volcanoio.localcluster.apiserver.apimachinery.request import REQUEST, ApiRequest
from volcanoio.model.validation.field_errors import FieldError, invalid, too_long

OURS: Final = "volcanoio"
"""The manager for writes of our own components to tracked objects."""

UNKNOWN: Final = "unknown"
MAX_LENGTH: Final = 128
"""Maximal bytes of a manager's name (Kubernetes: FieldManagerMaxLength)."""

_OPTIONS: Final = {
    "GET": "ListOptions",
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}


def current_manager() -> str:
    """Return the manager name of the current request; raises ApiError 422 for an invalid one."""
    request = REQUEST.get()
    return OURS if request is None else manager_of(request)


def manager_of_creation() -> str | None:
    """Return the manager of a new object.

    The result is None for our own components, whose objects are not tracked.
    """
    request = REQUEST.get()
    if request is None or ("fieldManager" not in request.query and is_ours(request.headers.get("user-agent"))):
        return None
    return manager_of(request)


def is_ours(agent: str | None) -> bool:
    """Return whether the user agent is one of our components.

    They run in this process (no agent), or use HTTP.
    """
    return agent is None or agent.startswith("volcanoio/")


def manager_of(request: ApiRequest) -> str:
    """Return the manager that a request names, else the client program; raises ApiError 422."""
    named = request.first("fieldManager")
    if named:
        if found := name_errors(named):
            raise invalid_options(request, found)
        return named
    agent = request.headers.get("user-agent")
    return OURS if agent is None else _printable(agent.partition("/")[0]) or UNKNOWN


def _printable(text: str) -> str:
    """Return the printable characters, cut to the maximum length."""
    found = "".join(letter for letter in text if letter.isprintable())
    return found.encode()[:MAX_LENGTH].decode(errors="ignore")


def name_errors(name: str) -> list[FieldError]:
    """Return errors of a manager's name."""
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
    """Return a 422 for invalid parameters of a request."""
    kind = _OPTIONS.get(request.method, "UpdateOptions")
    details = {"group": "meta.k8s.io", "kind": kind, "causes": causes(found)}
    return ApiError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {summary(found)}', details)
