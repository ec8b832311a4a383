"""What is selected and tolerated equals Kubernetes' own answers, for the model and for all who decide by it.

Kubernetes' own code wrote the table (tests/goclient/matching). It also has rows that no API server would accept.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest
from volcanoio_plugins.scheduling.kubernetes.nodeaffinity import NodeFilter
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex

from tests.goclient.building import NotBuiltError, program
from tests.unit.model.matching import (
    ABSENT_AND_VALUES,
    GOLDEN,
    NODES,
    TABLE,
    TAINTS,
    Row,
    expected,
    name,
    shown,
    tainted,
)
from tests.unit.scheduling_plugins.nodeviews import NodesView
from tests.unit.scheduling_plugins.views import make_shape
from volcanoio.framework.podusage import QuotaScope
from volcanoio.model.core import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)
from volcanoio.model.selectors import is_valid_requirement, matches_required, satisfied, soft_untolerated, tolerates


@pytest.mark.parametrize("row", TABLE["nodeRequirements"], ids=shown)
def test_requirements_of_nodes(row: Row) -> None:
    requirement = msgspec.convert(row, Requirement)
    assert [value for value in ABSENT_AND_VALUES if satisfied(requirement, value)] == expected(row)
    assert is_valid_requirement(requirement) is not row.get("error", False)


@pytest.mark.parametrize("row", TABLE["labelRequirements"], ids=shown)
def test_requirements_of_labels(row: Row) -> None:
    (requirement,) = LabelSelector(match_expressions=(msgspec.convert(row, Requirement),)).requirements
    assert [value for value in ABSENT_AND_VALUES if satisfied(requirement, value)] == expected(row)


@pytest.mark.parametrize("row", TABLE["labelRequirements"], ids=shown)
def test_scopes_of_quotas_where_an_empty_value_is_none(row: Row) -> None:
    scope = QuotaScope(row["key"], row["operator"], tuple(row.get("values", ())))
    if row["operator"] not in ("Gt", "Lt"):
        wanted = ["" if value is None else value for value in expected(row) if value != ""]
        assert [value for value in TABLE["labelValues"] if scope.meets(value)] == wanted


@pytest.mark.parametrize("row", TABLE["nodeSelectors"], ids=shown)
def test_required_node_affinity_for_the_scheduler(row: Row) -> None:
    required = msgspec.convert({"nodeSelectorTerms": row["terms"]}, NodeSelector)
    affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
    spec, wanted = PodSpec(affinity=affinity), [at in row.get("selected", []) for at in range(len(NODES))]
    assert [matches_required(spec, name(node), node.metadata.labels) for node in NODES] == wanted
    assert list(NodeIndex().over(NodesView(NODES)).matches_any(required.node_selector_terms)) == wanted


@pytest.mark.parametrize("row", TABLE["tolerations"], ids=shown)
def test_tolerations_for_the_scheduler(row: Row) -> None:
    toleration = msgspec.convert({"operator": "", **row}, Toleration)
    wanted = row.get("tolerated", [])
    assert [at for at, taint in enumerate(TAINTS) if tolerates(toleration, taint)] == wanted
    index = NodeIndex()
    scheduler = NodeFilter(index, affinity=True, taints=True)
    for at, taint in enumerate(TAINTS):
        keeps_away = taint.effect != "PreferNoSchedule"
        node = tainted(taint)
        answer = scheduler.feasible(make_shape({}, tolerations=(toleration,)), NodesView([node]))
        assert np.all(answer.ok) == (at in wanted or not keeps_away)


def test_a_toleration_without_operator_compares_values() -> None:
    assert tolerates(Toleration(key="k", value="v"), Taint(key="k", value="v", effect="NoSchedule"))


def test_soft_taints_are_forgiven_only_by_tolerations_for_them() -> None:
    soft, hard = Taint(key="a", effect="PreferNoSchedule"), Taint(key="a", effect="NoSchedule")
    assert soft_untolerated((soft, hard), ()) == 1
    assert soft_untolerated((soft,), (Toleration(key="a", operator="Exists", effect="NoSchedule"),)) == 1
    assert soft_untolerated((soft,), (Toleration(key="a", operator="Exists"),)) == 0


def test_results_equal_those_of_kubernetes(tmp_path: Path) -> None:
    out = tmp_path / "matching.json"
    try:
        built = program("matching")
    except NotBuiltError as error:
        pytest.skip(f"NOT TESTED with Kubernetes' own code: {error}")
    subprocess.run([built, out], check=True)
    assert out.read_text(encoding="utf-8") == GOLDEN.read_text(encoding="utf-8"), "run go run ./matching"
