"""What `simulate` and `why` say happens: a small fixed form of `bench.agreement`."""

from __future__ import annotations

import pytest

from bench.agreement import ask, counted


@pytest.mark.parametrize(("seed", "decisions"), [(2, 4)])
async def test_answers_about_random_clusters_come_true(seed: int, decisions: int) -> None:
    found = counted(await ask(seed, decisions))
    assert found["wrong"] == []
    assert {"no", "yes"} <= found["answers"].keys()
