"""Random users, nodes, faults and refused binds against a whole local cluster: what fits runs in the end.

Whatever was lost, refused, evicted or cut meanwhile, every remaining job must be reconciled again.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.state_dump import state_dump
from volcanoio.compose import local_settings
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.compose.scheduler import SchedulerSettings
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.kube.client import Client
from volcanoio.kube.errors import AlreadyExists, ApiError, NotFound
from volcanoio.kube.transport import TransportError
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.kinds import Kind

SEEDS = range(int(os.environ.get("VOLCANOIO_SOAK_SEEDS", "1")))
NODES, CORES, ROUNDS, STEPS = 12, 8, 1, 40
PATIENCE = 120
"""Seconds of the machine in which what fits must run; clusters at this speed need a few."""
QUEUES = {"default": 1, "light": 1, "heavy": 4}
PREEMPTING = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


class Trouble(Faults):
    """Some requests are reset or refused, before or after they are carried out, binds more often than others."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.on = False
        self._rng = rng

    def note(self, request: ApiRequest) -> Rule | None:
        binding = request.path.endswith("/binding")
        if not self.on or self._rng.random() >= (0.05 if binding else 0.02):
            return None
        if self._rng.random() < 0.4:
            return Rule(request.method, "", "reset", self._rng.choice(("before", "after")))
        codes = (403, 404, 409, 422, 429, 500) if binding else (409, 429, 500)
        return Rule(request.method, "", "status", "before", code=self._rng.choice(codes))


def job(name: str, rng: random.Random) -> Manifest:
    """A job of pods that never end, of two tasks, all or part of it a gang."""
    size = rng.choice((1, 3, 8, 12))
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {names.RUN_DURATION: "never"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    sizes = {"a": size - size // 2, "b": size // 2}
    tasks = [{"name": task, "replicas": number, "template": template} for task, number in sizes.items() if number]
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": rng.choice((size, size, 1)),
            "schedulerName": names.SCHEDULER_NAME,
            "queue": rng.choice(sorted(QUEUES)),
            "priorityClassName": rng.choice(("high", "low")),
            "tasks": tasks,
        },
    }


def size_of(manifest: Manifest) -> int:
    return sum(task["replicas"] for task in manifest["spec"]["tasks"])


class Users:
    """They submit and delete jobs, delete pods and cordon nodes; `jobs` are those there should be."""

    def __init__(self, cluster: LocalCluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._client = Client(cluster.transport)
        self._rng = rng
        self._made = 0
        self._changed = asyncio.Event()
        self._seen: dict[str, Job] = {}
        self.jobs: dict[str, int] = {}

    def see(self, events: tuple[Event, ...]) -> None:
        """Follow how jobs are."""
        for event in events:
            if isinstance(event, Observed) and isinstance(event.object, Job):
                if event.change is Change.GONE:
                    self._seen.pop(event.object.metadata.name, None)
                else:
                    self._seen[event.object.metadata.name] = event.object
        self._changed.set()

    async def prepare(self) -> None:
        for name, weight in QUEUES.items():
            spec = {"weight": weight}
            await self._create(kinds.QUEUE, {"metadata": {"name": name}, "spec": spec})
        for name, value in (("high", 1000), ("low", 10)):
            await self._create(kinds.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})

    async def act(self) -> None:
        """One thing at random."""
        chance = self._rng.random()
        if chance < 0.3 and self.jobs:
            await self.delete(self._rng.choice(sorted(self.jobs)))
        elif chance < 0.6:
            await self.submit()
        elif chance < 0.75:
            await self.cordon(self._rng.randrange(NODES), on=self._rng.random() < 0.5)
        elif chance < 0.9:
            pods = [task for task in self._cluster.scheduler.scheduler.state.ledger.tasks.values() if task.node]
            if pods:
                pod = self._rng.choice(pods)
                await self._surely(partial(self._client.delete, kinds.POD, pod.name, pod.namespace))
        else:
            await self._cluster.clock.sleep(self._rng.uniform(0, 3))

    async def submit(self) -> None:
        self._made += 1
        manifest = job(f"job-{self._made}", self._rng)
        self.jobs[manifest["metadata"]["name"]] = size_of(manifest)
        await self._create(kinds.JOB, manifest, "default")

    async def delete(self, name: str) -> None:
        del self.jobs[name]
        await self._surely(partial(self._client.delete, kinds.JOB, name, "default"))

    async def cordon(self, number: int, *, on: bool) -> None:
        name = self._cluster.scheduler.scheduler.state.ledger.columns.names[number]
        await self._surely(partial(self._client.patch, kinds.NODE, name, {"spec": {"unschedulable": on}}))

    async def all_run(self) -> None:
        """Return once every pod of every job runs."""
        while any(not self.runs(name, size) for name, size in self.jobs.items()):
            self._changed.clear()
            await self._changed.wait()

    def runs(self, name: str, size: int) -> bool:
        return name in self._seen and self._seen[name].status.running == size

    async def _create(self, kind: Kind, manifest: Manifest, namespace: str = "") -> None:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        await self._surely(partial(self._client.create, kind, whole, namespace=namespace))

    async def _surely(self, request: Callable[[], Awaitable[Any]]) -> None:
        """Until it is done: users try again."""
        while True:
            try:
                await request()
            except (AlreadyExists, NotFound):
                return
            except (ApiError, TransportError):
                await asyncio.sleep(0)
            else:
                return


@pytest.mark.timeout(600)
@pytest.mark.parametrize("conf", [None, PREEMPTING], ids=["default", "preempting"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_all_jobs_that_fit_run_eventually(
    seed: int, conf: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{seed}/{conf}")
    faults = Trouble(rng)
    monkeypatch.setattr(local_settings, "SchedulerSettings", partial(SchedulerSettings, budget=0.005, seed=seed))
    path = tmp_path / "scheduler.conf"
    path.write_text(conf or "")
    resources = f"cpu={CORES},memory=64Gi,pods=110"
    options = LocalOptions.parse(
        nodes=NODES, node_resources=resources, speed=inf, scheduler_conf=path if conf is not None else None
    )
    async with LocalCluster(options, faults=faults) as cluster:
        users = Users(cluster, rng)
        await users.prepare()
        async with cluster.observing([kinds.JOB], users.see):
            for _ in range(ROUNDS):
                faults.on = True
                while sum(users.jobs.values()) < 1.5 * NODES * CORES:
                    await users.submit()
                for _ in range(STEPS):
                    await users.act()
                faults.on = False
                for number in range(NODES):
                    await users.cordon(number, on=False)
                while sum(users.jobs.values()) > 0.9 * NODES * CORES:
                    await users.delete(rng.choice(sorted(users.jobs)))
                try:
                    async with asyncio.timeout(PATIENCE):
                        await users.all_run()
                except TimeoutError:
                    pytest.fail(_snapshot(cluster, users))


def _snapshot(cluster: LocalCluster, users: Users) -> str:
    """How the scheduler stands when nothing moves any more."""
    state = state_dump(cluster.scheduler.scheduler.state)
    stuck = {name: size for name, size in users.jobs.items() if not users.runs(name, size)}
    return f"these do not run: {stuck}\n{msgspec.json.format(msgspec.json.encode(state, enc_hook=str)).decode()}"
