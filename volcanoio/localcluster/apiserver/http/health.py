"""`/version` and the health endpoints. The server listens only once it is loaded, so that it is always ready."""

from __future__ import annotations

import platform
import re

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.core import Core

KUBERNETES_VERSION = (1, 32, 0)
"""The Kubernetes release whose API the server offers; clients compare major and minor."""
_HEALTH = re.compile(r"/(healthz|livez|readyz)(?:/(ping|log|etcd))?")
_CHECKS = ("ping", "log", "etcd")
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


class Health:
    """The health endpoints. `etcd` stands for the storage, whatever it is."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer a health request; None for any other."""
        match = _HEALTH.fullmatch(request.path)
        if match is None or request.method != "GET":
            return None
        whole, single = match.groups()
        left_out = request.query.get("exclude", [])
        checks = {name: self._holds(name) for name in ([single] if single else _CHECKS) if name not in left_out}
        good = all(checks.values())
        text = "ok"
        if not good or (request.flag("verbose") and not single):
            lines = [f"[+]{name} ok" if ok else f"[-]{name} failed: reason withheld" for name, ok in checks.items()]
            text = "\n".join([*lines, f"{whole} check {'passed' if good else 'failed'}\n"])
        return ApiResponse(200 if good else 500, text.encode(), content_type="text/plain; charset=utf-8")

    def _holds(self, check: str) -> bool:
        if check == "etcd":
            try:
                self._core.check_writable()
            except ApiError:
                return False
        return True
