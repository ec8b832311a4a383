"""A busy and troubled cluster: cycles cut short, refused and lost writes, processes stopped in the middle of things.

That nothing is overcommitted, and that every run of both processes replays exactly, is the harness' to see.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.errors import NotFound
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job

_JOBS = 24
_POLICIES: tuple[list[Manifest], ...] = (
    [{"event": "*", "action": "RestartJob"}],
    [{"event": "PodFailed", "action": "RestartTask"}],
    [{"event": "PodFailed", "action": "RestartJob", "timeout": "2s"}],
)
_ENDED = ("Completed", "Failed", "Aborted", "Terminated")


def _faults() -> Faults:
    bind = [Rule("POST", "/binding$", "status", nth=nth, code=code) for nth, code in ((5, 409), (17, 500), (30, 429))]
    return Faults(
        *bind,
        Rule("PATCH", "/podgroups/", "status", nth=9, code=409),
        Rule("PATCH", "/jobs/.*/status$", "status", nth=7, code=409),
        Rule("POST", "/pods$", "status", when="after", nth=20, code=500),
    )


def _job(number: int, rng: random.Random) -> Manifest:
    """A job that restarts what fails: without a policy, a gang that lost members may never be whole again."""
    replicas = rng.randint(1, 10)
    return job_manifest(
        f"job{number}",
        replicas=replicas,
        minimum=rng.randint(1, replicas),
        cpu=rng.choice(("1", "2", "3")),
        run=f"{rng.randint(1, 8)}s",
        annotations={"sim.volcanoio.dev/fail-attempts": "1"} if rng.random() < 0.3 else None,
        policies=rng.choice(_POLICIES),
        plugins=rng.choice(({}, {"svc": []}, {"env": [], "ssh": []})),
        maxRetry=2,
    )


async def _trouble(c: Cluster, number: int, rng: random.Random) -> None:
    """Now and then a pod or a job is deleted, or a process stops and another takes its place."""
    if rng.random() < 0.2 and (pods := await c.pods()):
        with suppress(NotFound):
            await c.client.delete(kinds.POD, rng.choice(pods).metadata.name, "default")
    if rng.random() < 0.1:
        with suppress(NotFound):
            await c.client.delete(kinds.JOB, f"job{rng.randint(0, number)}", "default")
    if number % 8 == 3:
        c.local.stop("scheduler")
        await c.local.start_scheduler()
    if number % 8 == 7:
        c.local.stop("controllers")
        await c.local.start_controllers()


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_job_ends_and_every_run_replays(seed: int) -> None:
    rng = random.Random(seed)
    async with cluster(faults=_faults(), budget=0.0005, nodes=8, kubelet_lag=0.3) as c:
        for number in range(_JOBS):
            await c.create(_job(number, rng))
            await _trouble(c, number, rng)
        await c.until(
            kinds.JOB, Job, lambda jobs: all(job.status.state.phase in _ENDED for job in jobs.values()), "all ended"
        )
