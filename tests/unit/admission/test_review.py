"""Review as a whole: it never breaks, its defaults are stable, and it takes what we ship."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.admission.objects import QUEUES, create, job, queue, task, update
from volcanoio.engine.admission.review import TABLE, is_reviewed
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

FULL_JOB = job(
    task(
        "a",
        4,
        minAvailable=2,
        policies=[{"event": "PodFailed", "action": "RestartTask"}],
        partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
        topologyPolicy="none",
    ),
    task("b", dependsOn={"name": ["a"], "iteration": "any"}),
    policies=[
        {"events": ["PodEvicted"], "action": "RestartJob", "timeout": "1m"},
        {"exitCode": 3, "action": "AbortJob"},
    ],
    plugins={"env": [], "svc": ["--publish-not-ready-addresses"]},
    volumes=[{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/b", "volumeClaim": {"accessModes": ["x"]}}],
    networkTopology={"mode": "soft", "highestTierAllowed": 1},
    minSuccess=1,
)
FULL_QUEUE: Manifest = {
    "metadata": {"name": "q", "annotations": {"volcano.sh/hierarchy": "a", "volcano.sh/hierarchy-weights": "1"}},
    "spec": {
        "weight": 2,
        "parent": "parent",
        "capability": {"cpu": "4"},
        "deserved": {"cpu": "2"},
        "guarantee": {"resource": {"cpu": "1"}},
    },
    "status": {"state": "Open", "allocated": {"pods": "1"}},
}
FULL_GROUP: Manifest = {
    "metadata": {"name": "g", "namespace": "team"},
    "spec": {
        "queue": "default",
        "minMember": 1,
        "minTaskMember": {"a": 1},
        "subGroupPolicy": [{"name": "s", "networkTopology": {"mode": "soft"}}],
    },
}
FULL_CRON_JOB: Manifest = {
    "metadata": {"name": "c", "namespace": "team"},
    "spec": {
        "schedule": "*/5 9-17 * * mon-fri",
        "timeZone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 60,
        "suspend": False,
        "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": FULL_JOB["spec"]},
    },
}
FULL_JOB_FLOW: Manifest = {
    "metadata": {"name": "f", "namespace": "team"},
    "spec": {
        "flows": [
            {"name": "a", "patch": {"jobSpec": {"queue": "q", "tasks": [{"name": "t", "replicas": 2}]}}},
            {
                "name": "b",
                "dependsOn": {
                    "targets": ["a"],
                    "probe": {
                        "httpGetList": [{"taskName": "t", "port": 80, "httpHeader": {"name": "X-A", "value": "b"}}],
                        "tcpSocketList": [{"taskName": "t", "port": 22}],
                        "taskStatusList": [{"taskName": "t", "phase": "Running"}],
                    },
                },
            },
        ],
        "jobRetainPolicy": "delete",
    },
}
FULL: dict[str, tuple[Kind, Manifest]] = {
    "job": (kinds.JOB, FULL_JOB),
    "queue": (kinds.QUEUE, FULL_QUEUE),
    "pod group": (kinds.POD_GROUP, FULL_GROUP),
    "cron job": (kinds.CRON_JOB, FULL_CRON_JOB),
    "job flow": (kinds.JOB_FLOW, FULL_JOB_FLOW),
}
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "cpu", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path below the spec and metadata's annotations."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in children for found in [(*path, key), *places(child, (*path, key))]]


def replaced(manifest: Manifest, path: tuple[Any, ...], value: Any) -> Manifest:
    copy = deepcopy(manifest)
    holder: Any = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copy


@pytest.mark.parametrize(("kind", "full"), FULL.values(), ids=FULL)
@given(data=st.data())
def test_a_review_handles_any_input(kind: Kind, full: Manifest, data: st.DataObject) -> None:
    """Any value in any field is a refusal at worst, and each refusal names a field."""
    fixed = (("metadata",), ("metadata", "name"), ("metadata", "namespace"))
    path = data.draw(st.sampled_from([one for one in places(full) if one not in fixed]))
    broken = replaced(full, path, data.draw(junk))
    for review in (create(kind, broken), update(kind, full, broken)):
        assert review.allowed is (not review.messages)
        assert all(": " in message for message in review.messages), review.messages


@pytest.mark.parametrize(("kind", "full"), FULL.values(), ids=FULL)
def test_defaults_are_stable(kind: Kind, full: Manifest) -> None:
    """What was reviewed is reviewed again without a change or a word."""
    queues = [obj for obj in QUEUES if obj.metadata.name not in ("parent", "child")]
    once = create(kind, full, *queues) if kind is kinds.JOB else create(kind, full)
    assert once.object is not None
    twice = create(kind, once.object, *queues) if kind is kinds.JOB else create(kind, once.object)
    assert once.object == twice.object


EXAMPLES = sorted(config_path("examples").rglob("*.yaml"))
LENDING = (queue("small"), queue("large"), queue("team-a"), queue("gpus"))
"""Queues of the examples in which jobs of theirs are."""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_admitted(path: Any) -> None:
    for manifest in read_manifests(path):
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        if kind in (kinds.JOB, kinds.QUEUE, kinds.CRON_JOB, kinds.JOB_FLOW):
            assert create(kind, manifest, *QUEUES, *LENDING).messages == ()


def test_only_topology_annotations_of_pods_are_reviewed() -> None:
    """Pods are many: the server creates and deletes most of them without asking."""
    annotations = {"volcano.sh/numa-topology-policy": "restricted", "a": "b"}
    assert is_reviewed("pods", "CREATE", annotations)
    assert not is_reviewed("pods", "CREATE", {"a": "b"})
    assert not is_reviewed("pods", "DELETE", annotations)
    assert is_reviewed("jobs.batch.volcano.sh", "CREATE", {})
    assert not is_reviewed("jobs.batch", "CREATE", {})


def test_the_table_names_resources_that_exist() -> None:
    known = {kind.resource for kind in kinds.ALL}
    assert {resource for resource, _ in TABLE} <= known
