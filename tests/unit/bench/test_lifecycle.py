"""The controllers' rows, small: what they check themselves holds, and they count what they say."""

from __future__ import annotations

import pytest

from bench.lifecycle import ROWS, measure
from bench.lifecycles.life import written


@pytest.mark.parametrize("row", ["life", "restart"])
def test_a_row_reports_no_violations(row: str) -> None:
    figures = measure(row, 30 * ROWS[row][1])
    assert figures["violations"] == []
    assert figures["pods"] == 300
    if row == "life":
        assert figures["writes_per_pod_by_kind"]["create pods"] == 1
    else:
        assert figures["pods_changed_meanwhile"] == 3
        assert figures["reaction"]["acting"]["events"] > 10


def test_writes_of_users_and_heartbeats_are_separate() -> None:
    found = written({"create jobs": 1, "create events": 9, "patch leases": 5, "create pods": 10}, 10)
    assert found["writes_per_pod"] == 1
    assert found["beside"] == {"create events": 0.9, "patch leases": 0.5, "create jobs": 0.1}
