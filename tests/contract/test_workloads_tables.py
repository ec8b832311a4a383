"""What `kubectl get` shows of workloads: the same columns and cells from every server."""

from __future__ import annotations

import pytest

from tests.contract.kubelet import template
from tests.contract.support import TABLE, Namespace, Obj

WIDE = "Containers*,Images*,Selector*"
COLUMNS = {
    "deployments.v1.apps": f"Name,Ready,Up-to-date,Available,Age,{WIDE}",
    "replicasets.v1.apps": f"Name,Desired#,Current#,Ready#,Age,{WIDE}",
    "replicationcontrollers": f"Name,Desired#,Current#,Ready#,Age,{WIDE}",
    "statefulsets.v1.apps": "Name,Ready,Age,Containers*,Images*",
    "daemonsets.v1.apps": f"Name,Desired#,Current#,Ready#,Up-to-date#,Available#,Node Selector,Age,{WIDE}",
    "jobs.v1.batch": f"Name,Status,Completions,Duration,Age,{WIDE}",
    "cronjobs.v1.batch": f"Name,Schedule,Timezone,Suspend,Active#,Last Schedule,Age,{WIDE}",
    "poddisruptionbudgets.v1.policy": "Name,Min Available,Max Unavailable,Allowed Disruptions#,Age",
    "endpoints": "Name,Endpoints,Age",
    "endpointslices.v1.discovery.k8s.io": "Name,AddressType,Ports,Endpoints,Age",
    "controllerrevisions.v1.apps": "Name,Controller,Revision,Age",
}
"""By kind; # marks integers, * what `-o wide` adds."""
SELECTED = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}


def table(namespace: Namespace, plural: str) -> Obj:
    """The kind's Table in the namespace."""
    return namespace.cluster.request("GET", namespace.path(plural), accept=TABLE).ok()


@pytest.mark.parametrize("plural", sorted(COLUMNS))
def test_the_columns(namespace: Namespace, plural: str) -> None:
    shown = [
        one["name"] + "#" * (one["type"] == "integer") + "*" * one["priority"]
        for one in table(namespace, plural)["columnDefinitions"]
    ]
    assert shown == COLUMNS[plural].split(",")


def cells(namespace: Namespace, plural: str, spec: Obj) -> list[object]:
    """The cells of an object just made, its age left out."""
    namespace.cluster.create(namespace.path(plural), {"metadata": {"name": "it"}, "spec": spec}).ok()
    shown = table(namespace, plural)
    ages = [at for at, one in enumerate(shown["columnDefinitions"]) if one["name"] in ("Age", "Duration")]
    (row,) = shown["rows"]
    return [cell for at, cell in enumerate(row["cells"]) if at not in ages]


def test_the_cells(namespace: Namespace) -> None:
    idle = {"replicas": 0, "selector": SELECTED, "template": template(app="x")}
    selected = "app=x,app in (x,y)"
    assert cells(namespace, "replicasets.v1.apps", idle) == ["it", 0, 0, 0, "main", "one", selected]
    assert cells(namespace, "statefulsets.v1.apps", idle) == ["it", "0/0", "main", "one"]
    paused = {**idle, "paused": True}
    assert cells(namespace, "deployments.v1.apps", paused) == ["it", "0/0", 0, 0, "main", "one", selected]
    job = cells(namespace, "jobs.v1.batch", {"suspend": True, "parallelism": 3, "template": template(restart="Never")})
    assert job[0] == "it"
    assert job[2:5] == ["0/1 of 3", "main", "one"]
    cron = {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": {"template": template(restart="Never")}}}
    assert cells(namespace, "cronjobs.v1.batch", cron) == [
        "it", "* * * * *", "<none>", "True", 0, "<none>", "main", "one", "<none>",
    ]  # fmt: skip
    budget = {"minAvailable": "50%", "selector": {"matchLabels": {"app": "absent"}}}
    assert cells(namespace, "poddisruptionbudgets.v1.policy", budget) == ["it", "50%", "N/A", 0]
