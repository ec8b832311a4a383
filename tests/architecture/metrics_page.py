"""The table of docs/metrics.md; `python -m tests.architecture.metrics_page` writes it from the catalogue."""

from __future__ import annotations

from itertools import groupby

from tests.architecture.generated_tables import with_tables
from tests.architecture.measure import ROOT
from volcanoio.runtime.metric_catalogue import CATALOGUE, Metric

PAGE = ROOT / "docs/metrics.md"
TITLES = {
    "scheduler": "Scheduler",
    "controllers": "Controllers",
    "webhooks": "Webhooks",
    "every component": "Every component",
}


def row(metric: Metric) -> str:
    """Return the line of one metric."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.type} | {labels} | {metric.meaning} |\n"


def tables() -> str:
    """Return a table for each component."""
    text = ""
    metrics = sorted(CATALOGUE.values(), key=lambda metric: list(TITLES).index(metric.component))
    for component, members in groupby(metrics, key=lambda metric: metric.component):
        text += f"\n## {TITLES[component]}\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
        text += "".join(map(row, members))
    return text + "\n"


def written() -> str:
    """Return the page with the current tables."""
    return with_tables(PAGE, tables())


if __name__ == "__main__":
    PAGE.write_text(written())
