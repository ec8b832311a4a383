"""Amounts counted per node, and how a task changes them depending on its status."""

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import AmountName, Shape, TaskStatus


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

_LOAD_SIGNS: Mapping[Load, Mapping[Quantity, int]] = {
    Load.NONE: {},
    Load.OCCUPIES: {Quantity.USED: 1, Quantity.IDLE: -1, Quantity.FUTURE: -1},
    Load.RELEASES: {Quantity.USED: 1, Quantity.IDLE: -1, Quantity.RELEASING: 1},
    Load.RESERVES: {Quantity.PIPELINED: 1, Quantity.FUTURE: -1},
}


def load_deltas(shape: Shape, resources: Mapping[str, int]) -> tuple[NDArray[np.int64], ...]:
    """Return what a task of the shape adds to a row: one array per load, then one for the start of its release.

    `resources` gives the index of each resource. Pipelined tasks count for scorers (Kubernetes: NodeInfo).
    """
    requests = {resources[name]: amount for name, amount in shape.requests.items()}
    counted = {resources[name]: amount for name, amount in shape.nonzero_requests.items()}
    vectors = []
    for load, signs in _LOAD_SIGNS.items():
        vector = np.zeros((len(Quantity), len(resources)), np.int64)
        for quantity, sign in signs.items():
            for at, amount in requests.items():
                vector[quantity, at] = sign * amount
        if load:
            for at, amount in counted.items():
                vector[Quantity.NONZERO_USED, at] = amount
        vectors.append(vector[OCCUPIED] if load is Load.OCCUPIES else vector)
    released = vectors[Load.RELEASES].copy()
    released[OCCUPIED] -= vectors[Load.OCCUPIES]
    vectors.append(released[RELEASED])
    return tuple(vectors)
