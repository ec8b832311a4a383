"""Subresources of pods that need a running process: refused with the reason, which a plain 404 would hide."""

from __future__ import annotations

import re

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.errors import ApiError

_PATH = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/proxy(/.*)?")


async def unserved(request: ApiRequest) -> ApiResponse | None:
    """Answer what no container offers; None for any other request."""
    if "/proxy" not in request.path or not _PATH.fullmatch(request.path):
        return None
    text = "proxy is not served; a pod that `volcanoio up --run` runs can be reached at its own address (status.podIP)"
    return ApiError(501, "NotImplemented", text).response()
