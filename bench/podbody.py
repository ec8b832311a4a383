"""A typical pod in 3 KB of JSON, of which only the name differs."""

from __future__ import annotations

import json

_NAME = "name-of-the-pod"
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": _NAME,
        "labels": {f"bench.volcanoio.dev/label-{number}": f"value-{number}" for number in range(8)},
        "annotations": {f"bench.volcanoio.dev/annotation-{number}": "x" * 60 for number in range(8)},
    },
    "spec": {
        "schedulerName": "none",
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/team/training:2026.11",
                "command": ["python", "train.py"],
                "env": [{"name": f"VARIABLE_{number}", "value": "y" * 24} for number in range(16)],
                "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    },
}
_BEFORE, _AFTER = json.dumps(_POD).encode().split(_NAME.encode())


def pod_body(name: str) -> bytes:
    """Return the pod with that name."""
    return _BEFORE + name.encode() + _AFTER
