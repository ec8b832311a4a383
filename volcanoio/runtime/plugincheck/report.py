"""What a check of a plugin came to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MOST = 5
"""How many findings of one check are shown: the others are mostly alike."""


class Cost(NamedTuple):
    """How long one call takes, in microseconds; `over` says over how much ("1,000 nodes"), "" for one thing."""

    call: str
    micros: float
    over: str = ""


@dataclass
class Report:
    """`points` are the extension points the plugin implements; `findings` by check, empty lists where it passed."""

    name: str
    points: tuple[str, ...] = ()
    findings: dict[str, list[str]] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)

    def begin(self, check: str) -> None:
        """A check that is made, whether it finds anything or not."""
        self.findings.setdefault(check, [])

    def add(self, check: str, problem: str) -> None:
        """Something is wrong; the same is told once."""
        found = self.findings.setdefault(check, [])
        if problem not in found:
            found.append(problem)

    @property
    def problems(self) -> list[str]:
        """All findings, each with its check."""
        return [f"{check}: {problem}" for check, found in self.findings.items() for problem in found]

    def lines(self) -> Iterator[str]:
        """The report for people."""
        yield f"{self.name}: {', '.join(self.points) or 'an action'}"
        for check, found in self.findings.items():
            yield f"  {'FAIL' if found else 'ok  '} {check}"
            for problem in found[:MOST]:
                yield f"         {problem}"
            if len(found) > MOST:
                yield f"         and {len(found) - MOST} more of this kind"
        if self.costs:
            yield "  cost of a call"
        for cost in self.costs:
            over = f"  over {cost.over}" if cost.over else ""
            yield f"    {cost.call:<18} {cost.micros:>10.1f} µs{over}"
