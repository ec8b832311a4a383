"""What is counted of a node, and how a task weighs on it: which amounts change with it, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import AmountName, Shape, TaskStatus


class Quantity(IntEnum):
    """What is counted per resource. IDLE = ALLOCATABLE - USED; FUTURE = IDLE + RELEASING - PIPELINED.

    In the order of `READ` and `OCCUPIED`: a placement touches as few cache lines as it can.
    """

    ALLOCATABLE = 0
    USED = 1
    IDLE = 2
    FUTURE = 3
    NONZERO_USED = 4
    RELEASING = 5
    PIPELINED = 6


_ALLOCATABLE, _USED, _IDLE, _FUTURE, _NONZERO, *_REST = range(len(Quantity))
BASICS = 2
"""The first resources of all columns are cpu and memory."""
BY_NAME: Mapping[AmountName, int] = {
    "allocatable": _ALLOCATABLE,
    "used": _USED,
    "idle": _IDLE,
    "future_idle": _FUTURE,
    "nonzero_used": _NONZERO,
}
READ = slice(_ALLOCATABLE, _NONZERO + 1)
"""What scorers read of a row: the first quantities."""
OCCUPIED = slice(_USED, _NONZERO + 1)
"""What a task that occupies its node changes."""
GIVEN_UP = slice(_FUTURE, Quantity.RELEASING + 1)
"""What changes when such a task begins to release its node."""


class Load(IntEnum):
    """How a task weighs on its node (Volcano: NodeInfo.AddTask)."""

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
"""The load of a task by its status; Pending, Succeeded and Failed ones do not weigh on a node."""

_LOAD_SIGNS: Mapping[Load, Mapping[Quantity, int]] = {
    Load.NONE: {},
    Load.OCCUPIES: {Quantity.USED: 1, Quantity.IDLE: -1, Quantity.FUTURE: -1},
    Load.RELEASES: {Quantity.USED: 1, Quantity.IDLE: -1, Quantity.RELEASING: 1},
    Load.RESERVES: {Quantity.PIPELINED: 1, Quantity.FUTURE: -1},
}


def deltas(shape: Shape, resources: Mapping[str, int]) -> tuple[NDArray[np.int64], ...]:
    """What a task of the shape adds to a row, by load; at the end what it does when it begins to release its node.

    `resources` gives the index of each that it asks for. Pipelined tasks count for scorers (k8s node info).
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
    vectors.append(released[GIVEN_UP])
    return tuple(vectors)
