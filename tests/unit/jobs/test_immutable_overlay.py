"""An overlay is a mapping that never changes, whatever is made of it."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from volcanoio.engine.jobs.pods.persistent_collections import PersistentMap

changes = st.lists(st.tuples(st.integers(0, 40), st.none() | st.integers()), max_size=120)


@given(start=st.dictionaries(st.integers(0, 40), st.integers()), changes=changes)
def test_it_contains_the_same_as_a_dict(start: dict[int, int], changes: list[tuple[int, int | None]]) -> None:
    versions: list[tuple[PersistentMap[int, int], dict[int, int]]] = [(PersistentMap(start), dict(start))]
    for key, value in changes:
        overlay, plain = versions[-1]
        if value is None:
            versions.append((overlay.without((key,)), {other: held for other, held in plain.items() if other != key}))
        else:
            versions.append((overlay.with_item(key, value), {**plain, key: value}))
    for overlay, plain in versions:
        assert overlay == plain
        assert len(overlay) == len(plain)
        assert bool(overlay) == bool(plain)
        assert sorted(overlay.values()) == sorted(plain.values())
        assert [overlay.get(key) for key in range(41)] == [plain.get(key) for key in range(41)]
        assert {key for key in range(41) if key in overlay} == plain.keys()
