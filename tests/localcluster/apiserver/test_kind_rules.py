"""Rules that kinds share, one by one; whole objects are compared with a real server by tests/contract/differential."""

from __future__ import annotations

from typing import Any

import pytest

from volcanoio.localcluster.apiserver.registry.kinds.jobs import schedule_rule
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    count_or_percent_errors,
    host_rule,
    is_block,
    number_of,
    percentage_errors,
    port_errors,
    port_name_errors,
    segment_rule,
)


@pytest.mark.parametrize(
    ("schedule", "broken"),
    [
        ("0 0 1 1 *", ""),
        ("*/5 8-18/2 ? jan-MAR mon,fri", ""),
        ("@yearly", ""),
        ("@every 1h", ""),
        ("TZ=UTC 0 0 1 1 *", ""),
        ("@never", "unrecognized descriptor: @never"),
        ("rubbish", "expected exactly 5 fields, found 1: [rubbish]"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ],
)
def test_schedules(schedule: str, broken: str) -> None:
    assert schedule_rule(schedule) == broken


@pytest.mark.parametrize(
    ("amount", "number", "count", "over"),
    [(0, 0, 0, 0), (3, 3, 0, 0), (-1, -1, 1, 0), ("30%", 30, 0, 0), ("130%", 130, 0, 1), ("many", 0, 1, 0)],
)
def test_counts_and_percentages(amount: Any, number: int, count: int, over: int) -> None:
    found = (number_of(amount), len(count_or_percent_errors(amount, "f")), len(percentage_errors(amount, "f")))
    assert found == (number, count, over)


def test_ports_hosts_and_names() -> None:
    assert [bool(port_errors(one, "f")) for one in (1, 65535, 0, 65536, None)] == [False, False, True, True, True]
    assert [len(port_name_errors(one, "f")) for one in ("web", "Bad_Name", "80", "a--b", "-a", "a" * 16)] == [
        *(0, 1, 1, 1, 1, 1)
    ]
    assert [bool(host_rule(one)) for one in ("a.example.com", "*.example.com", "a.*.com", "A")] == [
        *(False, False, True, True)
    ]
    assert [is_block(one) for one in ("10.0.0.0/8", "fd00::/8", "10.0.0.1", "nowhere")] == [True, True, False, False]
    assert [segment_rule(one) for one in ("a.b", "..", "a/b")] == [[], ["may not be '..'"], ["may not contain '/'"]]
