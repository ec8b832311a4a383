"""A standby takes over from a leader that ended, stopped or hung: no pod is bound or evicted by two decisions."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scenario.cluster.takeovers import PREEMPTING, Takeovers, takeovers, writes
from tests.scenario.scheduling.harness import group, node, pod, priority_class, queue, waiting
from tests.unit.kube.elections import Process
from volcanoio.model import kinds


async def a_gang(world: Takeovers, name: str, size: int) -> None:
    await world.create(group(name, size), *waiting(name, size))


def stop_at_bind(process: Process, number: int) -> None:
    """Stop the process when it sends that bind: earlier ones are under way, later ones not yet sent."""
    seen = 0

    def sending(method: str, path: str) -> None:
        nonlocal seen
        seen += method == "POST" and path.endswith("/binding")
        if seen == number:
            process.stop()

    process.transport.sending = sending


async def test_a_standby_writes_nothing_and_decides_at_once_when_it_leads() -> None:
    async with takeovers() as world:
        await world.create(node("n1", cpu="32"))
        first = world.scheduler("first")
        await world.until(lambda: first.leads)
        second = world.scheduler("second", skew=300.0)
        await a_gang(world, "g", 4)
        await world.until_bound(4)
        await world.clock.advance(20)
        assert writes(second) == []
        await first.kill()
        await a_gang(world, "h", 4)
        took = await world.until_bound(8)
        assert 13 <= took <= 15 + 1.2
        assert set(world.binds(second)) == {"h-0", "h-1", "h-2", "h-3"}
        world.check()


async def test_a_leader_stopped_in_mid_commit_sends_no_later_bind() -> None:
    async with takeovers() as world:
        await world.create(node("n1", cpu="32"))
        first = world.scheduler("first")
        await world.until(lambda: first.leads)
        second = world.scheduler("second")
        await world.clock.advance(5)
        first.transport.network.delay = 0.05
        stop_at_bind(first, 4)
        await a_gang(world, "g", 12)
        await world.clock.advance(30)
        assert second.leads
        await world.until_bound(12)
        before = writes(first)
        first.resume()
        await world.clock.advance(40)
        assert writes(first) == before
        assert first.candidate.lost_because
        assert set(world.binds().values()) == {1}
        assert sum(world.binds(first).values()) == 4
        world.check()


async def test_a_leader_stopped_between_two_evictions_does_not_take_a_third_victim() -> None:
    async with takeovers() as world:
        low = [f"low-{number}" for number in range(4)]
        await world.create(
            priority_class("high", 1000), *(node(f"n{number}", cpu="1") for number in range(4)),
            group("low", 1), *waiting("low", 4),
        )  # fmt: skip
        first = world.scheduler("first", configuration=PREEMPTING)
        await world.until_bound(4)
        for name in low:
            answer = await world.api("PATCH", kinds.POD.path("ns", name, "status"), {"status": {"phase": "Running"}})
            assert answer.code in (200, 415)
        second = world.scheduler("second", configuration=PREEMPTING)
        await world.clock.advance(5)

        def sending(method: str, path: str) -> None:
            if method == "DELETE":
                first.stop()

        first.transport.sending = sending
        await world.create(group("high", 2, priorityClassName="high"))
        await world.create(*waiting("high", 2, spec={"priorityClassName": "high"}))
        await world.clock.advance(30)
        assert second.leads
        first.resume()
        await world.clock.advance(30)
        evicted = [pod.metadata.name for pod in await world.objects(kinds.POD) if pod.metadata.deletion_timestamp]
        assert len(evicted) == 2
        assert sum(method == "DELETE" for process in (first, second) for method, _ in writes(process)) == 2
        world.check()


FAULTS = ["kill", "stop", "block", "down", "steal"]


async def inflict(world: Takeovers, process: Process, fault: str) -> None:
    """Let a leader lose its lease; `kill` and `stop` end its work, too."""
    match fault:
        case "kill":
            await process.kill()
        case "stop":
            process.stop()
        case "block":
            process.is_alive = False
        case "down":
            process.transport.network.is_down = True
        case "steal":
            await world.edit(spec={"holderIdentity": "second"})


def deletions(*processes: Process) -> Counter[str]:
    """Pods that were deleted, by name."""
    return Counter(path.rsplit("/")[-1] for each in processes for method, path in writes(each) if method == "DELETE")


@pytest.mark.parametrize("skew", [300.0, -300.0])
@pytest.mark.parametrize("fault", FAULTS)
async def test_victims_are_taken_by_one_decision(fault: str, skew: float) -> None:
    """The first victim of two is deleted and the deletion of the second is being sent when the leader is hit."""
    async with takeovers() as world:
        await world.create(
            priority_class("high", 1000), *(node(f"n{number}", cpu="1") for number in range(4)),
            group("low", 1),
            *(pod(f"low-{number}", "low", cpu="1", on=f"n{number}", phase="Running") for number in range(4)),
        )  # fmt: skip
        first = world.scheduler("first", configuration=PREEMPTING)
        await world.until(lambda: first.leads)
        second = world.scheduler("second", configuration=PREEMPTING, skew=skew)
        await world.clock.advance(5)

        deleting = []

        def sending(method: str, path: str) -> None:
            if method == "DELETE":
                deleting.append(path)
            if len(deleting) == 2:
                first.transport.network.delay = 1.0

        first.transport.sending = sending
        await world.create(group("high", 2, priorityClassName="high"))
        await world.create(*waiting("high", 2, spec={"priorityClassName": "high"}))
        await world.until(lambda: first.transport.network.delay)
        await inflict(world, first, fault)
        await world.until(lambda: second.leads)
        await world.create(group("higher", 1, priorityClassName="high"))
        await world.create(*waiting("higher", 1, spec={"priorityClassName": "high"}))
        await world.clock.advance(20)
        first.resume()
        await world.clock.advance(20)
        evicted = {pod.metadata.name for pod in await world.objects(kinds.POD) if pod.metadata.deletion_timestamp}
        assert deletions(first, second) == dict.fromkeys(evicted, 1)
        assert len(evicted) == 3
        assert len(deletions(first)) == (1 if fault == "kill" else 2)
        for name in evicted:
            await world.api("DELETE", kinds.POD.path("ns", name), {"gracePeriodSeconds": 0})
        await world.until_bound(4)
        assert world.binds(second) == {"high-0": 1, "high-1": 1, "higher-0": 1}
        assert world.binds(first) == {}
        world.check()


async def test_a_graceful_end_hands_over_within_two_seconds() -> None:
    async with takeovers() as world:
        await world.create(node("n1"))
        first = world.scheduler("first")
        await world.until(lambda: first.leads)
        world.scheduler("second")
        await world.clock.advance(10)
        await world.until_done(first.end())
        await a_gang(world, "g", 4)
        assert await world.until_bound(4) <= 2
        await first.kill()
        world.check()


@pytest.mark.parametrize("fault", ["block", "down", "steal"])
async def test_a_leader_that_cannot_renew_ends_before_another_decides(fault: str) -> None:
    async with takeovers() as world:
        await world.create(node("n1", cpu="32"))
        first = world.scheduler("first")
        await world.until(lambda: first.leads)
        second = world.scheduler("second", skew=-300.0)
        await world.clock.advance(10)
        await inflict(world, first, fault)
        for number in range(8):
            await a_gang(world, f"g{number}", 2)
            await world.clock.advance(3.3)
            world.check()
        await world.until_bound(16)
        assert second.leads
        assert set(world.binds().values()) == {1}


async def test_standby_controllers_act_when_they_lead_and_not_before() -> None:
    async with takeovers() as world:
        await world.create(queue("default"))
        first = world.controllers("first")
        await world.until(lambda: first.leads)
        second = world.controllers("second")
        await world.clock.advance(5)
        template = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
        job = {
            "apiVersion": kinds.JOB.api_version,
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "ns"},
            "spec": {
                "minAvailable": 3,
                "queue": "default",
                "schedulerName": "volcano",
                "tasks": [{"name": "t", "replicas": 3, "template": template}],
            },
        }
        await world.create(job)
        await world.clock.advance(5)
        assert writes(second) == []
        groups = await world.objects(kinds.POD_GROUP)
        await world.api(
            "PATCH",
            kinds.POD_GROUP.path("ns", groups[0].metadata.name),
            {"status": {"phase": "Inqueue"}},
            "application/merge-patch+json",
        )
        await world.clock.advance(1)
        assert len(await world.nodes_of_pods()) == 3
        first.stop()
        await world.create({**job, "metadata": {"name": "k", "namespace": "ns"}})
        await world.clock.advance(40)
        assert second.leads
        assert {each.metadata.name[:1] for each in await world.objects(kinds.POD_GROUP)} == {"j", "k"}
        before = writes(first)
        first.resume()
        await world.clock.advance(20)
        assert writes(first) == before
        assert len(await world.nodes_of_pods()) == 3
        world.check()
