"""Which rows of a scorecard are worse than the committed ones, by more than their noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Rule(NamedTuple):
    """Whether more of a figure is better, and by how much it may differ, given the committed row."""

    is_more_better: bool
    noise: Callable[[Row], float]


LEAST_NOISE = 0.1
"""Percent of GPUs: half of what the order of equally good nodes changes."""


def _of_seeds(at: int) -> Callable[[Row], float]:
    """Return twice the standard error of the mean over seeds, at least `LEAST_NOISE`."""
    return lambda row: max(LEAST_NOISE, 2 * row["deviation"][at] / math.sqrt(row["seeds"]))


def _part(of: str, part: float) -> Callable[[Row], float]:
    return lambda row: part * float(row[of])


def _fixed(amount: float) -> Callable[[Row], float]:
    return lambda _: amount


RULES: Mapping[str, Mapping[str, Rule]] = {
    "openb": {
        **{f"allocated.{at}": Rule(True, _of_seeds(at)) for at in range(3)},
        **{f"fragmented.{at}": Rule(False, _of_seeds(at)) for at in range(3)},
    },
    "gangs": {
        "mean_completion_s": Rule(False, _part("mean_completion_s", 0.02)),
        "p99_completion_s": Rule(False, _part("p99_completion_s", 0.05)),
        "worst_finish_time_fairness": Rule(False, _part("worst_finish_time_fairness", 0.05)),
        "utilisation_while_arriving": Rule(True, _fixed(0.005)),
        "utilisation": Rule(True, _fixed(0.005)),
        "longest_wait_of_large_s": Rule(False, _part("longest_wait_of_large_s", 0.05)),
        "useless_evictions": Rule(False, _fixed(0)),
        "repeated_evictions": Rule(False, _fixed(0)),
    },
}
"""By section and figure. Runs are repeatable: what differs is due to a change, and noise is how much luck it may have.

`NAME.0` is the first entry of a list.
"""


def worse(section: str, row: Row, committed: Row) -> Iterator[dict[str, Any]]:
    """Yield the figures of a row that are worse than the committed row's by more than their noise."""
    for name, rule in RULES[section].items():
        now, before = _figure(row, name), _figure(committed, name)
        lost = before - now if rule.is_more_better else now - before
        if lost > rule.noise(committed):
            yield {"figure": name, "committed": before, "now": now, "noise": round(rule.noise(committed), 3)}


def _figure(row: Row, name: str) -> float:
    base, _, at = name.partition(".")
    return float(row[base][int(at)] if at else row[base])
