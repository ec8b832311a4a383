"""The options a write was made with, as an AdmissionReview shows them."""

from __future__ import annotations

from typing import Final

import msgspec

from volcanoio.localcluster.apiserver.caller import REQUEST
from volcanoio.localcluster.apiserver.webhooks.attributes import Operation
from volcanoio.model.base import Manifest

_KINDS: Final[dict[str, str]] = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_SINGLE: Final = ("fieldManager", "fieldValidation")


def request_options(operation: Operation) -> Manifest:
    """`CreateOptions`, `UpdateOptions` or `DeleteOptions` of the request being carried out; empty for CONNECT."""
    kind = _KINDS.get(operation)
    if kind is None:
        return {}
    options: Manifest = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    request = REQUEST.get()
    if request is None:
        return options
    if operation == "DELETE" and request.method == "DELETE" and request.body.strip():
        stated = msgspec.json.decode(request.body, type=dict)  # it was read as DeleteOptions before
        options |= {key: value for key, value in stated.items() if key not in {"kind", "apiVersion"}}
    for key in _SINGLE:
        if value := request.first(key):
            options[key] = value
    if values := request.query.get("dryRun"):
        options["dryRun"] = list(values)
    return options
