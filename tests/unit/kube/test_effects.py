"""Stages, slots, retries and unknown outcomes: every effect comes back as exactly one event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.unit.kube.scripted import Call, ManualClock, ScriptedTransport, answer, refusal, until
from volcanoio.bus.event_bus import EventBus
from volcanoio.framework.effects import (
    Create,
    Delete,
    Measure,
    Measurement,
    Patch,
    PatchType,
    Record,
    Stages,
    StartTimer,
    StopTimer,
)
from volcanoio.framework.events import EffectFailed, EffectSucceeded, Event, Observed
from volcanoio.kube.effect_executor import EffectExecutor, EffectSinks
from volcanoio.kube.event_recorder import EventRecorder
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.object_writer import EXPLANATIONS_IN_FLIGHT
from volcanoio.kube.sender import Sender
from volcanoio.kube.transport import Response, TransportError
from volcanoio.model.base import ObjectReference
from volcanoio.model.kinds import POD, SECRET
from volcanoio.runtime.metrics import PrometheusProbe

PODS, SECRETS = POD.resource, SECRET.resource


def pod(name: str, revision: int = 1, **meta: Any) -> dict[str, Any]:
    about = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(revision), **meta}
    return {"kind": "Pod", "metadata": about}


def create(id_: int, name: str, **meta: Any) -> Create:
    return Create(
        id=id_, resource=PODS, manifest={"kind": "Pod", "metadata": {"name": name, "namespace": "ns", **meta}}
    )


def patch(id_: int, content: Any, *, version: str = "", type_: PatchType = PatchType.MERGE) -> Patch:
    return Patch(id=id_, resource=PODS, namespace="ns", name="a", patch=content, type=type_, resource_version=version)


def delete(id_: int) -> Delete:
    return Delete(id=id_, resource=PODS, namespace="ns", name="a", uid="uid-a")


class Bench:
    """An executor over a server that `answers` (by the call's number) and says Created otherwise."""

    def __init__(self, answers: dict[int, Response | TransportError | Callable[[Call], Response]]) -> None:
        self.answers = answers
        self.hold: dict[int, asyncio.Event] = {}
        self.events: list[Event] = []
        self.local: list[tuple[str, str, object]] = []
        self.allowed = True
        self.clock = ManualClock()
        self.bus = EventBus(self.clock.now)
        self.bus.subscribe(self.events.extend)
        self.transport = ScriptedTransport(self.serve)
        self.informers = InformerSet(self.transport, self.bus.publish, clock=self.clock)
        self.informers.informer(POD)
        self.probe = PrometheusProbe(process=False)
        self.recorder = EventRecorder(self.transport, component="test", clock=self.clock)

    async def serve(self, call: Call) -> Response:
        number = len(self.transport.calls)
        if number in self.hold:
            await self.hold[number].wait()
        result = self.answers.get(number)
        if isinstance(result, TransportError):
            raise result
        if isinstance(result, Response):
            return result
        if result is not None:
            return result(call)
        name = call.body["metadata"]["name"] if call.method == "POST" else call.path.rsplit("/", 1)[-1]
        return answer(pod(name, 10 + number), 201)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[EffectExecutor]:
        sender = Sender(self.transport, clock=self.clock, fence=lambda: self.allowed)
        executor = EffectExecutor(
            sender,
            EffectSinks(self.bus.publish, self.informers, local=lambda *effect: self.local.append(effect)),
            recorder=self.recorder,
            probe=self.probe,
        )
        async with executor:
            yield executor

    async def carry_out(self, *stages: Stages, cause: int = 0) -> list[str]:
        """What was published once all steps are finished, a short word for each event."""
        async with self.running() as executor:
            for step in stages:
                executor.submit("job", "ns/a", step, cause)
            await until(lambda: not executor.steps_under_way)
        return [word(event) for event in self.events]


def word(event: Event) -> str:
    match event:
        case EffectSucceeded():
            return f"done {event.effect_id}"
        case EffectFailed():
            dropped = f" dropped {event.dropped}" if event.dropped else ""
            return f"failed {event.effect_id}: {event.code} {event.reason}{dropped}"
        case Observed():
            return f"{event.change.value} {event.obj.metadata.name}"
    raise AssertionError(event)


async def test_the_next_stage_waits_for_all_of_the_one_before() -> None:
    bench = Bench({})
    stages = ((create(1, "a"), create(2, "b")), (StartTimer(id=3, name="t", due=5.0),), (create(4, "c"),))
    words = await bench.carry_out(stages, cause=77)
    assert words == ["appeared a", "done 1", "appeared b", "done 2", "appeared c", "done 4"]
    assert bench.local == [("job", "ns/a", stages[1][0])]
    assert {event.cause for event in bench.events} == {77}
    success = bench.events[1]
    assert isinstance(success, EffectSucceeded)
    assert (success.controller, success.key) == ("job", "ns/a")
    assert success.object == msgspec.convert(pod("a", 11), POD.type)
    assert all(call.timeout for call in bench.transport.calls)


async def test_a_timer_is_not_stopped_by_an_earlier_step_that_also_writes() -> None:
    bench = Bench({})
    stop, start = StopTimer(id=1, name="t"), StartTimer(id=3, name="t", due=5.0)
    await bench.carry_out(((stop, create(2, "a")),), ((start,),))
    assert [effect for _, _, effect in bench.local] == [stop, start]


async def test_a_refusal_drops_and_reports_the_later_stages() -> None:
    bench = Bench({1: refusal(422, "Invalid"), 2: refusal(403, "Forbidden")})
    words = await bench.carry_out(((create(1, "a"), create(2, "b"), create(3, "c")), (create(4, "d"), create(5, "e"))))
    assert words == ["failed 1: 422 Invalid dropped (4, 5)", "failed 2: 403 Forbidden", "appeared c", "done 3"]
    assert len(bench.transport.calls) == 3


async def test_overload_silence_and_server_failures_are_retried() -> None:
    busy = refusal(429, "TooManyRequests", headers={"Retry-After": "9"})
    bench = Bench({1: busy, 2: refusal(500, "InternalError"), 3: TransportError("reset")})
    assert await bench.carry_out(((patch(1, {"a": 1}),),)) == ["appeared a", "done 1"]
    assert len(bench.clock.slept) == 3
    assert bench.clock.slept[0] >= 9


async def test_the_outcome_is_unknown_when_retries_end() -> None:
    bench = Bench(dict.fromkeys(range(1, 99), TransportError("down")))
    assert await bench.carry_out(((patch(1, {}),),)) == ["failed 1: 0 OutcomeUnknown"]
    assert 250 < bench.clock.now() - ManualClock().now() <= 300


async def test_an_object_found_after_an_unknown_outcome_is_ours_if_its_owner_is() -> None:
    owned = {"ownerReferences": [{"uid": "job-1"}]}
    exists = refusal(409, "AlreadyExists")
    bench = Bench({1: TransportError("reset"), 2: exists, 3: answer(pod("a", 12, **owned))})
    assert await bench.carry_out(((create(1, "a", **owned),),)) == ["appeared a", "done 1"]

    bench = Bench({1: refusal(500, "InternalError"), 2: exists, 3: answer(pod("a", 12))})
    assert await bench.carry_out(((create(1, "a", **owned),),)) == ["failed 1: 409 AlreadyExists"]

    bench = Bench({1: exists})
    assert await bench.carry_out(((create(1, "a"),),)) == ["failed 1: 409 AlreadyExists"]


async def test_a_delete_succeeds_when_the_uid_is_gone() -> None:
    success = answer({"kind": "Status", "status": "Success"})
    conflict = refusal(409, "Conflict")
    successor = answer({"metadata": {"name": "a", "namespace": "ns", "uid": "other"}})
    for answers in ({2: success}, {2: refusal(404, "NotFound")}, {2: conflict, 3: successor}):
        bench = Bench(dict(answers))
        words = await bench.carry_out(((create(1, "a"),), (delete(2),)))
        assert words == ["appeared a", "done 1", "gone a", "done 2"]
        assert bench.transport.calls[1].body["preconditions"] == {"uid": "uid-a"}

    bench = Bench({2: answer(pod("a", 12, deletionTimestamp="2026-01-01T00:00:00Z"))})
    words = await bench.carry_out(((create(1, "a"),), (delete(2),)))
    assert words == ["appeared a", "done 1", "changed a", "done 2"]

    bench = Bench({1: conflict, 2: answer(pod("a"))})
    assert await bench.carry_out(((delete(1),),)) == ["failed 1: 409 Conflict"]


async def test_unsent_patches_of_one_object_become_one() -> None:
    bench = Bench({})
    bench.hold[1] = asyncio.Event()
    async with bench.running() as executor:
        for number, content in enumerate([{"a": 1}, {"b": {"x": 1}}, {"b": {"y": 2}}], start=1):
            executor.submit("job", "k", ((patch(number, content),),))
            await asyncio.sleep(0)
        assert len(bench.transport.calls) == 1
        bench.hold[1].set()
        await until(lambda: not executor.steps_under_way)
    assert [call.body for call in bench.transport.calls] == [{"a": 1}, {"b": {"x": 1, "y": 2}}]
    assert [word(event) for event in bench.events] == ["appeared a", "done 1", "changed a", "done 2", "done 3"]


async def test_a_patch_from_a_newer_version_supersedes_and_others_queue() -> None:
    bench = Bench({})
    bench.hold[1] = asyncio.Event()
    operation = [{"op": "add", "path": "/x", "value": 1}]
    async with bench.running() as executor:
        for effect in (
            patch(1, {"a": 1}),
            patch(2, {"a": 2}, version="5"),
            patch(3, {"a": 3}, version="6"),
            patch(4, operation, version="6", type_=PatchType.JSON),
        ):
            executor.submit("job", "k", ((effect,),))
            await asyncio.sleep(0)
        bench.hold[1].set()
        await until(lambda: not executor.steps_under_way)
    assert [call.body for call in bench.transport.calls] == [
        {"a": 1},
        {"a": 3, "metadata": {"resourceVersion": "6"}},
        [{"op": "replace", "path": "/metadata/resourceVersion", "value": "6"}, *operation],
    ]
    words = [word(event) for event in bench.events]
    assert words == [
        "failed 2: 409 Superseded", "appeared a", "done 1", "changed a", "done 3", "changed a", "done 4",
    ]  # fmt: skip


async def test_without_leadership_nothing_is_sent() -> None:
    bench = Bench({})
    bench.allowed = False
    assert await bench.carry_out(((create(1, "a"),),)) == ["failed 1: 0 NotLeader"]
    assert bench.transport.calls == []


async def test_secret_material_is_made_at_the_edge() -> None:
    bench = Bench({})
    manifest = {"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "data": {"config": "Zg=="}}
    secret = Create(id=1, resource=SECRETS, manifest=manifest, fill="ssh-keypair")
    async with bench.running() as executor:
        executor.submit("job", "k", ((secret,),))
        while executor.steps_under_way:  # noqa: ASYNC110 - a worker thread makes the key
            await asyncio.sleep(0.001)
    sent = bench.transport.calls[0].body["data"]
    assert set(sent) == {"config", "id_rsa", "id_rsa.pub", "authorized_keys"}
    assert manifest["data"] == {"config": "Zg=="}
    assert [word(event) for event in bench.events] == ["done 1"]

    bench = Bench({})
    unknown = Create(id=1, resource=SECRETS, manifest=manifest, fill="magic")
    assert await bench.carry_out(((unknown,),)) == ["failed 1: 0 UnknownFiller"]
    unknown_kind = Create(id=2, resource="frogs.example.com", manifest=manifest)
    assert (await bench.carry_out(((unknown_kind,),)))[1:] == ["failed 2: 0 UnknownResource"]


async def test_records_are_handed_on_without_an_outcome() -> None:
    bench = Bench({})
    about = ObjectReference(kind="Job", name="j", namespace="ns", uid="1")
    record = Record(id=1, regarding=about, type="Normal", reason="Because", message="so")
    assert await bench.carry_out(((record,),)) == []
    writing = asyncio.ensure_future(bench.recorder.run())
    await until(lambda: bench.transport.calls)
    writing.cancel()
    await asyncio.wait([writing])
    assert bench.transport.calls[0].body["reason"] == "Because"


async def test_figures_reach_the_metrics_under_the_name_they_have() -> None:
    bench = Bench({})
    labels = {"job_name": "ns/j"}
    count = Measure(id=1, measurement=Measurement.COUNT, name="ended_count", labels=labels)
    wait = Measure(id=2, measurement=Measurement.OBSERVE, name="wait_milliseconds", value=3.0, times=2)
    level = Measure(id=3, measurement=Measurement.GAUGE, name="level", value=5.0)
    assert await bench.carry_out(((count, wait, level),)) == []
    assert bench.probe.value("ended_count", job_name="ns/j") == 1.0
    assert bench.probe.value("level") == 5.0
    assert b"wait_milliseconds_count 2.0" in bench.probe.page()
    gone = Measure(id=4, measurement=Measurement.FORGET, name="ended_count", labels=labels)
    assert await bench.carry_out(((gone,),)) == []
    assert bench.probe.value("ended_count", job_name="ns/j") == 0.0


async def test_a_stage_of_thousands_is_carried_out_whole_by_a_few_tasks() -> None:
    bench = Bench({7: refusal(422, "Invalid")})
    writes = tuple(create(number, f"p{number}") for number in range(1, 1001))
    words = await bench.carry_out((writes, (create(2000, "later"),)))
    assert len(bench.transport.calls) == len(writes)
    assert [word for word in words if word.startswith("failed")] == ["failed 7: 422 Invalid dropped (2000,)"]
    assert sum(word.startswith("done") for word in words) == len(writes) - 1


async def test_other_patches_pass_those_that_explain_why_pods_wait() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting = [
        Patch(
            id=number, resource=PODS, namespace="ns", name=f"p-{number}", subresource="status",
            patch={"status": {"conditions": [condition]}},
        )
        for number in range(1, 101)
    ]  # fmt: skip
    nomination = Patch(
        id=101, resource=PODS, namespace="ns", name="p-100", subresource="status",
        patch={"status": {"nominatedNodeName": "n1"}},
    )  # fmt: skip
    bench = Bench({})
    bench.hold = {number: asyncio.Event() for number in range(1, EXPLANATIONS_IN_FLIGHT + 1)}
    async with bench.running() as executor:
        for each in waiting[:-1]:
            executor.submit("scheduler", each.name, ((each,),))
        await until(lambda: len(bench.transport.calls) == EXPLANATIONS_IN_FLIGHT)
        executor.submit("scheduler", "ns/p-100", ((nomination,),))
        await until(lambda: bool(bench.events))
        assert [word(event) for event in bench.events if isinstance(event, EffectSucceeded)] == ["done 101"]
        for held in bench.hold.values():
            held.set()
        await until(lambda: not executor.steps_under_way)
    assert len(bench.transport.calls) == 100


async def test_an_unsent_patch_for_every_version_is_not_replaced_by_one_for_a_version() -> None:
    bench = Bench({})
    bench.hold[1] = asyncio.Event()
    async with bench.running() as executor:
        for each in (patch(1, {"a": 1}), patch(2, {"b": 2}), patch(3, {"c": 3}, version="7")):
            executor.submit("scheduler", "ns/a", ((each,),))
        await until(lambda: len(bench.transport.calls) == 1)
        bench.hold[1].set()
        await until(lambda: not executor.steps_under_way)
    assert [set(call.body) - {"metadata"} for call in bench.transport.calls] == [{"a"}, {"b"}, {"c"}]
