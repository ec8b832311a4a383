"""Two gangs that do not fit together: one runs, then the other; never a part of both."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.localcluster.apiserver.faults import Faults, Rule
from volcanoio.model import kinds, names
from volcanoio.model.core import Pod

_MEMBERS = 5


class _Witness:
    """Folds pods and fails when two gangs hold nodes at the same time."""

    def __init__(self) -> None:
        self._holding: dict[str, set[str]] = {}
        self.both: list[tuple[str, ...]] = []

    def fold(self, batch: Iterable[Event]) -> None:
        """Look at every version of every pod."""
        for event in batch:
            if isinstance(event, Observed) and isinstance(event.object, Pod):
                self._look(event.object, gone=event.change is Change.GONE)

    def _look(self, pod: Pod, *, gone: bool) -> None:
        gang = pod.metadata.annotations.get(names.JOB_NAME, "")
        held = self._holding.setdefault(gang, set())
        if gone or not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
            held.discard(pod.metadata.uid)
        else:
            held.add(pod.metadata.uid)
        holding = tuple(sorted(name for name, uids in self._holding.items() if uids))
        if len(holding) > 1:
            self.both.append(holding)


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
