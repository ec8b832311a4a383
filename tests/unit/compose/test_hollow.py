"""What hollow nodes may do, and what they are called."""

from __future__ import annotations

import pytest
import yaml

from volcanoio.compose.hollow import PERMISSIONS, HollowOptions
from volcanoio.compose.options import OptionError
from volcanoio.model.packaged import config_path


def test_the_cluster_role_grants_exactly_the_needed_rights() -> None:
    role = yaml.safe_load((config_path("rbac") / "hollow-nodes.yaml").read_text())
    granted = {
        (verb, group, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {(verb, right.group, right.resource) for right in PERMISSIONS for verb in right.verbs}


def test_nodes_are_named_and_sized_as_asked_for() -> None:
    first, second = HollowOptions(count=2, prefix="big", node_resources="cpu=64").shapes()
    assert (first.name, second.name) == ("big-0", "big-1")
    assert dict(first.resources) == {"cpu": "64", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}


@pytest.mark.parametrize("prefix", ["", "-a", "a-", "A", "a.b", "a" * 51])
def test_a_prefix_that_begins_no_name_is_refused(prefix: str) -> None:
    with pytest.raises(OptionError, match="--prefix"):
        HollowOptions(prefix=prefix).shapes()
