"""Faults at random: resets, delays and refusals, before and after a request is carried out."""

from __future__ import annotations

import random
from collections import Counter

from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.http.faults import Action, Faults, Rule, When

_REFUSALS = (409, 429, 500)


class RandomFaults(Faults):
    """Every request meets a fault with probability `rate`; `happened` counts them by kind."""

    def __init__(self, rate: float, rng: random.Random) -> None:
        super().__init__()
        self.rate = rate
        self.happened: Counter[str] = Counter()
        self._rng = rng

    def note(self, request: ApiRequest) -> Rule | None:
        """The fault this request meets, if any; keeps no log."""
        rng = self._rng
        if rng.random() >= self.rate:
            return None
        action: Action = rng.choice(("reset", "delay", "status"))
        when: When = rng.choice(("before", "after"))
        code = rng.choice(_REFUSALS)
        self.happened[f"{action} {code if action == 'status' else ''} {when}"] += 1
        return Rule(request.method, "", action, when, code=code, seconds=rng.uniform(0.1, 20))
