"""Counts API writes with a listener at the server, passed in place of faults, so that no product code counts."""

from __future__ import annotations

from collections import Counter

from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule

MANY = 100_000
"""Requests that are stored before they are classified."""
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class CountedRequests(Faults):
    """Counter of the writes since `forget`; injects no faults."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: list[tuple[str, str]] = []
        self._counted: Counter[str] = Counter()

    def note(self, request: ApiRequest) -> Rule | None:
        """Record a write without its body; it is classified later, outside the measured time."""
        if request.method != "GET":
            self._noted.append((request.method, request.path))
            if len(self._noted) >= MANY:
                self._count()
        return None

    def _count(self) -> None:
        self._counted.update(f"{VERBS[method]} {resource_of(path)}" for method, path in self._noted if method in VERBS)
        self._noted.clear()

    def forget(self) -> None:
        """Reset all counts."""
        self._noted.clear()
        self._counted.clear()

    @property
    def writes(self) -> Counter[str]:
        """Number of writes by verb and resource, with the subresource if there is one."""
        self._count()
        return self._counted

    def per(self, pods: int) -> dict[str, float]:
        """Return writes per pod, the most frequent first."""
        return {what: round(count / pods, 4) for what, count in self.writes.most_common()}


def resource_of(path: str) -> str:
    """Return the resource of an API path, `pods/binding` for a subresource.

    The path is /api/V/... or /apis/G/V/..., then optionally namespaces/NS, then RESOURCE[/NAME[/SUBRESOURCE]].
    """
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[::2]) if len(parts) > 2 else "".join(parts[:1])
