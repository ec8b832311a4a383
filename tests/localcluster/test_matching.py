"""Selectors and tolerations of API server, kubelets and controllers equal Kubernetes' own answers.

The table is that of tests/unit/model/test_nodematch.py, which compares the model and the scheduler with it.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.model.matching import ABSENT_AND_VALUES, NODES, TABLE, TAINTS, Row, expected, name, shown, tainted
from volcanoio.localcluster.apiserver.apimachinery.selectors import (
    SelectorError,
    label_selector,
    matches_label_selector,
)
from volcanoio.localcluster.controllers.daemonsets import fits_node, placement
from volcanoio.localcluster.controllers.nodelifecycle import stays_until
from volcanoio.localcluster.nodes.pods.predicates import failed_predicate
from volcanoio.model.core import Affinity, NodeAffinity, NodeSelector, Pod, PodSpec, Taint, Toleration


@pytest.mark.parametrize("row", TABLE["labelRequirements"], ids=shown)
def test_requirements_of_labels_as_json(row: Row) -> None:
    def selects(value: str | None) -> bool:
        return matches_label_selector({"matchExpressions": [row]}, {} if value is None else {row["key"]: value})

    assert [value for value in ABSENT_AND_VALUES if selects(value)] == expected(row)


@pytest.mark.parametrize("row", TABLE["queries"], ids=lambda row: row["text"])
def test_label_selectors_in_requests(row: Row) -> None:
    if error := row.get("error"):
        with pytest.raises(SelectorError) as found:
            label_selector(row["text"])
        assert str(found.value) == error
        return
    matches = label_selector(row["text"])
    selected = [at for at, labels in enumerate(TABLE["labelSets"]) if matches is None or matches(labels)]
    assert selected == row.get("selected", [])


@pytest.mark.parametrize("row", TABLE["nodeSelectors"], ids=shown)
def test_required_node_affinity_for_kubelets_and_daemons(row: Row) -> None:
    required = msgspec.convert({"nodeSelectorTerms": row["terms"]}, NodeSelector)
    affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
    pod, template = Pod(spec=PodSpec(affinity=affinity)), {"spec": {"affinity": msgspec.to_builtins(affinity)}}
    wanted = [at in row.get("selected", []) for at in range(len(NODES))]
    assert [
        failed_predicate(pod, name(node), node.metadata.labels, (), frozenset()) is None for node in NODES
    ] == wanted
    assert [fits_node(placement(template), node)[0] for node in NODES] == wanted


@pytest.mark.parametrize("row", TABLE["tolerations"], ids=shown)
def test_tolerations_for_kubelets_eviction_and_daemons(row: Row) -> None:
    toleration = msgspec.convert({"operator": "", **row}, Toleration)
    wanted = row.get("tolerated", [])
    pod, template = Pod(spec=PodSpec(tolerations=(toleration,))), {"spec": {"tolerations": [row]}}
    for at, taint in enumerate(TAINTS):
        drives_off, keeps_away = taint.effect == "NoExecute", taint.effect != "PreferNoSchedule"
        assert (failed_predicate(pod, "n", {}, (taint,), frozenset()) is None) is (at in wanted or not drives_off)
        assert (stays_until(pod.spec.tolerations, [taint], 1.0) is None) is (at in wanted)
        assert fits_node(placement(template), tainted(taint))[0] is (at in wanted or not keeps_away)


def test_the_first_toleration_of_a_taint_limits_the_stay() -> None:
    taint = Taint(key="k", effect="NoExecute", time_added="1970-01-01T00:01:00Z")
    minute, ever = (Toleration(key="k", operator="Exists", toleration_seconds=limit) for limit in (60, None))
    assert stays_until((ever, minute), [taint], 70.0) is None
    assert stays_until((minute, ever), [taint], 70.0) == 120.0
