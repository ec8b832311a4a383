"""What a pod's volumes need."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localcluster.nodes.pods import pod
from volcanoio.localcluster.nodes.volumes import references


@pytest.mark.parametrize(
    ("volume", "needed"),
    [
        ({"configMap": {"name": "hosts"}}, [("ConfigMap", "hosts")]),
        ({"configMap": {"name": "hosts", "optional": True}}, []),
        ({"secret": {"secretName": "keys"}}, [("Secret", "keys")]),
        ({"persistentVolumeClaim": {"claimName": "data"}}, [("PersistentVolumeClaim", "data")]),
        ({"emptyDir": {}}, []),
        (
            {"projected": {"sources": [{"secret": {"name": "a"}}, {"configMap": {"name": "b"}}, {"downwardAPI": {}}]}},
            [("Secret", "a"), ("ConfigMap", "b")],
        ),
    ],
    ids=["ConfigMap", "an optional one", "Secret", "claim", "emptyDir", "projected"],
)
def test_references(volume: dict[str, Any], needed: list[tuple[str, str]]) -> None:
    found = references(pod(volumes=[{"name": "v", **volume}]))
    assert [(reference.kind.kind, reference.name) for reference in found] == needed
    assert {reference.volume for reference in found} <= {"v"}
