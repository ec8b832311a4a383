"""Creating an object of a kind without a controller causes a warning; other kinds cause none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from volcanoio.compose.local import all_controllers
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.registry.kinds.strategy import IDLE
from volcanoio.localcluster.apiserver.registry.kinds.table import STRATEGIES
from volcanoio.localcluster.apiserver.server import ApiServer

CONTAINERS = [{"name": "c", "image": "i"}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
ONCE = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
CRON = {"schedule": "@daily", "jobTemplate": {"spec": {"template": ONCE}}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


@pytest.mark.parametrize(
    ("path", "spec", "reported"),
    [
        (
            "batch/v1/namespaces/default/cronjobs",
            {"schedule": "@daily", "jobTemplate": {"spec": {"template": ONCE}}},
            "CronJob",
        ),
        ("networking.k8s.io/v1/namespaces/default/networkpolicies", {"podSelector": {}}, "NetworkPolicy"),
        ("apps/v1/namespaces/default/deployments", SELECTED, ""),
        ("apps/v1/namespaces/default/daemonsets", SELECTED, ""),
        ("batch/v1/namespaces/default/jobs", {"template": ONCE}, ""),
    ],
)
async def test_kinds_without_a_controller_cause_a_warning(path: str, spec: dict[str, Any], reported: str) -> None:
    async with ApiServer.open(None).running() as server:
        body = json.dumps({"metadata": {"name": "it"}, "spec": spec}).encode()
        answer = await InProcessTransport(server).request("POST", f"/apis/{path}", body=body)
    assert answer.status == 201, answer.body
    headers = {name.lower(): value for name, value in answer.headers.items()}
    expected = f'299 - "{reported}: stored, but no controller of this server acts on it"' if reported else None
    assert headers.get("warning") == expected


def test_kinds_with_a_controller_cause_no_warning() -> None:
    acted_on = {controller.primary.resource for controller in all_controllers()}
    assert not acted_on & IDLE.keys()
    assert not [name for name in acted_on if (strategy := STRATEGIES.get(name)) is not None and strategy.warning]
