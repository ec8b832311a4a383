"""The amounts counted per node, and how a task counts on its node depending on its status."""

from collections.abc import Mapping
from enum import IntEnum

from volcanoio.framework.scheduling.views import AmountName, TaskStatus


class Quantity(IntEnum):
    """Amounts counted per resource: IDLE = ALLOCATABLE - USED; FUTURE = IDLE + RELEASING - PIPELINED.

    The order makes `READ` and `OCCUPIED` contiguous, so that a placement touches few cache lines.
    """

    ALLOCATABLE = 0
    USED = 1
    IDLE = 2
    FUTURE = 3
    NONZERO_USED = 4
    RELEASING = 5
    PIPELINED = 6


_ALLOCATABLE, _USED, _IDLE, _FUTURE, _NONZERO, *_REST = range(len(Quantity))
CPU_MEMORY_COUNT = 2
"""Number of leading resources that are always cpu and memory."""
BY_NAME: Mapping[AmountName, int] = {
    "allocatable": _ALLOCATABLE,
    "used": _USED,
    "idle": _IDLE,
    "future_idle": _FUTURE,
    "nonzero_used": _NONZERO,
}
READ = slice(_ALLOCATABLE, _NONZERO + 1)
"""Quantities that scorers read."""
OCCUPIED = slice(_USED, _NONZERO + 1)
"""Quantities changed by a task that occupies its node."""
RELEASED = slice(_FUTURE, Quantity.RELEASING + 1)
"""Quantities changed when such a task begins to release its node."""


class Load(IntEnum):
    """How a task counts on its node (Volcano: NodeInfo.AddTask)."""

    NONE = 0
    OCCUPIES = 1
    RELEASES = 2
    RESERVES = 3


_S = TaskStatus
LOADS: tuple[Load, ...] = tuple(
    {
        _S.ALLOCATED: Load.OCCUPIES,
        _S.BINDING: Load.OCCUPIES,
        _S.BOUND: Load.OCCUPIES,
        _S.RUNNING: Load.OCCUPIES,
        _S.UNKNOWN: Load.OCCUPIES,
        _S.RELEASING: Load.RELEASES,
        _S.PIPELINED: Load.RESERVES,
    }.get(status, Load.NONE)
    for status in TaskStatus
)
"""Load of a task by its status; Pending, Succeeded and Failed tasks do not count."""
