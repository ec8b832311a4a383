"""Events about binds: one for the pods of a PodGroup that are bound together, one for each pod without PodGroup."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.scripted import Call, ManualClock, ScriptedTransport, answer
from volcanoio.framework.events import Event
from volcanoio.framework.scheduling_events import BindDone, BindRefused
from volcanoio.kube.binder import ENDING
from volcanoio.kube.event_recorder import EventRecorder
from volcanoio.kube.transport import Response
from volcanoio.model import kinds
from volcanoio.model.base import ObjectReference
from volcanoio.runtime.scheduler.dispatcher import BindReporter

GROUP = ObjectReference(api_version=kinds.POD_GROUP.api_version, kind="PodGroup", namespace="ns", name="pg", uid="g")


def bound(number: int, group: str = "ns/pg") -> BindDone:
    return BindDone(group=group, uid=f"u{number}", namespace="ns", name=f"pod-{number}", node=f"node-{number % 3}")


class Reported:
    """A reporter, and the Events that its recorder writes."""

    def __init__(self) -> None:
        async def serve(call: Call) -> Response:
            self.messages.append((call.body["involvedObject"]["name"], call.body["reason"], call.body["message"]))
            return answer({}, 201)

        self.messages: list[tuple[str, str, str]] = []
        clock = ManualClock()
        self.recorder = EventRecorder(ScriptedTransport(serve), component="volcano", clock=clock)
        self.reporter = BindReporter(
            self.recorder, clock=clock, reference_of=lambda group: GROUP if group == "ns/pg" else None
        )

    async def after(self, *events: Event) -> list[tuple[str, str, str]]:
        self.reporter(events)
        self.reporter.flush()
        running = asyncio.ensure_future(self.recorder.run())
        for _ in range(40):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        return self.messages


async def test_pods_of_a_group_that_are_bound_together_have_one_event() -> None:
    messages = await Reported().after(bound(10), bound(2), bound(1))
    text = "Successfully assigned ns/pod-1 to node-1, ns/pod-2 to node-2, ns/pod-10 to node-1"
    assert messages == [("pg", "Scheduled", text)]


async def test_many_pods_are_counted_at_the_end_of_the_message() -> None:
    ((_, _, message),) = await Reported().after(*(bound(number) for number in range(1000)))
    assert len(message) < 1024
    assert message.count(" to node-") + int(message.split()[-3]) == 1000
    assert message.endswith(" more pods")


@pytest.mark.parametrize("group", ["ns/default-scheduler:pod-1"])
async def test_a_pod_without_pod_group_has_an_event_of_its_own(group: str) -> None:
    messages = await Reported().after(bound(1, group))
    assert messages == [("pod-1", "Scheduled", "Successfully assigned ns/pod-1 to node-1")]


async def test_a_refused_bind_is_reported_on_its_pod() -> None:
    refused = BindRefused(group="ns/pg", uid="u", namespace="ns", name="pod-1", node="n", code=403, message="no")
    assert await Reported().after(refused) == [("pod-1", "FailedScheduling", "failed to bind to node n: no")]


async def test_a_group_that_is_gone_has_no_event() -> None:
    assert await Reported().after(bound(1, "ns/other")) == []


async def test_binds_that_were_left_to_the_next_process_have_no_event() -> None:
    refused = BindRefused(group="ns/pg", uid="u1", namespace="ns", name="pod-1", node="n", code=0, reason=ENDING)
    assert await Reported().after(refused) == []
