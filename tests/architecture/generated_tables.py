"""Tables in documentation pages that are written from the product's own tables."""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- begin of the generated tables -->\n", "<!-- end of the generated tables -->\n"


def with_tables(page: Path, tables: str) -> str:
    """Return the text of a page with these tables between its marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    return before + BEGIN + tables + END + rest.partition(END)[2]
