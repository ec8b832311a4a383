"""Subresources of pods that need a running process: refused with the reason, which a plain 404 would hide."""

from __future__ import annotations

import re

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.errors import ApiError

_PATH = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/(exec|attach|portforward|proxy)(/.*)?")
_NAMES = {"exec": "exec (also cp)", "attach": "attach", "portforward": "port-forward", "proxy": "proxy"}


async def unserved(request: ApiRequest) -> ApiResponse | None:
    """Answer what cannot be done with a simulated container; None for any other request."""
    match = _PATH.fullmatch(request.path)
    if match is None:
        return None
    text = "is not served: containers are simulated and run no process; kubectl logs shows what they write"
    return ApiError(501, "NotImplemented", f"{_NAMES[match[1]]} {text}").response()
