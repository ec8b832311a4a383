"""`/version` and the health endpoints. They answer as soon as the server listens, as it listens only when loaded."""

from __future__ import annotations

import platform
import re

import msgspec

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse

KUBERNETES_VERSION = (1, 32, 0)
"""The Kubernetes release whose API the server offers; clients compare major and minor."""
_HEALTH = re.compile(r"/(healthz|livez|readyz)(/ping)?")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


async def version(request: ApiRequest) -> ApiResponse | None:
    """Answer `GET /version`; None for any other request."""
    if request.method != "GET" or request.path != "/version":
        return None
    major, minor, patch = KUBERNETES_VERSION
    machine = platform.machine()
    info = {
        "major": str(major),
        "minor": str(minor),
        "gitVersion": f"v{major}.{minor}.{patch}+volcanoio",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",  # clients parse it
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{_MACHINES.get(machine, machine)}",
    }
    return ApiResponse(200, msgspec.json.encode(info))


async def health(request: ApiRequest) -> ApiResponse | None:
    """Answer the health endpoints; None for any other request."""
    match = _HEALTH.fullmatch(request.path)
    if match is None or request.method != "GET":
        return None
    text = f"[+]ping ok\n{match[1]} check passed\n" if request.flag("verbose") else "ok"
    return ApiResponse(200, text.encode(), content_type="text/plain; charset=utf-8")
