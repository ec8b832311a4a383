"""The product uses the terms of Kubernetes and Volcano, not the private vocabulary it once had."""

from __future__ import annotations

import pytest

from tests.architecture import words


@pytest.mark.parametrize("package", sorted(words.counts()))
def test_no_package_uses_listed_words(package: str) -> None:
    assert not words.counts()[package], f"see the uses: python -m tests.architecture.words {package}"


def test_the_list_finds_words_in_names_and_in_prose() -> None:
    text = "class VictimHunt:\n    def tell_takers(self): ...  # nobody minds\n"
    found = [(use.line, use.word) for use in words.uses_in("a.py", text)]
    assert found == [(1, "hunt"), (2, "tell"), (2, "takers"), (2, "nobody"), (2, "minds"), (2, "nobody minds")]


def test_the_list_leaves_ordinary_words_alone() -> None:
    assert words.uses_in("a.py", "rollout, roll back, kind, reminder, newsletter, settlement") == []
