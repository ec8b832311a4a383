"""Fields of pod templates with values of the wrong type are errors of the template, not of the admission."""

from __future__ import annotations

from typing import Any

import pytest

from volcanoio.model.validation.pod_template import validate_pod_template

CONTAINER = {"name": "c", "image": "busybox"}


def errors(**spec: Any) -> list[str]:
    return validate_pod_template({"spec": {"containers": [CONTAINER], **spec}}, "t")


def preferring(preference: Any) -> dict[str, Any]:
    node = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}]}
    return {"nodeAffinity": node}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"affinity": preferring("disk")}, 'preference: Invalid value: "disk": must be an object'),
        (
            {"affinity": preferring({"matchExpressions": [{"key": "disk", "operator": "Gt", "values": 1}]})},
            "matchExpressions[0].values: Invalid value: 1: must be a list of strings",
        ),
        (
            {"affinity": preferring({"matchExpressions": [{"key": "disk", "operator": ["In"], "values": ["a"]}]})},
            "matchExpressions[0].operator: Unsupported value",
        ),
        ({"tolerations": [{"key": "a", "operator": ["Exists"]}]}, "t.spec.tolerations[0].operator: Unsupported value"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": ["Never"]}]},
            "t.spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value",
        ),
    ],
    ids=["preference", "values", "operator", "toleration", "spread"],
)
def test_a_value_of_the_wrong_type_is_named(spec: dict[str, Any], error: str) -> None:
    (found,) = errors(**spec)
    assert error in found
