"""What a simulation came to, for people: who goes where, who is evicted, and why the others wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from volcanoio.engine.scheduling.offline import Offline
from volcanoio.framework.scheduling_effects import BindBatch, Evict

_WIDE = 40


def table(offline: Offline) -> str:
    """The whole text."""
    picture = offline.picture
    assert picture is not None
    binds = Counter(
        (decision.group, bind.node)
        for decision in offline.decisions
        if isinstance(decision, BindBatch)
        for bind in decision.binds
    )
    evictions = [decision for decision in offline.decisions if isinstance(decision, Evict)]
    cycles = "1 cycle" if offline.cycles == 1 else f"{offline.cycles} cycles"
    counts = f"{sum(binds.values())} bound, {len(evictions)} evicted, {len(picture.pipelined)} waiting for what ends"
    parts = [f"{cycles}: {counts}"]
    if binds:
        parts.append(
            _columns(
                ("PODGROUP", "NODE", "PODS"), [(group, node, count) for (group, node), count in sorted(binds.items())]
            )
        )
    if evictions:
        parts.append(
            _columns(
                ("EVICTED", "NODE", "ACTION"),
                [(f"{evict.namespace}/{evict.name}", evict.node, evict.reason) for evict in evictions],
            )
        )
    if picture.pipelined:
        parts.append(_columns(("RESERVED FOR", "NODE"), list(picture.pipelined.items())))
    if picture.reasons:
        rows = [(key, picture.phases.get(key, ""), text) for key, text in picture.reasons.items()]
        parts.append(_columns(("WAITING", "PHASE", "WHY"), rows))
    return "\n\n".join(parts)


def _columns(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Left-aligned columns as wide as their longest cell, two blanks apart."""
    texts = [header, *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts
    )
