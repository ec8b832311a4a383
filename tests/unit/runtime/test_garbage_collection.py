"""The pace of garbage collections while objects are replaced as fast as they are created."""

import gc
from collections.abc import Iterator

import pytest

from volcanoio.runtime.garbage_collection import CollectionPace, tune_garbage_collector

KEPT = 40_000
"""Objects that exist at any time."""


@pytest.fixture
def kept() -> Iterator[list[list[int]]]:
    """Objects that the collector does not visit any more."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    tune_garbage_collector()
    objects: list[list[int]] = [[] for _ in range(KEPT)]
    gc.freeze()
    yield objects
    gc.unfreeze()
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)


def most_young_objects(kept: list[list[int]], pace: CollectionPace | None) -> int:
    """Replace all objects once, and return how many a young collection had to visit at most."""
    most = 0
    for first in range(0, KEPT, 100):
        kept[first : first + 100] = [[] for _ in range(100)]
        most = max(most, len(gc.get_objects(0)))
        if pace is not None:
            pace.folded(100)
    return most


def test_python_alone_lets_the_young_generation_grow_as_old_objects_are_freed(kept: list[list[int]]) -> None:
    assert most_young_objects(kept, None) > KEPT // 2


def test_the_pace_keeps_the_young_generation_small(kept: list[list[int]]) -> None:
    assert most_young_objects(kept, CollectionPace()) < 3_000
