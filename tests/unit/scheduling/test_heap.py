"""The heap of runs: whatever is pushed and popped when, the first item comes out, and ties in the order of pushes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.framework.scheduling import heap
from volcanoio.framework.scheduling.heap import Heap


@given(
    keys=st.lists(st.integers(0, 9), max_size=40),
    turns=st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60),
    run=st.integers(1, 5),
)
def test_pops_as_a_sorted_list_does(keys: list[int], turns: list[int | None], run: int) -> None:
    """None pops, a number pushes; items are numbered as they are pushed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heap, "RUN", run)
        model = [(key, number) for number, key in enumerate(keys)]
        items: Heap[tuple[int, int]] = Heap(lambda item: item[0], model)
        for number, turn in enumerate(turns, len(keys)):
            if turn is not None:
                items.push((turn, number))
                model.append((turn, number))
            elif model:
                model.sort()
                assert items.pop() == model.pop(0)
            assert len(items) == len(model)
        assert [items.pop() for _ in range(len(items))] == sorted(model)
        with pytest.raises(IndexError):
            items.pop()
