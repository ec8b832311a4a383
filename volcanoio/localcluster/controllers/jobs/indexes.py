"""Completion indexes: `0,2-4` and back, and how a pod carries its own."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.model.core import Pod

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def parsed(text: str | None, limit: int) -> set[int]:
    """The indexes a text names, those below the limit only."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            found.update(range(int(first), min(int(last or first) + 1, limit)))
    return found


def shown(indexes: Iterable[int]) -> str:
    """Indexes as text: two in a row with a comma, more with a dash, as Kubernetes writes them."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}{',' if len(run) == 2 else '-'}{run[-1]}" for run in runs
    )


def index_of(pod: Pod) -> int | None:
    """The index of a pod, None where it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


def failures_before(pod: Pod, annotation: str = FAILURES) -> int:
    """How often its index had failed when the pod was made."""
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdigit() else 0
