"""Events are counted, not repeated, bounded, and never anybody's problem."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.unit.kube.scripted import Call, ManualClock, ScriptedTransport, answer, refusal, until
from volcanoio.framework.effects import Record
from volcanoio.kube.event_recorder import BUDGETS, EventBudget, EventRecorder, RecorderOptions
from volcanoio.kube.transport import Response, TransportError
from volcanoio.model.base import ObjectReference

JOB = ObjectReference(kind="Job", namespace="ns", name="j", uid="1")
CRON = ObjectReference(kind="CronJob", namespace="ns", name="c", uid="3")
QUEUE = ObjectReference(kind="Queue", name="q", uid="2")


def event(regarding: ObjectReference, type_: str, reason: str, message: str, *, component: str = "") -> Record:
    return Record(regarding=regarding, type=type_, reason=reason, message=message, component=component)


class PatientClock(ManualClock):
    """Time that the test alone moves."""

    async def idle(self, seconds: float) -> None:
        end = self.time + seconds
        while self.time < end:  # noqa: ASYNC110 - tests set the time; there is no event to await
            await asyncio.sleep(0)


class Bench:
    def __init__(
        self, answers: Sequence[Response | TransportError] = (), *, options: RecorderOptions | None = None
    ) -> None:
        self.answers = list(answers)
        self.clock = PatientClock()
        self.transport = ScriptedTransport(self.serve)
        self.recorder = EventRecorder(self.transport, component="volcano", clock=self.clock, options=options)

    async def serve(self, call: Call) -> Response:
        result = self.answers.pop(0) if self.answers else answer({}, 201)
        if isinstance(result, TransportError):
            raise result
        return result

    async def written(self, count: int) -> list[Call]:
        running = asyncio.ensure_future(self.recorder.run())
        await until(lambda: len(self.transport.calls) >= count)
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        return self.transport.calls


async def test_an_event_has_the_fields_that_kubernetes_expects() -> None:
    bench = Bench()
    bench.recorder.record(event(JOB, "Warning", "Bad", "went wrong"))
    (call,) = await bench.written(1)
    assert (call.method, call.path) == ("POST", "/api/v1/namespaces/ns/events")
    body = call.body
    assert body["metadata"]["name"].startswith("j.")
    assert body["involvedObject"] == {"kind": "Job", "namespace": "ns", "name": "j", "uid": "1"}
    assert (body["type"], body["reason"], body["message"]) == ("Warning", "Bad", "went wrong")
    assert (body["count"], body["source"]) == (1, {"component": "volcano"})
    assert body["firstTimestamp"] == body["lastTimestamp"] == "1970-01-12T13:46:40Z"


async def test_cluster_scoped_objects_have_theirs_in_default() -> None:
    bench = Bench()
    bench.recorder.record(event(QUEUE, "Normal", "Opened", "open"))
    (call,) = await bench.written(1)
    assert call.path == "/api/v1/namespaces/default/events"


async def test_containers_of_a_pod_have_events_of_their_own_and_name_the_node() -> None:
    bench = Bench()
    for path in ("spec.containers{a}", "spec.containers{b}"):
        pod = ObjectReference(kind="Pod", namespace="ns", name="p", uid="4", field_path=path)
        bench.recorder.record(event(pod, "Normal", "Pulled", "present", component="kubelet"), host="n1")
    calls = await bench.written(2)
    assert [call.body["involvedObject"]["fieldPath"] for call in calls] == ["spec.containers{a}", "spec.containers{b}"]
    assert calls[0].body["source"] == {"component": "kubelet", "host": "n1"}
    assert calls[0].body["reportingInstance"] == "n1"


async def test_equal_events_are_one_with_a_count() -> None:
    bench = Bench()
    for _ in range(3):
        bench.recorder.record(event(JOB, "Normal", "Same", "again"))
    calls = await bench.written(1)
    assert [call.body["count"] for call in calls] == [3]
    bench.clock.time += 60
    bench.recorder.record(event(JOB, "Normal", "Same", "again"))
    create, patch = await bench.written(2)
    assert patch.method == "PATCH"
    assert patch.path.endswith(create.body["metadata"]["name"])
    assert patch.body == {"count": 4, "lastTimestamp": "1970-01-12T13:47:40Z"}


async def test_a_failed_one_is_not_retried_but_the_next_is_a_new_event() -> None:
    bench = Bench([TransportError("down"), refusal(404, "NotFound")])
    bench.recorder.record(event(JOB, "Normal", "Same", "again"))
    await bench.written(1)
    bench.recorder.record(event(JOB, "Normal", "Same", "again"))
    first, second = await bench.written(2)
    assert (first.method, second.method) == ("POST", "POST")


async def test_a_deleted_event_is_written_again_with_its_count() -> None:
    bench = Bench([answer({}, 201), refusal(404, "NotFound")])
    bench.recorder.record(event(JOB, "Normal", "Same", "again"))
    await bench.written(1)
    bench.recorder.record(event(JOB, "Normal", "Same", "again"))
    _, patch, create = await bench.written(3)
    assert (patch.method, create.method) == ("PATCH", "POST")
    assert create.body["count"] == 2


async def test_events_that_differ_in_their_message_alone_are_combined_from_the_tenth_on() -> None:
    bench = Bench()
    for number in range(40):
        bench.recorder.record(event(JOB, "Normal", "Noise", str(number)))
    bench.recorder.record(event(JOB, "Normal", "Noise", "3"))
    bench.recorder.record(event(JOB, "Normal", "Other", "said"))
    calls = await bench.written(11)
    reported = {call.body["message"]: call.body["count"] for call in calls}
    separate_events = {str(number): 1 + (number == 3) for number in range(9)}
    assert reported == {**separate_events, "(combined from similar events): 39": 31, "said": 1}
    bench.clock.time += 60
    bench.recorder.record(event(JOB, "Normal", "Noise", "40"))
    change = (await bench.written(12))[-1]
    assert change.method == "PATCH"
    assert change.body == {
        "count": 32,
        "lastTimestamp": "1970-01-12T13:47:40Z",
        "message": "(combined from similar events): 40",
    }
    bench.clock.time += 601
    bench.recorder.record(event(JOB, "Normal", "Noise", "41"))
    assert (await bench.written(13))[-1].body["message"] == "41"


async def test_events_above_the_rate_of_an_object_are_written_later() -> None:
    bench = Bench()
    for number in range(40):
        bench.recorder.record(event(JOB, "Normal", f"Noise{number}", "once"))
    bench.recorder.record(event(JOB, "Normal", "Noise39", "once"))
    bench.recorder.record(event(QUEUE, "Normal", "Opened", "open"))
    bench.recorder.record(event(JOB, "Normal", "Mine", "another component's", component="other"))
    assert len(await bench.written(27)) == 27
    bench.clock.time += 301
    assert [call.body["reason"] for call in (await bench.written(28))[27:]] == ["Noise25"]
    for _ in range(14):
        bench.clock.time += 301
        await bench.written(1)
    assert bench.transport.calls[-1].body["reason"] == "Noise39"
    assert bench.transport.calls[-1].body["count"] == 2


async def test_a_schedule_of_every_minute_is_counted_whole() -> None:
    bench = Bench()
    runs = 24 * 60
    for number in range(runs):
        bench.recorder.record(event(CRON, "Normal", "SuccessfulCreate", f"created job c-{number}"))
        await bench.written(0)
        bench.clock.time += 60
    bench.clock.time += 300
    await bench.written(0)
    counts: dict[str, int] = {}
    for call in bench.transport.calls:
        name = call.body["metadata"]["name"] if call.method == "POST" else call.path.rpartition("/")[2]
        counts[name] = call.body["count"]
    assert sum(counts.values()) == runs
    assert len(counts) == 10
    assert len(bench.transport.calls) <= 25 + runs // 5 + 1


def about(number: int) -> ObjectReference:
    return ObjectReference(kind="Pod", namespace="ns", name=f"p{number}", uid=f"p{number}")


async def test_events_of_a_type_share_a_limit_and_those_of_other_types_pass_it() -> None:
    bench = Bench(options=RecorderOptions(budgets={"Normal": EventBudget(burst=3, per_second=1)}))
    for number in range(5):
        bench.recorder.record(event(about(number), "Normal", "Scheduled", "assigned"))
    bench.recorder.record(event(JOB, "Warning", "Bad", "went wrong"))
    reasons = [call.body["reason"] for call in await bench.written(4)]
    assert sorted(reasons) == ["Bad", "Scheduled", "Scheduled", "Scheduled"]
    bench.clock.time += 1
    assert len(await bench.written(5)) == 5
    bench.clock.time += 1
    assert len(await bench.written(6)) == 6


async def test_events_of_a_thousand_pods_that_begin_to_wait_do_not_delay_other_warnings() -> None:
    bench = Bench(options=RecorderOptions(budgets=BUDGETS))
    for number in range(1000):
        bench.recorder.record(event(about(number), "Warning", "FailedScheduling", "0/9 nodes are available"))
    assert len(await bench.written(500)) == 500
    bench.recorder.record(event(JOB, "Warning", "Evict", "preempted"))
    assert (await bench.written(501))[-1].body["reason"] == "Evict"
    bench.clock.time += 10
    assert len(await bench.written(701)) == 701


async def test_events_wait_while_other_requests_are_in_flight_but_not_without_end() -> None:
    """A Warning waits two seconds, a Normal Event half a minute, and half a second after the last of these requests."""
    busy = True
    bench = Bench(options=RecorderOptions(busy=lambda: busy))
    for regarding, type_ in ((CRON, "Normal"), (JOB, "Warning"), (JOB, "Normal")):
        bench.recorder.record(event(regarding, type_, "Same", "again"))
    running = asyncio.ensure_future(bench.recorder.run())

    async def written_after(seconds: float) -> list[str]:
        for _ in range(round(seconds / 0.05)):
            bench.clock.time += 0.05
            for _ in range(10):
                await asyncio.sleep(0)
        return [f"{call.body['type']} {call.body['involvedObject']['name']}" for call in bench.transport.calls]

    assert await written_after(1.9) == []
    assert await written_after(0.2) == ["Warning j"]
    assert await written_after(27.8) == ["Warning j"]
    assert await written_after(0.2) == ["Warning j", "Normal c", "Normal j"]
    bench.recorder.record(event(JOB, "Normal", "Other", "later"))
    await written_after(5)
    busy = False
    assert len(await written_after(0.4)) == 3
    assert len(await written_after(0.2)) == 4
    running.cancel()
    await asyncio.wait([running])
