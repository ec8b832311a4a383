"""The tables of docs/quality.md, from the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def openb_table(rows: Iterable[Row]) -> str:
    """Return allocated / fragmented percent at each part that has arrived, and the published figures."""

    def published(row: Row) -> str:
        return f"{row['published_allocated'][-1]:.2f}" if "published_allocated" in row else ""

    def pair(row: Row, at: int) -> str:
        return f"{row['allocated'][at]:.2f} / {row['fragmented'][at]:.2f}"

    head = ["trace", "policy", "seeds", "95 %", "100 %", "130 %", "published, 130 %"]
    return table(
        head,
        (
            [row["trace"], row["policy"], row["seeds"], *(pair(row, at) for at in range(3)), published(row)]
            for row in rows
        ),
    )


GANG_COLUMNS = {
    "mix": "mix",
    "gpus": "GPUs",
    "configuration": "configuration",
    "mean_completion_s": "mean completion, s",
    "p99_completion_s": "p99, s",
    "worst_finish_time_fairness": "worst fairness",
    "utilisation": "utilisation",
    "longest_wait_of_large_s": "longest wait of large, s",
    "evictions": "evictions",
}


def gangs_table(rows: Iterable[Row]) -> str:
    """Return the figures of gangs under load."""
    return table(list(GANG_COLUMNS.values()), ([f"{row[name]}" for name in GANG_COLUMNS] for row in rows))
