"""Refusals of the shell and its routes, as Kubernetes' Status object."""

from __future__ import annotations

import msgspec

from volcanoio.localcluster.apiserver.api import ApiResponse


def refusal(code: int, reason: str, message: str) -> ApiResponse:
    """A failed answer. `reason` is the machine-readable word that clients branch on."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return ApiResponse(code, msgspec.json.encode(status))
