"""Questions to a running scheduler: what it answers, whom it refuses, and that it decides as without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import msgspec
import pytest

from tests.scenario.scheduling.harness import group, node, pods, queue, running
from tests.unit.runtime.scheduler_rig import Rig
from tests.unit.runtime.virtual_time import run_until_idle
from volcanoio.compose.state_files import read_state
from volcanoio.engine.scheduling.cluster.memory import SchedulerMemory
from volcanoio.engine.scheduling.diagnosis.answers import LiveAnswer, UnknownTargetError, find
from volcanoio.engine.scheduling.diagnosis.diagnosis import JOBS_PER_STEP
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import BindRefused
from volcanoio.model import kinds
from volcanoio.runtime.endpoints import serving
from volcanoio.runtime.scheduler import answers
from volcanoio.runtime.scheduler.answers import SNAPSHOT, WHY, Answers, Reply

CLUSTER = (queue("default"), node("n1", cpu="4"), node("n2", cpu="4"))
WAITING = (
    *CLUSTER,
    group("big", 3),
    *pods("big", 3, "big", cpu="2500m"),
    group("next", 1),
    *pods("next", 1, "next", cpu="9"),
)


class Held:
    """The informers of a rig: all that it was given."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def informer(self, kind: kinds.Kind) -> Any:
        objects = {obj.metadata.key: obj for obj in self._rig.objects.values() if kinds.of(obj) is kind}
        return SimpleNamespace(kind=kind, objects=objects)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.informer(kind) for kind in (kinds.NODE, kinds.QUEUE, kinds.POD_GROUP, kinds.POD)])


def answers_of(rig: Rig) -> Answers:
    held: Any = Held(rig)
    return Answers(rig.scheduler, held, rig.clock)


async def asked(rig: Rig, **query: str) -> LiveAnswer:
    """Ask, and return the answer."""
    reply = await answers_of(rig).respond(WHY, {"namespace": "ns", **query})
    assert reply.status == 200, reply.body
    return msgspec.json.decode(reply.body, type=LiveAnswer)


async def refused(rig: Rig, path: str = WHY, **query: str) -> tuple[int, str]:
    """Ask, and return status and error."""
    reply = await answers_of(rig).respond(path, query)
    return reply.status, msgspec.json.decode(reply.body)["error"]


async def test_a_waiting_gang_is_explained_by_a_cycle_that_opens_at_once() -> None:
    rig = Rig()
    async with rig.running(*WAITING):
        before = len(rig.opened)
        answer = await asked(rig, target="big")
        assert len(rig.opened) == before + 1
        assert answer.cycle == rig.opened[-1].cycle
        waiting = answer.waiting
        assert waiting is not None
        assert waiting.diagnosis is not None
        assert (waiting.diagnosis.code, waiting.diagnosis.position) == ("Fragmented", 1)
        assert [(short.resource, short.missing) for short in waiting.diagnosis.nearest] == [("cpu", "1")]
        assert (await asked(rig, target="pod/next-0")).waiting is not None


async def test_a_queue_shows_its_jobs_in_order() -> None:
    rig = Rig()
    async with rig.running(*WAITING):
        answer = await asked(rig, target="queue/default")
        assert answer.queue is not None
        shown = [(job.position, job.target, job.code) for job in answer.queue.waiting]
        assert shown == [(1, "ns/big", "Fragmented"), (2, "ns/next", "LargerThanAnyNode")]


async def test_a_job_that_runs_does_not_wait() -> None:
    rig = Rig()
    async with rig.running(*CLUSTER, group("old", 1, phase="Running"), *running("old", 1, on="n1")):
        waiting = (await asked(rig, target="old")).waiting
        assert waiting is not None
        assert (waiting.phase, waiting.diagnosis) == ("Running", None)


async def test_without_a_question_no_cycle_is_opened() -> None:
    rig = Rig(schedule_period=1.0)
    async with rig.running(*WAITING):
        before = len(rig.opened)
        await rig.clock.advance(0.5)
        assert len(rig.opened) == before


async def test_a_pod_that_backs_off_is_remembered_by_the_running_scheduler_alone() -> None:
    rig = Rig()
    rig.refuse = lambda batch: batch.group == "ns/a"
    async with rig.running(*CLUSTER, group("a", 1), *pods("a", 1, "a", cpu="1")):
        while len(rig.of(BindRefused)) < 5:
            await rig.clock.advance(0.05)
        waiting = (await asked(rig, target="a")).waiting
        assert waiting is not None
        assert waiting.diagnosis is not None
        assert waiting.memory is not None
        assert waiting.diagnosis.code == "BindRefused"
        assert waiting.diagnosis.message == "failed to bind to node n1: 409"
        assert [(each.pod, each.refusals) for each in waiting.memory.refused] == [("ns/a-0", 5)]
        assert waiting.memory.reserved > 0
        memory = await snapshot_memory(rig)
        assert memory.back_off["ns-a-0"].refusals == waiting.memory.refused[0].refusals
        assert list(memory.urgent) == ["ns/a"]


async def snapshot_memory(rig: Rig) -> SchedulerMemory:
    reply = await answers_of(rig).respond(SNAPSHOT, {})
    assert reply.parts is not None
    content = b"".join([part async for part in reply.parts])
    state = read_state([("snapshot", content)], list(kinds.ALL))
    assert state.memory is not None
    assert {obj.metadata.uid for obj in state.objects} == {obj.metadata.uid for obj in rig.objects.values()}
    return state.memory


async def test_a_question_that_fails_is_its_askers_problem() -> None:
    rig = Rig()

    def read(session: CycleSession) -> Iterator[None]:
        raise ValueError(f"cycle {session.cycle}")
        yield

    async with rig.running(*CLUSTER):
        with pytest.raises(ValueError, match="cycle"):
            await rig.scheduler.ask(read)
        assert rig.closed[-1].fault == ""
        rig.put(group("a", 1), *pods("a", 1, "a", cpu="1"))
        await run_until_idle()
        await rig.clock.advance(0.1)
        assert [batch.group for batch in rig.batches] == ["ns/a"]


async def test_questions_that_cannot_be_answered() -> None:
    rig = Rig()
    async with rig.running(*WAITING):
        assert await refused(rig) == (400, "target is missing; write ?target=NAME&namespace=NAMESPACE")
        assert (await refused(rig, "/debug/other"))[0] == 404
        status, text = await refused(rig, target="bog", namespace="ns")
        assert status == 404
        assert text.endswith("did you mean big?")


@pytest.mark.parametrize(("target", "status"), [("nothing", 404), ("group-299", 200)])
async def test_other_work_is_done_while_a_name_is_looked_for_among_many_jobs(target: str, status: int) -> None:
    rig = Rig()
    async with rig.running(*CLUSTER, *(group(f"group-{at}", 1) for at in range(300))):
        steps = find(rig.scheduler.state, lambda _: None, "", target, "ns")
        assert list(drained(steps)).count(None) >= 300 // JOBS_PER_STEP
        assert (await answers_of(rig).respond(WHY, {"namespace": "ns", "target": target})).status == status


def drained(steps: Iterator[None]) -> Iterator[None]:
    """Yield the steps, and end where they end with an unknown name."""
    with suppress(UnknownTargetError):
        yield from steps


async def test_the_owner_of_a_pod_group_is_a_job_of_volcano_alone() -> None:
    others, ours = group("x", 1), group("train-uid", 1)
    others["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}]
    ours["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "v"}
    ]
    rig = Rig()
    async with rig.running(*CLUSTER, others, ours):
        waiting = (await asked(rig, target="job/train")).waiting
        assert waiting is not None
        assert waiting.target == "ns/train-uid"
    rig = Rig()
    async with rig.running(*CLUSTER, others):
        assert (await refused(rig, target="job/train", namespace="ns"))[0] == 404


async def test_a_standby_and_one_that_is_still_listing_do_not_answer() -> None:
    rig = Rig(is_standby=True)
    async with rig.running(*WAITING):
        status, text = await refused(rig, target="big")
        assert (status, text) == (503, "this scheduler is not the leader: ask the holder of the Lease")
    rig = Rig()
    async with rig.running(*WAITING, synced=False):
        assert (await refused(rig, target="big"))[0] == 503
        assert (await refused(rig, SNAPSHOT))[0] == 503


async def test_questions_and_snapshots_are_limited_in_number() -> None:
    rig = Rig()
    async with rig.running(*WAITING):
        one = answers_of(rig)
        statuses = [
            (await one.respond(WHY, {"target": "nothing"})).status for _ in range(answers.MAX_BURST.__int__() + 1)
        ]
        assert statuses == [404] * int(answers.MAX_BURST) + [429]
        assert (await one.respond(SNAPSHOT, {})).status == 200
        assert (await one.respond(SNAPSHOT, {})).status == 429


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
    ],
)
async def test_web_pages_are_refused(headers: dict[str, str], status: int) -> None:
    async def respond(path: str, query: Any) -> Reply:
        return Reply(200, b"{}")

    async with (
        serving("127.0.0.1", 0, answers.handlers(respond)) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{WHY}", headers=headers) as answer,
    ):
        assert answer.status == status


async def test_what_is_read_between_two_cycles_waits_for_an_open_one() -> None:
    rig = Rig()
    async with rig.running(*WAITING):
        seen: list[int] = []

        def read(session: CycleSession) -> Iterator[None]:
            seen.append(session.cycle)
            yield
            yield

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.scheduler.ask, read)
            while not seen:
                await anyio.lowlevel.checkpoint()
            assert rig.scheduler.busy_for() >= 0
            closed = await rig.scheduler.between_cycles(lambda: len(rig.closed))
        assert closed == seen[0]


async def test_an_error_of_what_is_read_after_an_open_cycle_reaches_the_asker_alone() -> None:
    rig = Rig()
    async with rig.running(*WAITING):
        seen: list[int] = []

        def read(session: CycleSession) -> Iterator[None]:
            seen.append(session.cycle)
            yield
            yield

        def fail() -> None:
            raise UnknownTargetError("queue/x")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.scheduler.ask, read)
            while not seen:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(UnknownTargetError):
                await rig.scheduler.between_cycles(fail)
        await rig.scheduler.ask(read)
        assert len(seen) == 2, "the scheduler goes on"
