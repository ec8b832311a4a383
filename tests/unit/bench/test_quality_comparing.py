"""When a row of the scorecard counts as worse than the committed one."""

from __future__ import annotations

from typing import Any

import pytest

from bench.quality.comparing import worse

SHARES: dict[str, Any] = {
    "allocated": [94.0, 95.0, 96.0],
    "fragmented": [5.0, 4.0, 3.0],
    "deviation": [0.0, 0.3, 0.2],
    "seeds": 4,
}


@pytest.mark.parametrize(
    ("change", "figures"),
    [
        ({}, []),
        ({"allocated": [94.0, 94.71, 96.0]}, []),
        ({"allocated": [94.0, 94.69, 96.0]}, ["allocated.1"]),
        ({"allocated": [93.89, 96.0, 97.0]}, ["allocated.0"]),
        ({"fragmented": [5.0, 4.0, 3.21]}, ["fragmented.2"]),
    ],
)
def test_shares_are_worse_beyond_twice_the_error_of_their_mean(change: dict[str, Any], figures: list[str]) -> None:
    assert [each["figure"] for each in worse("openb", {**SHARES, **change}, SHARES)] == figures


GANGS = {
    "mean_completion_s": 1000,
    "p99_completion_s": 2000,
    "worst_finish_time_fairness": 3.0,
    "utilisation_while_arriving": 0.95,
    "utilisation": 0.9,
    "longest_wait_of_large_s": 600,
    "useless_evictions": 0,
    "repeated_evictions": 0,
}


@pytest.mark.parametrize(
    ("change", "figures"),
    [
        ({"mean_completion_s": 1019, "utilisation": 0.896, "utilisation_while_arriving": 0.946}, []),
        ({"mean_completion_s": 1021, "p99_completion_s": 100}, ["mean_completion_s"]),
        ({"utilisation_while_arriving": 0.94}, ["utilisation_while_arriving"]),
        ({"useless_evictions": 1, "utilisation": 0.89}, ["utilisation", "useless_evictions"]),
    ],
)
def test_gangs_are_worse_beyond_a_part_of_the_figure(change: dict[str, Any], figures: list[str]) -> None:
    assert [each["figure"] for each in worse("gangs", {**GANGS, **change}, GANGS)] == figures
