"""How much memory a command and all that descends from it hold. Linux: `proc(5)`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

PERIOD = 0.5
"""Seconds between two looks at a container that has a limit."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_PROC = Path("/proc")


def measurable() -> bool:
    """Whether this kernel tells."""
    return (_PROC / "self" / "statm").exists()


def resident(pid: int) -> int:
    """Bytes resident in all processes of a tree; pages they share are counted once for each."""
    total = 0
    for one in tree(pid):
        try:
            total += int((_PROC / str(one) / "statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError):
            continue
    return total


def proportional(pid: int) -> int:
    """Bytes held by a tree, a shared page counted in parts; slower."""
    total = 0
    for one in tree(pid):
        try:
            found = _PSS.search((_PROC / str(one) / "smaps_rollup").read_bytes())
            total += int(found[1]) * 1024 if found else 0
        except OSError:
            continue
    return total


def exceeds(pid: int, limit: int) -> bool:
    """Whether a tree holds more than `limit` bytes."""
    return resident(pid) > limit and proportional(pid) > limit


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    try:
        threads = os.listdir(_PROC / str(pid) / "task")  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return
    for thread in threads:
        try:
            children = (_PROC / str(pid) / "task" / thread / "children").read_bytes().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))
