"""Counting what is written: a listener at the API server's door, in place of faults, so that no product code counts."""

from __future__ import annotations

from collections import Counter

from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule

MANY = 100_000
"""Requests that are kept before what they were is worked out."""
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class CountedRequests(Faults):
    """Injects nothing, and notes the writes since `forget`."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: list[tuple[str, str]] = []
        self._counted: Counter[str] = Counter()

    def note(self, request: ApiRequest) -> Rule | None:
        """Note a write; keeps no bodies. What it was is worked out later, so as not to be measured, too."""
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
        """How many writes there were, by verb and resource, with the subresource where there is one."""
        self._count()
        return self._counted

    def per(self, pods: int) -> dict[str, float]:
        """Writes per pod, the most frequent first."""
        return {what: round(count / pods, 4) for what, count in self.writes.most_common()}


def resource_of(path: str) -> str:
    """The resource of an API path, `pods/binding` for a subresource.

    The path is /api/V/... or /apis/G/V/..., then perhaps namespaces/NS, then RESOURCE[/NAME[/SUBRESOURCE]].
    """
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[::2]) if len(parts) > 2 else "".join(parts[:1])
