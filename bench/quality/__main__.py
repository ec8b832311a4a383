"""The scorecard of decision quality: `python -m bench.quality openb DIR` and `python -m bench.quality gangs DIR`.

DIR has the tables of the traces, which are no part of the project. Prints JSON; `--output FILE` also writes it, after
each row, and keeps the rows of an earlier run that are not measured again. All runs are in virtual time: the same
seeds give the same decisions on every machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.quality import openb
from bench.quality.openb_trace import TRACES

SECTIONS = {"openb": openb}


def _known(text: str, values: Sequence[str]) -> list[str]:
    """Return the names in a list separated by commas."""
    given = [name for name in text.split(",") if name]
    if unknown := [name for name in given if name not in values]:
        msg = f"unknown: {', '.join(unknown)}; valid values: {', '.join(values)}"
        raise argparse.ArgumentTypeError(msg)
    return given


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    sections = made.add_subparsers(dest="section", required=True)
    shares = sections.add_parser("openb", help=str(openb.__doc__).partition("\n")[0])
    shares.add_argument("directory", type=Path)
    shares.add_argument("--traces", type=lambda text: _known(text, TRACES), default=list(TRACES))
    shares.add_argument(
        "--policies", type=lambda text: _known(text, tuple(openb.POLICIES)), default=list(openb.POLICIES)
    )
    shares.add_argument("--seeds", type=int, default=10)
    for one in (shares,):
        one.add_argument("--output", type=Path)
    return made


def stored(path: Path | None) -> dict[str, Any]:
    """Return the results in a file, an empty scorecard if there is none."""
    if path is None or not path.exists():
        return {"bench": "quality"}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a section row by row, and print the scorecard."""
    given = parser().parse_args(arguments)
    card = stored(given.output)
    section = card.setdefault(given.section, {"rows": []})
    for row in SECTIONS[given.section].measure(given):
        key = SECTIONS[given.section].key(row)
        section["rows"] = [old for old in section["rows"] if SECTIONS[given.section].key(old) != key] + [row]
        section["machine"] = machine()
        if given.output is not None:
            given.output.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(card, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
