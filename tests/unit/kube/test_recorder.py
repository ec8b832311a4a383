"""Events are counted, not repeated, bounded, and never anybody's problem."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.unit.kube.scripted import Call, ManualClock, ScriptedTransport, answer, refusal, until
from volcanoio.kube.recorder import EventRecorder
from volcanoio.kube.transport import Response, TransportError
from volcanoio.model.base import ObjectReference

JOB = ObjectReference(kind="Job", namespace="ns", name="j", uid="1")
QUEUE = ObjectReference(kind="Queue", name="q", uid="2")


class Bench:
    def __init__(self, answers: Sequence[Response | TransportError] = ()) -> None:
        self.answers = list(answers)
        self.clock = ManualClock()
        self.transport = ScriptedTransport(self.serve)
        self.recorder = EventRecorder(self.transport, component="volcano", clock=self.clock)

    async def serve(self, call: Call) -> Response:
        result = self.answers.pop(0) if self.answers else answer({}, 201)
        if isinstance(result, TransportError):
            raise result
        return result

    async def written(self, count: int) -> list[Call]:
        running = asyncio.ensure_future(self.recorder.run())
        await until(lambda: len(self.transport.calls) >= count)
        for _ in range(50):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        return self.transport.calls


async def test_an_event_says_what_kubernetes_expects() -> None:
    bench = Bench()
    bench.recorder.record(JOB, "Warning", "Bad", "went wrong")
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
    bench.recorder.record(QUEUE, "Normal", "Opened", "open")
    (call,) = await bench.written(1)
    assert call.path == "/api/v1/namespaces/default/events"


async def test_equal_events_are_one_with_a_count() -> None:
    bench = Bench()
    for _ in range(3):
        bench.recorder.record(JOB, "Normal", "Same", "again")
    calls = await bench.written(1)
    assert [call.body["count"] for call in calls] == [3]
    bench.clock.time += 60
    bench.recorder.record(JOB, "Normal", "Same", "again")
    create, patch = await bench.written(2)
    assert patch.method == "PATCH"
    assert patch.path.endswith(create.body["metadata"]["name"])
    assert patch.body == {"count": 4, "lastTimestamp": "1970-01-12T13:47:40Z"}


async def test_a_failed_one_is_not_retried_but_the_next_is_a_new_event() -> None:
    bench = Bench([TransportError("down"), refusal(404, "NotFound")])
    bench.recorder.record(JOB, "Normal", "Same", "again")
    await bench.written(1)
    bench.recorder.record(JOB, "Normal", "Same", "again")
    first, second = await bench.written(2)
    assert (first.method, second.method) == ("POST", "POST")


async def test_the_rate_of_one_object_is_bounded() -> None:
    bench = Bench()
    for number in range(40):
        bench.recorder.record(JOB, "Normal", "Noise", str(number))
    bench.recorder.record(QUEUE, "Normal", "Opened", "open")
    assert len(await bench.written(26)) == 26
    bench.clock.time += 301
    bench.recorder.record(JOB, "Normal", "Noise", "later")
    assert len(await bench.written(27)) == 27
