"""`--speed`: a number, or `max`."""

from __future__ import annotations

import math
from typing import Any

import click


class Speed(click.ParamType[float]):
    """How fast a cluster's time runs, from 0.01 on; `max` is infinite."""

    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails with the rule."""
        if isinstance(value, float):
            return value
        if value == "max":
            return math.inf
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor max", param, ctx)
        if not 0.01 <= number < math.inf:
            self.fail(f"{value!r} is not a number from 0.01 on; use 1 for real time, 60, or max", param, ctx)
        return number
