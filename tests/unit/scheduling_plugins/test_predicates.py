"""Plugin predicates: node filters with Kubernetes' messages, for all nodes at once and for each."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex
from volcanoio_plugins.scheduling.predicates import Predicates

from tests.unit.scheduling_plugins.nodeviews import NodesView, make_node
from tests.unit.scheduling_plugins.views import SessionData, make_shape
from volcanoio.framework.scheduling.points import APPLIES_TO
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
)
from volcanoio.model.selectors import matches_term

DEDICATED = Taint(key="dedicated", value="batch", effect="NoSchedule")


def requiring(*terms: NodeSelectorTerm) -> Affinity:
    required = NodeSelector(node_selector_terms=terms)
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def feasible(
    shape: Shape, *nodes: Node, arguments: dict[str, bool] | None = None
) -> tuple[list[str], dict[str, list[str]]]:
    """Names of feasible nodes, and of those that fail by reason."""
    view = NodesView(list(nodes))
    return asked(Predicates(arguments or {}), shape, view)


def asked(plugin: Predicates, shape: Shape, view: NodesView) -> tuple[list[str], dict[str, list[str]]]:
    """All filters of the plugin together."""
    ok, reasons, names = np.ones(len(view), np.bool_), {}, np.array(view.names)
    for part in plugin.filters:
        answer = part.feasible(shape, view)
        ok &= answer.ok
        reasons.update({text: list(names[mask]) for text, mask in answer.reasons})
    return list(names[ok]), reasons


def test_each_filter_reports_the_message_of_kubernetes() -> None:
    shape = make_shape({}, node_selector={"disk": "ssd"})
    ok, reasons = feasible(
        shape,
        make_node("good", {"disk": "ssd"}),
        make_node("cordoned", {"disk": "ssd"}, unschedulable=True),
        make_node("slow", {"disk": "hdd"}),
        make_node("tainted", {"disk": "ssd"}, (Taint(key="soft", effect="PreferNoSchedule"), DEDICATED)),
    )
    assert ok == ["good"]
    assert reasons == {
        "node(s) were unschedulable": ["cordoned"],
        "node(s) didn't match Pod's node affinity/selector": ["slow"],
        "node(s) had untolerated taint {dedicated: batch}": ["tainted"],
    }


def test_a_pod_with_tolerations_fits_on_cordoned_and_tainted_nodes() -> None:
    everything = make_shape({}, tolerations=(Toleration(operator="Exists"),))
    assert feasible(everything, make_node("a", taints=(DEDICATED,), unschedulable=True)) == (["a"], {})
    exact = make_shape({}, tolerations=(Toleration(key="dedicated", value="batch", effect="NoSchedule"),))
    assert feasible(exact, make_node("a", taints=(DEDICATED,)))[0] == ["a"]
    other = make_shape({}, tolerations=(Toleration(key="dedicated", value="web"),))
    assert feasible(other, make_node("a", taints=(DEDICATED,)))[0] == []


def test_each_filter_can_be_disabled() -> None:
    shape = make_shape({}, node_selector={"disk": "ssd"})
    off = {"predicate.NodeAffinityEnable": False, "predicate.TaintTolerationEnable": False}
    assert feasible(shape, make_node("a", taints=(DEDICATED,)), arguments=off)[0] == ["a"]


def test_one_term_must_match_with_all_of_its_requirements() -> None:
    fast_and_new = NodeSelectorTerm(
        match_expressions=(
            Requirement(key="disk", operator="In", values=("ssd", "nvme")),
            Requirement(key="year", operator="Gt", values=("2020",)),
        )
    )
    by_name = NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator="In", values=("named",)),))
    shape = make_shape({}, affinity=requiring(fast_and_new, by_name))
    ok, _ = feasible(
        shape,
        make_node("new", {"disk": "nvme", "year": "2024"}),
        make_node("old", {"disk": "nvme", "year": "2019"}),
        make_node("odd", {"disk": "nvme", "year": "x"}),
        make_node("named"),
    )
    assert ok == ["new", "named"]


def test_an_empty_term_and_a_term_with_an_unknown_field_match_no_node() -> None:
    unknown = NodeSelectorTerm(match_fields=(Requirement(key="spec.x", operator="In", values=("a",)),))
    assert feasible(make_shape({}, affinity=requiring(NodeSelectorTerm(), unknown)), make_node("a"))[0] == []
    assert feasible(make_shape({}, affinity=requiring()), make_node("a"))[0] == []


def test_changed_and_added_nodes_are_filtered_in_the_next_cycle() -> None:
    shape = make_shape({}, node_selector={"disk": "ssd"})
    view = NodesView([make_node("a"), make_node("b", {"disk": "ssd"})])
    plugin = Predicates({})
    plugin.open(SessionData(nodes=view))
    assert asked(plugin, shape, view)[0] == ["b"]
    view.objects[0] = make_node("a", {"disk": "ssd"})
    view.objects[1] = make_node("b", {"disk": "ssd"}, unschedulable=True)
    plugin.open(SessionData(nodes=view))
    assert asked(plugin, shape, view)[0] == ["a"]
    view.objects.append(make_node("c", {"disk": "ssd"}))
    plugin.open(SessionData(nodes=view))
    assert asked(plugin, shape, view)[0] == ["a", "c"]
    applying = [part for part in plugin.filters if not hasattr(part, APPLIES_TO)]
    assert [part.feasible_depends(shape) for part in applying] == [Depends.NODE_SPEC]


KEYS, VALUES = st.sampled_from(["a", "b", "metadata.name"]), st.sampled_from(["", "1", "2", "-3", "x", "n0", "+1"])
REQUIREMENTS = st.builds(
    Requirement,
    key=KEYS,
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Nonsense"]),
    values=st.lists(VALUES, max_size=2).map(tuple),
)
TERMS = st.builds(
    lambda expressions, fields: NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields)),
    st.lists(REQUIREMENTS, max_size=3),
    st.lists(REQUIREMENTS, max_size=1),
)


@given(st.lists(st.dictionaries(KEYS, VALUES), min_size=1, max_size=6), st.lists(TERMS, max_size=3))
def test_the_mask_of_all_nodes_equals_the_results_for_each_node(
    labels: list[dict[str, str]], terms: list[NodeSelectorTerm]
) -> None:
    nodes = [make_node(f"n{index}", given_labels) for index, given_labels in enumerate(labels)]
    one_by_one = [any(matches_term(term, node.metadata.name, node.metadata.labels) for term in terms) for node in nodes]
    assert list(NodeIndex().over(NodesView(nodes)).matches_any(terms)) == one_by_one
