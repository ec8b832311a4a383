"""The checker of placements finds what it is there to find."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench import checker
from bench.checker import GroupFacts, NodeFacts, PodFacts, check
from bench.workload import Workload

NODES = [NodeFacts("a", {"cpu": 2, "pods": 10}, {"type": "x"}), NodeFacts("b", {"cpu": 9, "pods": 2})]
PODS = [PodFacts(f"p{index}", "g", {"cpu": 1}) for index in range(3)] + [PodFacts("q", "h", {"cpu": 1}, {"type": "x"})]
GROUPS = [GroupFacts("g", 3, "queue"), GroupFacts("h", 1, "queue")]


def violations(*placements: tuple[str, str], limit: int = 9) -> list[str]:
    return check(NODES, PODS, GROUPS, {"queue": {"cpu": limit}}, placements).violations


def test_a_right_placement_passes() -> None:
    report = check(NODES, PODS, GROUPS, {}, [("p0", "a"), ("p1", "b"), ("p2", "b"), ("q", "a")])
    assert (report.placed, report.gangs_placed, report.gangs_unplaced, report.violations) == (4, 2, 0, [])
    assert check(NODES, PODS, GROUPS, {}, []).gangs_unplaced == 2


@pytest.mark.parametrize(
    ("placements", "limit", "expected"),
    [
        ([("p0", "a"), ("p1", "a"), ("p2", "a")], 9, ["node a holds 3 cpu, more than 2"]),
        ([("p0", "b"), ("p1", "b"), ("p2", "b")], 9, ["node b holds 3 pods, more than 2"]),
        ([("p0", "a"), ("p1", "b"), ("p2", "b")], 2, ["queue queue holds 3 cpu, more than 2"]),
        ([("p0", "a")], 9, ["gang g has 1 of 3 members placed"]),
        ([("q", "b")], 9, ["pod q wants type=x, node b has None"]),
        ([("q", "a"), ("q", "a")], 9, ["pod q is placed twice"]),
        ([("unknown", "a")], 9, ["pod unknown on node a: no such pod or node"]),
    ],
)
def test_each_rule_is_checked(placements: list[tuple[str, str]], limit: int, expected: list[str]) -> None:
    assert violations(*placements, limit=limit) == expected


def test_the_checker_does_not_import_the_product() -> None:
    tree = ast.parse(Path(checker.__file__).read_text(encoding="utf-8"))
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "") or ""]
        )
    }
    assert not [name for name in imported if name.startswith("volcanoio")]


def test_the_workload_is_equal_for_engine_and_checker() -> None:
    workload = Workload(nodes=10, pods=21, gang=4)
    assert len(list(workload.pod_objects())) == len(list(workload.pod_facts())) == 21
    assert [pod.metadata.uid for pod in workload.pod_objects()] == [pod.uid for pod in workload.pod_facts()]
    assert [group.spec.min_member for group in workload.group_objects()] == [4, 4, 4, 4, 4, 1]
