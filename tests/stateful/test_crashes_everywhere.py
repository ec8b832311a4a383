"""A cron run, growth after an OOM kill, a JobFlow, a time to live and a queue's closing, killed at every write and
missed altogether: all that is stored in the end is what an uninterrupted life leaves, but for times and uids.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from volcanoio_policies.declared import Declared
from volcanoio_policies.oom_scale_up import OomScaleUp

from tests.stateful.jobs_world import NAMESPACE
from tests.stateful.lifecycle_world import LifecycleWorld, Living
from tests.unit.jobs.driver import spec, task
from volcanoio.framework.overrides import stored_overrides
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.kinds import Kind

KINDS = (kinds.JOB, kinds.POD, kinds.POD_GROUP, kinds.QUEUE, kinds.COMMAND, kinds.CONFIG_MAP,
         kinds.CRON_JOB, kinds.JOB_FLOW, kinds.JOB_TEMPLATE)  # fmt: skip
MEMORY = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}
POD: Manifest = {"containers": [{"name": "c", "image": "i", "resources": MEMORY}]}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_FLEETING = re.compile(r"(?i)time$|timestamp$|^resourceVersion$|duration$|managedFields|^generation$|-generation$")

Step = Callable[[LifecycleWorld], Awaitable[None]]


class Story(NamedTuple):
    """What was before, what happens, and what the rest of the world does about it until nothing is left to do."""

    before: Step
    disturbance: Step
    after: Step


async def runs(world: LifecycleWorld) -> None:
    """Schedulers and kubelets do their work, twice."""
    for _ in range(2):
        await world.rest()
        await world.admit()
        await world.rest()
        await world.run_pods()
    await world.rest()


async def ends(world: LifecycleWorld, prefix: str = "") -> None:
    """Let running pods succeed."""
    for name, pod in (await world.pods()).items():
        if pod.status.phase == "Running" and name.startswith(prefix):
            await world.end_pod(name, "Succeeded", 0)


async def runs_and_ends(world: LifecycleWorld) -> None:
    for _ in range(2):
        await runs(world)
        await ends(world)
    await world.rest()


async def job_runs(world: LifecycleWorld, **fields: Any) -> None:
    await world.submit(spec(task("a", 2, pod=POD), task("b", 1, pod=POD), **fields))
    await runs(world)


async def cron_job(world: LifecycleWorld) -> None:
    template = {"spec": spec(task("a", 1, pod=POD))}
    wanted = {"schedule": "*/10 * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": template}
    await world.user(kinds.CRON_JOB, {"metadata": {"name": "cron"}, "spec": wanted})
    await world.rest()


async def a_run_is_due(world: LifecycleWorld) -> None:
    await world.live(600.0 - world.now % 600.0 + 5.0)


async def killed_for_memory(world: LifecycleWorld) -> None:
    for name in ("job-a-0", "job-a-1"):
        await world.end_pod(name, "Failed", 137, "OOMKilled")


async def a_flow_begins(world: LifecycleWorld) -> None:
    for name in ("first", "second"):
        await world.user(kinds.JOB_TEMPLATE, {"metadata": {"name": name}, "spec": spec(task("a", 1, pod=POD))})
    flows = [{"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}}]
    wanted = {"jobRetainPolicy": "retain", "flows": flows}
    await world.user(kinds.JOB_FLOW, {"metadata": {"name": "flow"}, "spec": wanted})
    await runs(world)


async def nothing_yet(world: LifecycleWorld) -> None:
    await world.rest()


async def job_with_ttl(world: LifecycleWorld) -> None:
    await job_runs(world, ttlSecondsAfterFinished=20, plugins={"svc": []})


async def it_ends_and_its_time_passes(world: LifecycleWorld) -> None:
    await ends(world)
    await world.live(30.0)


async def time_passes(world: LifecycleWorld) -> None:
    await world.rest()
    await world.live(30.0)
    await world.rest()


async def job_in_another_queue(world: LifecycleWorld) -> None:
    await world.user(kinds.QUEUE, {"metadata": {"name": "other"}, "spec": {"weight": 1}})
    await world.user(kinds.QUEUE, {"metadata": {"name": "child"}, "spec": {"weight": 1, "parent": "other"}})
    await job_runs(world, queue="child")


async def its_parent_is_closed(world: LifecycleWorld) -> None:
    await world.command_queue("CloseQueue", "other")


async def its_job_ends(world: LifecycleWorld) -> None:
    await world.rest()
    await ends(world)
    await world.rest()


STORIES = {
    "cron run": Story(cron_job, a_run_is_due, runs_and_ends),
    "growth after an OOM kill": Story(job_runs, killed_for_memory, runs),
    "JobFlow, from its start": Story(nothing_yet, a_flow_begins, runs_and_ends),
    "JobFlow, its first job ends": Story(a_flow_begins, ends, runs_and_ends),
    "time to live": Story(job_with_ttl, it_ends_and_its_time_passes, time_passes),
    "queue's closing": Story(job_in_another_queue, its_parent_is_closed, its_job_ends),
}


def lived(story: Story, die_in: int = 0, *, after: bool = False, absent: bool = False) -> tuple[dict[str, Any], int]:
    """Return the stored objects at the end, by kind and name, and the number of processes."""
    living = Living(policies=(OomScaleUp(), Declared()), controllers=("*",))
    world = living.world
    try:
        living.do(story.before(world))
        if die_in:
            world.die_in(die_in, after=after)
        if absent:
            living.do(world.kill())
            world.absent = True
        living.do(story.disturbance(world))
        world.absent = False
        living.do(world.revive())
        living.do(story.after(world))
        living.do(world.look_at_rest())
        return living.do(remains(world)), len(world.lives)
    finally:
        living.close()


async def remains(world: LifecycleWorld) -> dict[str, Any]:
    """Return everything that is stored, without values that differ from run to run."""

    async def of(kind: Kind) -> list[Manifest]:
        response = await world.line.request("GET", kind.path(NAMESPACE if kind.namespaced else ""))
        found: list[Manifest] = msgspec.json.decode(response.body)["items"]
        return found

    return {
        _UID.sub("UID", f"{kind.kind} {obj['metadata']['name']}"): _timeless(obj)
        for kind in KINDS
        for obj in await of(kind)
    }


def _timeless(value: Any) -> Any:
    match value:
        case dict():
            return {_UID.sub("UID", key): _timeless(each) for key, each in value.items() if not _FLEETING.search(key)}
        case list():
            return [_timeless(each) for each in value]
        case str():
            return _UID.sub("UID", value)
        case _:
            return value


@pytest.mark.parametrize("name", [name for name in STORIES if "first job ends" not in name])
def test_killed_at_every_write(name: str) -> None:
    story = STORIES[name]
    undisturbed, lives = lived(story)
    assert lives == 1
    writes = 0
    while True:
        writes += 1
        for after in (False, True):
            outcome, lives = lived(story, writes, after=after)
            if lives == 1:  # there was no such write any more
                assert writes > 3
                return
            assert outcome == undisturbed, (writes, after)


@pytest.mark.parametrize("name", [name for name in STORIES if "from its start" not in name])
def test_changes_during_a_downtime(name: str) -> None:
    assert lived(STORIES[name], absent=True)[0] == lived(STORIES[name])[0]


def test_stories_match_their_names() -> None:
    reported = {name: lived(story)[0] for name, story in STORIES.items()}
    (run,) = (name for name in reported["cron run"] if name.startswith("Job "))
    assert reported["cron run"][run]["status"]["state"]["phase"] == "Completed"
    grown = reported["growth after an OOM kill"]
    assert [_memory(grown[f"Pod job-{name}"]) for name in ("a-0", "a-1", "b-0")] == ["2Gi", "2Gi", "1Gi"]
    assert [each.attempts for each in stored_overrides(msgspec.convert(grown["Job job"], Job))] == [1]
    assert reported["JobFlow, from its start"]["JobFlow flow"]["status"]["state"]["phase"] == "Succeed"
    assert list(reported["time to live"]) == ["Queue default"]
    assert reported["queue's closing"]["Queue child"]["status"]["state"] == "Closed"


def _memory(pod: Manifest) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["limits"]["memory"])
