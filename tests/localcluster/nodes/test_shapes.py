"""`--node-resources`."""

from __future__ import annotations

import pytest

from volcanoio.localcluster.nodes.hollow import NodeResourcesError, parse_node_resources, uniform_fleet


def test_named_resources_replace_defaults() -> None:
    assert parse_node_resources("cpu=16, nvidia.com/gpu=8") == {
        "cpu": "16",
        "memory": "32Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
        "nvidia.com/gpu": "8",
    }
    assert parse_node_resources("ephemeral-storage=20Gi")["ephemeral-storage"] == "20Gi"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("cpu", "NAME=QUANTITY"),
        ("", "NAME=QUANTITY"),
        ("cpu=8,,memory=1Gi", "NAME=QUANTITY"),
        ("cpu=8,cpu=9", "given twice"),
        ("cpu=eight", "is not a quantity"),
        ("cpu=0", "greater than 0"),
        ("gpu=8", "have a domain"),
        ("pods=1.5", "whole units"),
        ("nvidia.com/gpu=500m", "whole units"),
    ],
)
def test_error_names_option_rule_and_example(text: str, rule: str) -> None:
    with pytest.raises(NodeResourcesError, match=rule) as caught:
        parse_node_resources(text)
    assert str(caught.value).startswith("--node-resources: ")
    assert "cpu=8,memory=32Gi" in str(caught.value)


def test_nodes_are_numbered() -> None:
    assert [shape.name for shape in uniform_fleet(3)] == ["node-0", "node-1", "node-2"]
    with pytest.raises(NodeResourcesError):
        uniform_fleet(-1)
