"""`Report`: the findings and costs of a check of a plugin."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_SHOWN = 5
"""The number of findings of one check that are shown: the others are usually similar."""


class Cost(NamedTuple):
    """The duration of one call in microseconds; `over` is its size ("1,000 nodes"), "" for a single object."""

    call: str
    micros: float
    over: str = ""


@dataclass
class Report:
    """The result of a check: the extension points that the plugin implements, and the findings.

    `findings` are by check, empty lists where it passed.
    """

    name: str
    points: tuple[str, ...] = ()
    findings: dict[str, list[str]] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)

    def begin(self, check: str) -> None:
        """List a check, whether it finds anything or not."""
        self.findings.setdefault(check, [])

    def add(self, check: str, problem: str) -> None:
        """Add a finding, without duplicates."""
        found = self.findings.setdefault(check, [])
        if problem not in found:
            found.append(problem)

    @property
    def problems(self) -> list[str]:
        """All findings, each with its check."""
        return [f"{check}: {problem}" for check, found in self.findings.items() for problem in found]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed report."""
        yield f"{self.name}: {', '.join(self.points) or 'an action'}"
        for check, found in self.findings.items():
            yield f"  {'FAIL' if found else 'ok  '} {check}"
            for problem in found[:MAX_SHOWN]:
                yield f"         {problem}"
            if len(found) > MAX_SHOWN:
                yield f"         and {len(found) - MAX_SHOWN} more of this kind"
        if self.costs:
            yield "  cost of a call"
        for cost in self.costs:
            over = f"  over {cost.over}" if cost.over else ""
            yield f"    {cost.call:<18} {cost.micros:>10.1f} µs{over}"
