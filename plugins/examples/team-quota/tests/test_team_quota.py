"""team-quota: what it admits, what it says, and the general checks of plugins."""

from __future__ import annotations

from typing import Any

import pytest
from volcanoio_team_quota import TeamQuota

from volcanoio.framework.arguments import ArgumentError
from volcanoio.testing import check, placements

CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: team-quota
    arguments:
      team-quota.limits: {ann: 4, bob: 1}
"""
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "50", "nvidia.com/gpu": "8"}},
}
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "default"},
    "spec": {"weight": 1},
}


def job(team: str, name: str, gpus: int) -> list[dict[str, Any]]:
    """A PodGroup of one pod."""
    return [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": team},
            "spec": {"minMember": 1, "queue": "default", "minResources": {"nvidia.com/gpu": gpus}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": team, "annotations": {"scheduling.k8s.io/group-name": name}},
            "spec": {
                "schedulerName": "volcano",
                "containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": gpus}}}],
            },
        },
    ]


def test_a_team_gets_what_its_limit_allows_and_others_go_on() -> None:
    """Two GPUs more are above ann's limit of four, bob's job above his; eve has none."""
    cluster = [NODE, QUEUE, *job("ann", "a1", 3), *job("ann", "a2", 2), *job("bob", "b1", 2), *job("eve", "e1", 3)]
    placed = placements(CONFIGURATION, cluster, plugins=[TeamQuota], cycles=3)
    assert set(placed) == {"ann/a1", "eve/e1"}


def test_a_wrong_limit_names_the_argument() -> None:
    """By the key the configuration's line is found."""
    with pytest.raises(ArgumentError, match="team-quota: the limit of ann: ") as caught:
        TeamQuota({"team-quota.limits": {"ann": "many"}})
    assert caught.value.faults[0].key == "team-quota.limits"


def test_it_keeps_the_rules_of_plugins() -> None:
    """On random clusters, with limits that matter there."""
    limits = {"team-quota.resource": "cpu", "team-quota.limits": {"ann": "6", "bob": 2}}
    assert check(TeamQuota, arguments=limits).problems == []
