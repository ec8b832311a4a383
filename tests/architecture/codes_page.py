"""The table of codes in docs/reason-codes.md; `python -m tests.architecture.codes_page` writes it from the codes."""

from __future__ import annotations

from tests.architecture.generated_tables import with_tables
from tests.architecture.measure import ROOT
from volcanoio.engine.scheduling.diagnosis.codes import CODES

PAGE = ROOT / "docs/reason-codes.md"


def table() -> str:
    """Return the table of codes."""
    rows = "".join(f"| {code.stage.value} | {name} | {code.meaning} |\n" for name, code in CODES.items())
    return f"\n| Stage | Code | The job waits because |\n|---|---|---|\n{rows}\n"


def written() -> str:
    """Return the page with the current table."""
    return with_tables(PAGE, table())


if __name__ == "__main__":
    PAGE.write_text(written())
