"""A policy gives a task more memory: killed at every write, the value is applied once, to that task alone, for free."""

from __future__ import annotations

from typing import Any

from tests.stateful import jobs_world
from tests.stateful.jobs_world import JobsWorld
from tests.unit.jobs.driver import spec, task
from volcanoio.framework.decisions import Abstain, Decision, Override
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.framework.overrides import stored_overrides
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import JobAction, JobEvent
from volcanoio.model.core import ResourceList, ResourceRequirements
from volcanoio.model.scheduling import PodGroup

MEMORY = {"memory": "1Gi"}


class Doubling:
    """A failed pod's task comes back with twice the memory that the pod had."""

    name = "doubling"

    def __init__(self, arguments: object = None) -> None:
        del arguments

    async def decide(self, context: PolicyContext) -> Decision:
        event = context.event
        pod = next((pod for pod in context.pods if pod.metadata.uid == event.pod_uid), None)
        if event.name != JobEvent.POD_FAILED or pod is None:
            return Abstain()
        had = int(memory_of(pod).removesuffix("Gi"))
        more: ResourceList = {"memory": f"{2 * had}Gi"}
        resources = {"c": ResourceRequirements(requests=more, limits=more)}
        known = {override.task: override.attempts for override in context.overrides}
        return Override(
            task=event.task,
            resources=resources,
            attempts=known.get(event.task, 0) + 1,
            reason=f"task {event.task} gets {more['memory']}",
            action=JobAction.RESTART_TASK,
        )


def memory_of(pod: Any) -> str:
    return str(pod.spec.containers[0].resources.limits["memory"])


async def lived(world: JobsWorld, die_in: int, after: bool) -> tuple[object, ...]:
    await world.reset()
    container = {"name": "c", "image": "i", "resources": {"requests": MEMORY, "limits": MEMORY}}
    pod: Manifest = {"containers": [container]}
    await world.submit(spec(task("a", 2, pod=pod), task("b", 1, pod=pod)))
    await world.run_until_stable()
    await world.run_pods()
    await world.run_until_stable()
    if die_in:
        world.die_in(die_in, after=after)
    for name in ("job-a-0", "job-a-1"):
        await world.end_pod(name, "Failed", 137)
    rest = await world.come_to_rest()
    (group,) = await world.client.list(kinds.POD_GROUP, jobs_world.NAMESPACE)
    assert isinstance(group, PodGroup)
    pods = {name: memory_of(pod) for name, pod in (await world.pods()).items()}
    overrides = {one.task: one.attempts for one in stored_overrides(await world.job())}
    return rest, pods, overrides, (group.spec.min_resources or {})["limits.memory"]


def test_killed_at_every_write() -> None:
    async def story(world: JobsWorld) -> None:
        undisturbed = await lived(world, 0, after=False)
        rest, pods, overrides, least = undisturbed
        assert isinstance(rest, tuple)
        assert rest[0] == ("Running", 0, 0, "")
        assert pods == {"job-a-0": "2Gi", "job-a-1": "2Gi", "job-b-0": "1Gi"}
        assert overrides == {"a": 1}
        assert least == "5Gi"
        writes = 0
        while True:
            writes += 1
            for after in (False, True):
                outcome = await lived(world, writes, after)
                if len(world.lives) == 1:
                    assert writes > 3
                    return
                assert outcome == undisturbed, (writes, after)

    jobs_world.run(story, policies=(Doubling(),))
