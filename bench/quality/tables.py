"""The tables of docs/quality.md, from the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.quality.derived_traces import DERIVED
from bench.quality.openb_trace import TRACES

Row = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _seeds(rows: Iterable[Row]) -> str:
    """Return how many seeds rows have, the fewest and the most."""
    seeds = [row["seeds"] for row in rows]
    return f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"


def openb_table(rows: Iterable[Row]) -> str:
    """Return GPUs allocated at the end / fragmented at 100 % of each policy and given trace, and the published ones."""
    by_policy: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["trace"] in TRACES:
            by_policy.setdefault(row["policy"], {})[row["trace"]] = row

    def cell(row: Row) -> str:
        text = f"{row['allocated'][-1]:.2f} / {row['fragmented'][1]:.2f}"
        if "published_allocated" in row:
            text += f" ({row['published_allocated'][-1]:.2f} / {row['published_fragmented'][1]:.2f})"
        return text

    return table(
        ["policy", "seeds", *TRACES],
        (
            [policy, _seeds(by_trace.values())]
            + [cell(by_trace[trace]) if trace in by_trace else "" for trace in TRACES]
            for policy, by_trace in by_policy.items()
        ),
    )


def derived_table(rows: Iterable[Row]) -> str:
    """Return the allocated percent of each policy on the derived traces, when all pods have arrived."""
    derived = [row for row in rows if row["trace"] in DERIVED]
    policies = sorted({row["policy"] for row in derived}, reverse=True)
    found = {(row["trace"], row["policy"]): row for row in derived}
    return table(
        ["derived trace", "seeds", *policies],
        (
            [trace, _seeds(row for row in derived if row["trace"] == trace)]
            + [
                f"{found[trace, policy]['allocated'][-1]:.2f}" if (trace, policy) in found else ""
                for policy in policies
            ]
            for trace in dict.fromkeys(row["trace"] for row in derived)
        ),
    )


GANG_COLUMNS = {
    "mean_completion_s": "mean completion, s",
    "p99_completion_s": "p99, s",
    "worst_finish_time_fairness": "worst fairness",
    "utilisation_while_arriving": "utilisation",
    "utilisation": "to the end",
    "longest_wait_of_large_s": "longest wait of large, s",
    "evictions": "evictions",
    "useless_evictions": "useless",
    "repeated_evictions": "repeated",
}


LOADED = 0.4
"""Utilisation to the end from which on rows are shown: below, few jobs wait."""


def gangs_table(rows: Iterable[Row]) -> str:
    """Return the figures of gangs under load; configurations with the same ones have one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row["utilisation"] < LOADED:
            continue
        figures = (f"{row['mix']}, {row['gpus']}", *(f"{row[name]}" for name in GANG_COLUMNS))
        alike.setdefault(figures, []).append(row["configuration"])
    return table(
        ["mix, GPUs", "configuration", *GANG_COLUMNS.values()],
        ([figures[0], ", ".join(names), *figures[1:]] for figures, names in alike.items()),
    )
