"""Two gangs that do not fit together: one runs, then the other; never a part of both."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.framework.events import Event, Observed
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule
from volcanoio.model import kinds, names
from volcanoio.model.core import Pod

_MEMBERS = 5


class _Witness:
    """Folds pods and notes when two gangs are partly placed at the same time.

    A gang is partly placed from its first bind to its last. One that is whole may overlap with the next: as its pods
    end, their room is free.
    """

    def __init__(self) -> None:
        self._placed: dict[str, set[str]] = {}
        self.both: list[tuple[str, ...]] = []

    def fold(self, batch: Iterable[Event]) -> None:
        """Look at every version of every pod."""
        for event in batch:
            if isinstance(event, Observed) and isinstance(event.object, Pod) and event.object.spec.node_name:
                self._look(event.object)

    def _look(self, pod: Pod) -> None:
        self._placed.setdefault(pod.metadata.annotations.get(names.JOB_NAME, ""), set()).add(pod.metadata.uid)
        partly = tuple(sorted(name for name, uids in self._placed.items() if len(uids) < _MEMBERS))
        if len(partly) > 1:
            self.both.append(partly)


async def _race(c: Cluster, number: int, rng: random.Random) -> None:
    """Two gangs of five pods of four CPUs on room for eight, in random order of arrival."""
    gangs = [job_manifest(f"{side}{number}", replicas=_MEMBERS, cpu="4", run="1s") for side in ("a", "b")]
    rng.shuffle(gangs)
    for gang in gangs:
        await c.create(gang)
    for gang in gangs:
        done = await c.job(gang["metadata"]["name"], "Completed")
        assert done.status.succeeded == _MEMBERS
        assert done.status.retry_count == 0


@pytest.mark.timeout(240)
async def test_fifty_races_each_run_one_gang_then_the_other() -> None:
    witness, rng = _Witness(), random.Random(7)
    async with cluster(speed=100.0) as c, c.local.observing((kinds.POD,), witness.fold):
        for number in range(50):
            await _race(c, number, rng)
    assert witness.both == []


@pytest.mark.parametrize("options", [{"debounce": 0.0}, {"debounce": 0.05}, {"kubelet_lag": 2.0}], ids=str)
async def test_neither_debounce_nor_kubelet_lag_lets_both_in(options: dict[str, Any]) -> None:
    witness, rng = _Witness(), random.Random(11)
    async with cluster(speed=100.0, **options) as c, c.local.observing((kinds.POD,), witness.fold):
        for number in range(5):
            await _race(c, number, rng)
    assert witness.both == []


async def test_a_refused_bind_is_made_good_before_the_other_gang_starts() -> None:
    witness = _Witness()
    faults = Faults(Rule("POST", "/binding$", "status", nth=3, code=409))
    async with cluster(faults=faults) as c, c.local.observing((kinds.POD,), witness.fold):
        await _race(c, 0, random.Random(3))
    assert witness.both == []
