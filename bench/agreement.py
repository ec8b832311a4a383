"""Whether what `simulate` and `why` say then happens: `python -m bench.agreement [--seeds 20] [--decisions 20]`.

Each seed is a small cluster of its own in virtual time (`volcanoio up --speed max`), with a random configuration,
queues, nodes, and jobs that come and go. Before each decision the snapshot of the running scheduler is taken and asked:

- `submit`: does a new job come to run (`simulate --submit --until running`)? Then it is submitted.
- `remedy`: a change that `why` lists for a waiting job, which therefore is to run. Then the change is made.
- `less`: where the change is an amount, one unit less, with which it is not to run. That is made instead.

Then the cluster runs until nothing happens any more, and it is seen whether the job runs. Prints one JSON object with
the number of answers and of those that came true, given apart for yes and no, and each that did not.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from bench.machine import machine, software
from volcanoio.compose.live.running_scheduler import RunningScheduler
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.compose.simulate import SimulateOptions, Simulator
from volcanoio.compose.state_files import State, read_configuration, read_state
from volcanoio.compose.whatif import run_times, submit
from volcanoio.compose.why import builder, search_remedies
from volcanoio.engine.scheduling.offline.remedies import Remedy, RemedyKind
from volcanoio.engine.scheduling.offline.until import Goal
from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.resources import format_amount, stored_amounts
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.times import rfc3339

ALLOCATE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
PREEMPT = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: binpack}]
"""
CAPACITY = """
actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""
CONFIGURATIONS = (ALLOCATE, PREEMPT, CAPACITY)
QUIET_SECONDS = 25.0
"""Seconds of virtual time in which a decision becomes effective: back-offs and reports take a few."""
MOST_JOBS = 8


@dataclass(frozen=True)
class Answer:
    """What was said about a job, and what became true."""

    kind: str
    seed: int
    number: int
    said: bool
    was: bool
    about: str


class Trial:
    """One cluster and its random decisions."""

    def __init__(self, seed: int, cluster: LocalCluster) -> None:
        self._seed = seed
        self._rng = random.Random(f"decisions {seed}")
        self._cluster = cluster
        self._client = Client(cluster.transport)
        self._scheduler = RunningScheduler(cluster.transport)
        self._number = 0
        self._jobs: list[str] = []
        self._queues = ["default", "a", "b"]
        self.answers: list[Answer] = []

    async def run(self, decisions: int) -> None:
        """Decide so often."""
        for name in self._queues[1:]:
            capability = {"cpu": str(self._rng.randint(3, 12))}
            spec = {"weight": self._rng.randint(1, 3), "capability": capability, "reclaimable": True}
            await self._create({"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": name},
                                "spec": spec})  # fmt: skip
        await self._create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
        )
        await self._wait()
        for _ in range(decisions):
            if len(self._jobs) >= MOST_JOBS or (self._jobs and self._rng.random() < 0.15):
                await self._delete(self._rng.choice(self._jobs))
                await self._wait()
            if self._rng.random() < 0.6 or not await self._try_remedy():
                await self._submit()

    async def _submit(self) -> None:
        self._number += 1
        name = f"j{self._number}"
        manifest = self._job(name)
        simulator, state = await self._snapshot()
        made = submit(state.objects, json.dumps(manifest), "job", simulator.registry, rfc3339(simulator.now))
        state.objects = made.objects
        _, progress = simulator.run_until(state, Goal.RUNNING, made.jobs, run_times(made.jobs, None))
        await self._create(manifest)
        self._jobs.append(name)
        await self._wait()
        await self._note("submit", name, said=progress.is_reached, about=f"{manifest['spec']}: {progress.groups}")

    async def _try_remedy(self) -> bool:
        """Make a change that is to help a waiting job; return whether there was one."""
        waiting = [name for name in self._jobs if not await self._runs(name)]
        if not waiting:
            return False
        name = self._rng.choice(waiting)
        answer = await self._scheduler.why(f"job/{name}", "default")
        if answer.waiting is None or answer.waiting.diagnosis is None:
            return False
        simulator, state = await self._snapshot()
        state.jobs = [obj for obj in await self._client.list(kinds.JOB, "default") if isinstance(obj, Job)]
        found, _, has_pods = search_remedies(
            state, builder(simulator, state), answer.waiting.target, answer.waiting.diagnosis
        )
        usable = [each for each in found if each.kind in (RemedyKind.CAPABILITY, RemedyKind.END)]
        if not usable or not has_pods:
            return False
        remedy = self._rng.choice(usable)
        less = _one_less(remedy) if remedy.kind is RemedyKind.CAPABILITY else None
        if remedy.kind is RemedyKind.END:
            await self._end(remedy)
        elif less is not None and self._rng.random() < 0.5:
            await self._set_capability(
                remedy.target, less
            )  # pods of others may take this, so the remedy is not for then
            await self._wait()
            await self._note("less", name, said=False, about=f"{remedy}")
            return True
        else:
            await self._set_capability(remedy.target, _amounts(remedy))
        await self._wait()
        await self._note("remedy", name, said=True, about=f"{answer.waiting.diagnosis.code}: {remedy.text}")
        return True

    async def _end(self, remedy: Remedy) -> None:
        for key in remedy.change.get("jobs", remedy.target).split(", "):
            group = await self._client.get_raw(kinds.POD_GROUP, key.rpartition("/")[2], "default")
            await self._delete(group["metadata"]["ownerReferences"][0]["name"])

    async def _set_capability(self, target: str, amounts: dict[str, str]) -> None:
        await self._client.patch(kinds.QUEUE, target.partition("/")[2], {"spec": {"capability": amounts}})

    async def _snapshot(self) -> tuple[Simulator, State]:
        content = [("snapshot", await self._scheduler.snapshot())]
        simulator = Simulator(SimulateOptions(files=(), configuration=read_configuration(content), cycles=200))
        return simulator, read_state(content, simulator.reads)

    def _job(self, name: str) -> Manifest:
        rng = self._rng
        replicas = rng.randint(1, 4)
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(rng.choice((1, 1, 2, 3, 5)))}}}
        pod = {
            "metadata": {"annotations": {"sim.volcanoio.dev/run-duration": "never"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec: dict[str, Any] = {
            "minAvailable": rng.randint(1, replicas),
            "schedulerName": "volcano",
            "queue": rng.choice(self._queues),
            "tasks": [{"name": "t", "replicas": replicas, "template": pod}],
        }
        if rng.random() < 0.3:
            spec["priorityClassName"] = "high"
        return {
            "apiVersion": kinds.JOB.api_version,
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }

    async def _create(self, manifest: Manifest) -> None:
        await self._cluster.submit(manifest)

    async def _delete(self, name: str) -> None:
        self._jobs.remove(name)
        await self._client.delete(kinds.JOB, name, "default")

    async def _wait(self) -> None:
        await self._cluster.clock.sleep(QUIET_SECONDS)

    async def _runs(self, name: str) -> bool:
        """Return whether the minimum of a job runs."""
        groups = [obj for obj in await self._client.list(kinds.POD_GROUP, "default") if isinstance(obj, PodGroup)]
        own = next(
            (group for group in groups if any(owner.name == name for owner in group.metadata.owner_references)), None
        )
        pods = [obj for obj in await self._client.list(kinds.POD, "default") if isinstance(obj, Pod)]
        running = [
            pod
            for pod in pods
            if pod.metadata.annotations.get("volcano.sh/job-name") == name
            and pod.status.phase == "Running"
            and not pod.metadata.deletion_timestamp
        ]
        return own is not None and len(running) >= max(own.spec.min_member, 1)

    async def _note(self, kind: str, name: str, *, said: bool, about: str) -> None:
        was = await self._runs(name)
        self.answers.append(Answer(kind, self._seed, len(self.answers), said, was, f"{name}: {about}"))


def _amounts(remedy: Remedy) -> dict[str, str]:
    return {field.removeprefix("spec.capability."): value for field, value in remedy.change.items()}


def _one_less(remedy: Remedy) -> dict[str, str] | None:
    """Return the amounts of a remedy with one unit less of one of them; None if there is no such amount."""
    amounts = stored_amounts(_amounts(remedy))
    name = next(iter(amounts))
    unit = 1 if name == "cpu" else 1 << 20
    if amounts[name] <= unit:
        return None
    return {each: format_amount(each, amount - unit * (each == name)) for each, amount in amounts.items()}


async def ask(seed: int, decisions: int) -> list[Answer]:
    """Return the answers of one seed."""
    rng = random.Random(f"cluster {seed}")
    with tempfile.TemporaryDirectory(prefix="agreement-") as directory:
        conf = Path(directory) / "scheduler.conf"
        conf.write_text(rng.choice(CONFIGURATIONS), encoding="utf-8")
        options = LocalOptions.parse(
            nodes=rng.randint(1, 4),
            node_resources=f"cpu={rng.randint(3, 8)},memory=32Gi,pods=110",
            speed=math.inf,
            scheduler_conf=conf,
        )
        async with LocalCluster(options) as cluster:
            trial = Trial(seed, cluster)
            await trial.run(decisions)
    return trial.answers


def counted(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return how many answers came true, given apart for yes and no, and those that did not."""
    total, true = Counter[str](), Counter[str]()
    for each in answers:
        for key in ("yes" if each.said else "no", f"{each.kind} {'yes' if each.said else 'no'}"):
            total[key] += 1
            true[key] += each.said is each.was
    return {
        "answers": {key: {"asked": total[key], "came_true": true[key]} for key in sorted(total)},
        "wrong": [vars(each) for each in answers if each.said is not each.was],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.agreement", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--decisions", type=int, default=20, help="decisions per seed")
    given = parser.parse_args(arguments)
    answers: list[Answer] = []
    with suppress(KeyboardInterrupt):  # then the figures are those of the seeds so far
        for seed in range(given.first, given.first + given.seeds):
            answers += anyio.run(ask, seed, given.decisions)
            print(f"seed {seed}: {len(answers)} answers", file=sys.stderr)
    seeds = len({each.seed for each in answers})
    figures = {"bench": "agreement", "machine": machine(), "software": software(), "seeds": seeds}
    print(json.dumps({**figures, **counted(answers)}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
