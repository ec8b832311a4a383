"""What a run of tests on a real control plane found, as JSON: versions, date, outcome of each case."""

from __future__ import annotations

import json
import platform
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.realcluster.binaries import Binaries

RESULTS = Path(__file__).parents[1] / "contract" / "results"
_WORST = ("failed", "skipped", "passed")
"""Of the outcomes of set-up, call and tear-down, the first of these is that of the case."""


class Recorder:
    """A pytest plugin that keeps the outcome of each case; under xdist it belongs to the controller.

    Names are relative to `root`, a directory of the tree.
    """

    def __init__(self, root: Path) -> None:
        self._prefix = f"{root.relative_to(Path(__file__).parents[2]).as_posix()}/"
        self._begun = datetime.now(UTC)
        self._outcomes: dict[str, str] = {}
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one case has ended."""
        name = report.nodeid.removeprefix(self._prefix)
        known = self._outcomes.get(name, _WORST[-1])
        self._outcomes[name] = min(known, report.outcome, key=_WORST.index)
        if report.skipped and isinstance(report.longrepr, tuple):
            self._reasons[name] = report.longrepr[2].removeprefix("Skipped: ")

    def write(
        self, kubernetes: str, binaries: Binaries, *, results: Path = RESULTS, further: dict[str, Any] | None = None
    ) -> Path:
        """Write the results of this run, and `further` ones; returns the file.

        `results` is a JSON file, or the directory of a file that is named by the version and the day.
        """
        record: dict[str, Any] = {
            "date": self._begun.isoformat(timespec="seconds"),
            "seconds": round((datetime.now(UTC) - self._begun).total_seconds()),
            "versions": {
                "kubernetes": kubernetes,
                "etcd": _etcd_version(binaries),
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.machine()}",
            },
            "counts": dict(sorted(Counter(self._outcomes.values()).items())),
            "cases": dict(sorted(self._outcomes.items())),
            "skipped because": dict(sorted(self._reasons.items())),
            **(further or {}),
        }
        is_file = results.suffix == ".json"
        path = results if is_file else results / f"{kubernetes}-{self._begun:%Y-%m-%d}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n")
        return path


def _etcd_version(binaries: Binaries) -> str:
    ran = subprocess.run([binaries.path("etcd"), "--version"], capture_output=True, text=True, check=True)
    return ran.stdout.partition("\n")[0].removeprefix("etcd Version: ")
