"""ResourceQuotas, and a configuration that keeps them, for scenarios."""

from __future__ import annotations

from typing import Any

from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: resourcequota
"""


def quota(name: str, hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """Return a ResourceQuota; nothing is used by default."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "ns", "uid": f"quota-{name}"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or dict.fromkeys(hard, "0")},
    }
