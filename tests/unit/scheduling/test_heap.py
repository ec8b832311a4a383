"""Heaps: after any pushes and pops the first item is popped, and equal items in the order of the pushes."""

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
def test_items_are_popped_in_the_order_of_a_sorted_list(keys: list[int], turns: list[int | None], run: int) -> None:
    """None pops, a number pushes; items are numbered as they are pushed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heap, "RUN_LENGTH", run)
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


@given(
    pushes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=40),
    turns=st.lists(st.tuples(st.sampled_from(["grow", "back", "drop", "push"]), st.integers(0, 3)), max_size=60),
)
def test_items_of_several_groups_are_popped_in_the_order_of_one_sorted_list(
    pushes: list[tuple[int, int]], turns: list[tuple[str, int]]
) -> None:
    """The rank of a group grows with each pop; where it falls for other reasons the epoch changes."""
    rank = dict.fromkeys(range(4), 0)
    epoch = 0
    items: heap.GroupedHeap[tuple[int, int, int], int] = heap.GroupedHeap(
        lambda item: item[0],
        lambda item: (item[1] // 5, item[1], item[2]),
        lambda item: (item[1] // 5, rank[item[0]], item[1], item[2]),
        lambda: epoch,
    )
    model: list[tuple[int, int, int]] = []
    for number, (group, key) in enumerate(pushes):
        items.push((group, key, number))
        model.append((group, key, number))
    for turn, group in turns:
        if turn == "drop":
            rank[group], epoch = 0, epoch + 1
        elif turn == "push" or not model:
            items.push((group, group, len(model) + 1000))
            model.append((group, group, len(model) + 1000))
        else:
            first = min(model, key=lambda item: (item[1] // 5, rank[item[0]], item[1], item[2]))
            assert items.pop() == first
            model.remove(first)
            rank[first[0]] += 1
            if turn == "back":
                items.push(first)
                model.append(first)
        assert len(items) == len(model)


def test_an_item_whose_key_has_grown_is_popped_after_items_with_smaller_keys() -> None:
    keys = {"a": 1, "b": 2, "c": 3}
    items = heap.MovingHeap(keys.__getitem__, lambda: 0, keys)
    keys["a"] = 5
    assert [items.pop() for _ in range(3)] == ["b", "c", "a"]
    with pytest.raises(IndexError):
        items.pop()
