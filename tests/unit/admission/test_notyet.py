"""Fields without effect yet are told, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.objects import create, job, task
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

_CONTAINER = {"name": "main", "image": "busybox"}


def _pod(**spec: Any) -> Manifest:
    return {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER], **spec}}


@pytest.mark.parametrize(
    ("template", "spec", "field"),
    [
        (_pod(), {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, "spec.networkTopology"),
    ],
)
def test_a_field_without_effect_is_told(template: Manifest, spec: dict[str, Any], field: str) -> None:
    review = create(kinds.JOB, job(task(template=template), **spec))
    assert review.allowed
    assert [warning for warning in review.warnings if warning.startswith(f"{field}: accepted, but not considered yet")]


def test_a_job_without_such_fields_is_not_warned_of() -> None:
    assert create(kinds.JOB, job(task(template=_pod(nodeSelector={"a": "b"})))).warnings == ()


def group(*policies: Manifest) -> Manifest:
    spec = {"queue": "default", "minMember": 1, "subGroupPolicy": list(policies)}
    return {"metadata": {"name": "g", "namespace": "team"}, "spec": spec}


def test_topology_of_sub_groups_has_no_effect_and_a_policy_without_keys_takes_no_pod() -> None:
    keys = ["volcano.sh/partition-id"]
    assert create(kinds.POD_GROUP, group({"name": "a", "matchLabelKeys": keys})).warnings == ()
    topology = {"mode": "hard", "highestTierAllowed": 1}
    (warning,) = create(
        kinds.POD_GROUP, group({"name": "a", "matchLabelKeys": keys, "networkTopology": topology})
    ).warnings
    assert warning.startswith("spec.subGroupPolicy[0].networkTopology: accepted, but not considered yet")
    (warning,) = create(kinds.POD_GROUP, group({"name": "a"})).warnings
    assert warning == (
        "spec.subGroupPolicy[0]: a policy without matchLabelKeys takes no pod; "
        "name the labels that tell its sub-groups apart"
    )
