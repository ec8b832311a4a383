"""How many random worlds a test tries: the number it says, times VOLCANOIO_EXAMPLES_TIMES for a long run (1)."""

from __future__ import annotations

import os

from hypothesis import settings

TIMES = int(os.environ.get("VOLCANOIO_EXAMPLES_TIMES", "1"))


def examples(number: int) -> settings:
    """Settings of a property test that says how many examples are enough for every day."""
    return settings(max_examples=number * TIMES, deadline=None)
