"""The scorecard of decision quality: `python -m bench.quality openb DIR` and `python -m bench.quality gangs DIR`.

DIR has the tables of the traces, which are no part of the project. Prints JSON; `--output FILE` also writes it, after
each row, and keeps the rows of an earlier run that are not measured again. All runs are in virtual time: the same
seeds give the same decisions on every machine. `check OPENB JOBS` measures every row of the committed results again,
at most two seeds of each, and fails if one is worse by more than its noise; `tables` prints those of docs/quality.md.
Rows are measured in parallel, as many as there are cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.quality import comparing, gangs, openb, tables
from bench.quality.derived_traces import DERIVED
from bench.quality.job_mixes import CLUSTERS, MIXES
from bench.quality.openb_trace import TRACES

RESULTS = Path(__file__).parents[1] / "results" / "quality.json"
SECTIONS: dict[str, Any] = {"openb": openb, "gangs": gangs}


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
    shares.add_argument("--traces", type=lambda text: _known(text, (*TRACES, *DERIVED)), default=list(TRACES))
    shares.add_argument(
        "--policies", type=lambda text: _known(text, tuple(openb.POLICIES)), default=list(openb.POLICIES)
    )
    shares.add_argument("--seeds", type=int, default=10)
    gang_runs = sections.add_parser("gangs", help=str(gangs.__doc__).partition("\n")[0])
    gang_runs.add_argument("directory", type=Path)
    gang_runs.add_argument("--mixes", type=lambda text: _known(text, MIXES), default=list(MIXES))
    gang_runs.add_argument("--gpus", type=lambda text: [int(number) for number in text.split(",")], default=CLUSTERS)
    gang_runs.add_argument(
        "--configurations", type=lambda text: _known(text, tuple(gangs.PLAYED)), default=list(gangs.PLAYED)
    )
    check = sections.add_parser("check", help="measure all committed rows again, and compare")
    check.add_argument("openb", type=Path)
    check.add_argument("jobs", type=Path)
    check.add_argument("--only", choices=tuple(SECTIONS), help="rows of one section")
    check.add_argument("--match", default="", help="rows whose name contains this, such as stream or fgd")
    sections.add_parser("tables", help="print the tables of docs/quality.md")
    for one in (shares, gang_runs):
        one.add_argument("--output", type=Path)
    return made


def stored(path: Path | None) -> dict[str, Any]:
    """Return the results in a file, an empty scorecard if there is none."""
    if path is None or not path.exists():
        return {"bench": "quality"}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def check(given: argparse.Namespace) -> int:
    """Measure each committed row again; print those that are worse, and return 1 if there are any."""
    committed, found = stored(RESULTS), 0
    directories = {"openb": given.openb, "gangs": given.jobs}
    for name, section in SECTIONS.items():
        if given.only not in (None, name):
            continue
        rows = [row for row in committed[name]["rows"] if given.match in " ".join(map(str, section.key(row)))]
        runs = [section.repeated(row, directories[name]) for row in rows]
        for row, run, again in zip(rows, runs, measured(section, runs), strict=True):
            worse = list(comparing.worse(name, again, section.comparable(row, run)))
            found += bool(worse)
            print(json.dumps({"section": name, "row": section.key(row), "worse": worse}), flush=True)
    print(f"{found} rows are worse" if found else "no row is worse")
    return 1 if found else 0


def measured(section: Any, runs: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of runs in order, measured in as many processes as there are cores."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(section.measure, runs)


def print_tables() -> int:
    """Print the tables of the committed results."""
    card = stored(RESULTS)
    shares = card["openb"]["rows"]
    parts = tables.openb_table(shares), tables.derived_table(shares), tables.gangs_table(card["gangs"]["rows"])
    print(*parts, sep="\n\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a section row by row, and print the scorecard."""
    given = parser().parse_args(arguments)
    if given.section == "check":
        return check(given)
    if given.section == "tables":
        return print_tables()
    card = stored(given.output)
    section, results = SECTIONS[given.section], card.setdefault(given.section, {"rows": []})
    for row in measured(section, section.runs(given)):
        rows = {section.key(old): old for old in results["rows"]} | {section.key(row): row}
        results["rows"], results["machine"] = list(rows.values()), machine()
        if given.output is not None:
            given.output.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(card, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
