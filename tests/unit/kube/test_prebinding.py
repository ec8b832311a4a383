"""Steps before binds: written in order, waited for, and reverted if the batch fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal, until
from tests.unit.runtime.virtual_time import VirtualClock, run_until_idle
from volcanoio.bus.event_bus import EventBus
from volcanoio.framework import effects
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, PreBindStep
from volcanoio.framework.scheduling_events import BindDone, BindRefused
from volcanoio.kube.binder import Binder, BinderOptions
from volcanoio.kube.prebinder import PreBinder, matches
from volcanoio.kube.sender import Sender
from volcanoio.kube.transport import Response
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.scheduling import PodGroup

NODE, DONE = "node-of", "done"
PATCH: Manifest = {"metadata": {"annotations": {NODE: "n1"}}}
BOUND: Manifest = {"metadata": {"annotations": {DONE: True}}, "spec": {"volumeName": True}}


class Server:
    """Claims by name, and the pods that were bound; patches of names in `refuse` get that status."""

    def __init__(self, *names: str) -> None:
        self.clock = VirtualClock()
        self.claims: dict[str, Manifest] = {
            name: {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}}
            for name in names
        }
        self.refuse: dict[str, int] = {}
        self.refuse_bind = 0
        self.pod = refusal(404, "NotFound")
        """Response to uncached reads of a pod."""
        self.left: set[str] = set()
        """Nodes that are no longer this scheduler's."""
        self.is_leading = True
        self.locked_after_read: Manifest = {}
        """What another client writes to a claim after the next read of it."""
        self.conflicts = 0
        self.are_conflicts_carried_out = False
        self.bound: list[str] = []
        self.log: list[str] = []
        self.events: list[Event] = []
        self.bus = EventBus(self.clock.now)
        self.bus.subscribe(self.events.extend)
        self.transport = ScriptedTransport(self.serve)

    async def serve(self, call: Call) -> Response:
        *_, plural, name = call.path.removesuffix("/binding").removesuffix("/status").split("/")
        if call.method == "POST" and name == "persistentvolumeclaims":
            return self.create(call.body)
        if plural == "pods" and call.method == "GET":
            return self.pod
        if plural == "pods" and self.refuse_bind:
            return refusal(self.refuse_bind, "Invalid", "no")
        if plural == "pods":
            self.bound.append(name)
            self.log.append(f"bind {name}")
            return answer({}, 201)
        claim = self.claims.get(name)
        if claim is None:
            return refusal(404, "NotFound")
        if call.method == "GET":
            read, written, self.locked_after_read = answer(claim), self.locked_after_read, {}
            if written:
                self.set(name, written)
            return read
        if call.method == "DELETE":
            self.log.append(f"delete {name}")
            return answer(self.claims.pop(name))
        if name in self.refuse:
            return refusal(self.refuse[name], "Conflict", "the object has been modified")
        if "resourceVersion" in call.body["metadata"] and self.conflicts:
            self.conflicts -= 1
            if self.are_conflicts_carried_out:
                self.set(name, call.body)
            return refusal(409, "Conflict")
        self.log.append(f"write {name}")
        self.set(name, call.body)
        return answer(self.claims[name])

    def create(self, manifest: Manifest) -> Response:
        name = manifest["metadata"]["name"]
        if name in self.claims:
            return refusal(409, "AlreadyExists", f'"{name}" already exists')
        self.log.append(f"create {name}")
        meta = {**manifest["metadata"], "uid": f"uid-{name}", "resourceVersion": "1"}
        self.claims[name] = {**manifest, "metadata": meta}
        return answer(self.claims[name], 201)

    def set(self, name: str, patch: Manifest) -> None:
        claim = effects.apply_merge_patch(deepcopy(self.claims[name]), patch)
        claim["metadata"]["resourceVersion"] = str(int(claim["metadata"]["resourceVersion"]) + 1)
        self.claims[name] = claim
        seen = msgspec.convert(claim, kinds.PVC.type)
        self.bus.publish([Observed(resource=kinds.PVC.resource, change=Change.CHANGED, object=seen)])

    def complete(self, name: str) -> None:
        """The claim is bound."""
        self.set(name, {"metadata": {"annotations": {DONE: "yes"}}, "spec": {"volumeName": "v"}})

    def annotations(self, name: str) -> Manifest:
        found: Manifest = self.claims[name]["metadata"].get("annotations", {})
        return found

    @asynccontextmanager
    async def binder(self) -> AsyncIterator[Binder]:
        fence = partial(getattr, self, "is_leading")
        prebinder = PreBinder(Sender(self.transport, clock=self.clock, fence=fence), clock=self.clock)
        self.bus.subscribe(prebinder.seen)
        options = BinderOptions(prebinder=prebinder, may_use=lambda node: node not in self.left)
        async with Binder(self.transport, self.bus.publish, clock=self.clock, fence=fence, options=options) as binder:
            yield binder

    def outcomes(self) -> dict[str, str]:
        words = {}
        for event in self.events:
            if isinstance(event, BindDone):
                words[event.name] = "done"
            elif isinstance(event, BindRefused):
                words[event.name] = event.message
        return words


def step(name: str, **more: Any) -> PreBindStep:
    given: dict[str, Any] = {
        "patch": PATCH,
        "undo": {"metadata": {"annotations": {NODE: None}}},
        "until": BOUND,
        "keeps": BOUND,
        "holds": PATCH,
        "timeout": 60.0,
        **more,
    }
    return PreBindStep(resource=kinds.PVC.resource, namespace="ns", name=name, uid=f"uid-{name}", **given)


def lock(name: str, value: str = "n1") -> PreBindStep:
    """Return a step that writes only if the annotation is missing."""
    none: Manifest = {"metadata": {"annotations": {NODE: None}}}
    patch: Manifest = {"metadata": {"annotations": {NODE: value}}}
    return PreBindStep(
        resource=kinds.PVC.resource, namespace="ns", name=name, uid=f"uid-{name}", before=none, patch=patch, undo=none
    )


def batch(*steps: PreBindStep | None) -> BindBatch:
    binds = tuple(
        BindRequest(uid=f"u{at}", namespace="ns", name=f"p{at}", node="n1", prebind=(each,) if each else ())
        for at, each in enumerate(steps)
    )
    return BindBatch(group="ns/g", cycle=1, binds=binds)


async def test_all_steps_of_a_batch_come_before_its_first_bind() -> None:
    server = Server("a", "b")
    async with server.binder() as binder:
        binder.submit(batch(step("a"), step("b"), None))
        await until(lambda: len(server.log) == 2)
        server.complete("a")
        await run_until_idle()
        assert server.bound == []
        server.complete("b")
        await until(lambda: not binder.unfinished)
    assert sorted(server.log[:2]) == ["write a", "write b"]
    assert server.outcomes() == {"p0": "done", "p1": "done", "p2": "done"}


async def test_a_refused_write_refuses_the_batch_and_reverts_the_others() -> None:
    server = Server("a", "b")
    server.refuse["b"] = 409
    async with server.binder() as binder:
        binder.submit(batch(step("a"), step("b")))
        await until(lambda: not binder.unfinished)
    text = 'execute preBind for pod ns/p1 failed: writing PersistentVolumeClaim "ns/b": the object has been modified'
    assert server.outcomes() == {"p0": text, "p1": text}
    assert server.bound == []
    assert server.annotations("a") == {}


async def test_a_timeout_refuses_the_batch_and_keeps_reached_states() -> None:
    server = Server("a", "b")
    async with server.binder() as binder:
        binder.submit(batch(step("a"), step("b")))
        await until(lambda: len(server.log) == 2)
        server.complete("a")
        await server.clock.advance(59.0)
        assert binder.unfinished == 2
        await server.clock.advance(2.0)
        await until(lambda: not binder.unfinished)
    wanted = 'pod ns/p1 failed: timed out waiting for PersistentVolumeClaim "ns/b" after 60 seconds'
    assert wanted in server.outcomes()["p0"]
    assert server.annotations("a") == {NODE: "n1", DONE: "yes"}
    assert server.annotations("b") == {}


LOSSES: dict[str, Any] = {
    "is gone": lambda server: server.claims.pop("a"),
    "was replaced by another of its name": lambda server: server.claims["a"]["metadata"].update(uid="new"),
    "no longer has what was written to it": lambda server: server.set("a", {"metadata": {"annotations": None}}),
}


@pytest.mark.parametrize("why", LOSSES)
async def test_a_step_whose_object_is_lost_fails_at_once(why: str) -> None:
    server = Server("a", "b")
    async with server.binder() as binder:
        binder.submit(batch(step("a"), step("b")))
        await until(lambda: len(server.log) == 2)
        LOSSES[why](server)
        await server.clock.advance(16.0)  # an object that is gone shows when it is read again
        await until(lambda: not binder.unfinished)
    assert why in server.outcomes()["p0"]
    assert server.annotations("b") == {}


async def test_a_step_fails_at_once_with_the_error_of_the_pattern_that_its_object_matches() -> None:
    server = Server("a")
    attached = [{"device": "g", "conditions": [{"type": "Attached", "status": "True"}]}]
    failed = {"spec": {"devices": [{"device": "g", "conditions": [{"type": "Failed"}]}]}}
    async with server.binder() as binder:
        binder.submit(batch(step("a", until={"spec": {"devices": attached}}, fails={"device g failed": failed})))
        await until(lambda: len(server.log) == 1)
        server.set("a", {"spec": {"devices": [{"device": "g", "conditions": [{"type": "Failed", "status": "True"}]}]}})
        await until(lambda: not binder.unfinished)
    wanted = 'execute preBind for pod ns/p0 failed: PersistentVolumeClaim "ns/a": device g failed'
    assert server.outcomes() == {"p0": wanted}
    assert server.annotations("a") == {}


OWNED: Manifest = {"metadata": {"ownerReferences": [{"uid": "u0"}]}}


def making(name: str, **more: Any) -> PreBindStep:
    """A step that creates a claim of the first pod."""
    manifest = {"metadata": {"name": name, "namespace": "ns", **OWNED["metadata"]}}
    return step(name, **{"patch": {}, "undo": {}, "until": {}, "keeps": {}, "create": manifest, "holds": OWNED, **more})


async def test_a_created_object_is_deleted_if_the_batch_fails() -> None:
    server = Server("b")
    server.refuse["b"] = 409
    async with server.binder() as binder:
        binder.submit(batch(msgspec.structs.replace(making("new"), uid=""), step("b")))
        await until(lambda: not binder.unfinished)
    assert server.log == ["create new", "delete new"]
    assert server.claims.keys() == {"b"}


@pytest.mark.parametrize("owner", ["u0", "other"])
async def test_an_object_that_exists_is_used_if_it_is_the_pods(owner: str) -> None:
    server = Server("a")
    server.claims["a"]["metadata"]["ownerReferences"] = [{"uid": owner}]
    async with server.binder() as binder:
        binder.submit(batch(making("a")))
        await until(lambda: not binder.unfinished)
    text = 'execute preBind for pod ns/p0 failed: creating PersistentVolumeClaim "ns/a": "a" already exists'
    assert server.outcomes() == {"p0": "done" if owner == "u0" else text}
    assert server.claims.keys() == {"a"}


async def test_a_revert_yields_to_other_writers() -> None:
    server = Server("a", "b")
    server.refuse["b"] = 409
    server.conflicts = 2
    async with server.binder() as binder:
        binder.submit(batch(step("a"), step("b")))
        await until(lambda: not binder.unfinished)
    assert server.annotations("a") == {}


async def test_a_step_without_a_patch_writes_nothing() -> None:
    server = Server("a")
    async with server.binder() as binder:
        binder.submit(batch(step("a", patch={}, undo={}, holds={})))
        await run_until_idle()
        server.complete("a")
        await until(lambda: not binder.unfinished)
    assert server.log == ["bind p0"]


async def test_what_a_later_step_wrote_is_reverted_by_a_step_without_a_patch() -> None:
    """As for device claims: the reservation is removed first, then the allocation that was written with it."""
    server = Server("a", "b")
    server.refuse["b"] = 409
    deallocate = step("a", patch={}, until={}, holds=PATCH, keeps={}, undo={"metadata": {"annotations": {NODE: None}}})
    allocate = step("a", until={}, holds={}, keeps={}, undo={"metadata": {"annotations": {"more": "reverted"}}})
    async with server.binder() as binder:
        binds = (
            BindRequest(uid="u0", namespace="ns", name="p0", node="n1", prebind=(deallocate, allocate)),
            BindRequest(uid="u1", namespace="ns", name="p1", node="n1", prebind=(step("b"),)),
        )
        binder.submit(BindBatch(group="ns/g", cycle=1, binds=binds))
        await until(lambda: not binder.unfinished)
    assert server.annotations("a") == {"more": "reverted"}
    assert server.log == ["write a"] * 3


async def test_patches_go_to_the_subresource_with_their_type() -> None:
    server = Server("a")
    reserve = step("a", subresource="status", patch_type=effects.PatchType.STRATEGIC, until={}, holds={})
    async with server.binder() as binder:
        binder.submit(batch(reserve))
        await until(lambda: not binder.unfinished)
    (call,) = [call for call in server.transport.calls if call.method == "PATCH"]
    assert call.path.endswith("/persistentvolumeclaims/a/status")
    assert call.content_type == "application/strategic-merge-patch+json"


async def test_a_refused_bind_reverts_its_steps_before_it_is_reported() -> None:
    server = Server("a")
    server.refuse_bind = 422
    async with server.binder() as binder:
        binder.submit(batch(step("a", until={}, keeps={})))
        await until(lambda: not binder.unfinished)
    assert server.annotations("a") == {}
    assert server.outcomes() == {"p0": "no"}


async def test_a_bind_whose_node_left_reverts_its_steps() -> None:
    server = Server("a", "b")
    server.left = {"n1"}
    async with server.binder() as binder:
        binder.submit(batch(step("a", until={}, keeps={}), lock("b")))
        await until(lambda: not binder.unfinished)
    assert (server.annotations("a"), server.annotations("b")) == ({}, {})
    assert server.outcomes() == dict.fromkeys(("p0", "p1"), "the node is no longer one of this scheduler's")


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (refusal(404, "NotFound"), "the pod is gone"),
        (answer({"metadata": {"uid": "u0"}, "spec": {"nodeName": "n2"}}), "the pod is bound to another node"),
    ],
)
async def test_a_bind_that_is_found_refused_after_an_unknown_outcome_reverts_its_steps(
    pod: Response, message: str
) -> None:
    server = Server("a", "b")
    server.refuse_bind, server.pod = 503, pod
    steps = (step("a", until={}, keeps={}), lock("b"))
    async with server.binder() as binder:
        bind = BindRequest(uid="u0", namespace="ns", name="p0", node="n1", prebind=steps)
        binder.submit(BindBatch(group="ns/g", cycle=1, binds=(bind,)))
        await run_until_idle()
        assert server.annotations("b") == {NODE: "n1"}, "nothing is reverted while the outcome is unknown"
        await server.clock.advance(10.0)
        await until(lambda: not binder.unfinished)
    assert (server.annotations("a"), server.annotations("b")) == ({}, {})
    assert server.outcomes() == {"p0": message}


async def test_a_bind_that_is_found_done_after_an_unknown_outcome_keeps_its_steps() -> None:
    server = Server("a")
    server.refuse_bind = 503
    server.pod = answer({"metadata": {"uid": "u0"}, "spec": {"nodeName": "n1"}})
    async with server.binder() as binder:
        binder.submit(batch(lock("a")))
        await server.clock.advance(10.0)
        await until(lambda: not binder.unfinished)
    assert server.annotations("a") == {NODE: "n1"}
    assert server.outcomes() == {"p0": "done"}


async def test_after_the_lease_is_lost_a_bind_is_refused_and_what_its_steps_wrote_stays() -> None:
    server = Server("a")
    async with server.binder() as binder:
        binder.submit(batch(step("a", keeps={})))
        await until(lambda: server.log)
        server.is_leading = False
        server.complete("a")
        await until(lambda: not binder.unfinished)
    assert server.log == ["write a"]
    assert server.outcomes() == {"p0": "this process may not bind now"}


async def test_leaving_ends_waiting_steps() -> None:
    server = Server("a")
    async with server.binder() as binder:
        binder.submit(batch(step("a")))
        await until(lambda: server.log)
    await asyncio.sleep(0)
    assert server.outcomes() == {}


async def test_at_the_end_a_batch_whose_steps_are_not_done_is_refused() -> None:
    server = Server("a")
    async with server.binder() as binder:
        binder.submit(batch(step("a"), None))
        await until(lambda: server.log)
        await binder.drain()
        server.complete("a")
        await run_until_idle()
    assert server.outcomes() == {"p0": "this process ends", "p1": "this process ends"}
    assert server.log == ["write a"]


@pytest.mark.parametrize(
    ("value", "pattern", "expected"),
    [
        ({}, {}, True),
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": {"b": "x"}}, {"a": {"b": True}}, True),
        ({"a": {"b": ""}}, {"a": {"b": True}}, False),
        ({}, {"a": {"b": True}}, False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": [{"b": 1, "c": 2}, {"b": 3}]}, {"a": [{"b": 3}, {"c": 2}]}, True),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1}, {"b": 2}]}, False),
        ({"a": [{"b": ["x"]}]}, {"a": ({"b": ("x",)},)}, True),
        (None, {"a": 1}, False),
    ],
)
def test_patterns(value: Any, pattern: Any, expected: bool) -> None:
    assert matches(value, pattern) is expected


class GroupServer:
    """A PodGroup as it is stored, and the pods that were bound."""

    def __init__(self, stored: Manifest | None) -> None:
        self.clock = VirtualClock()
        self.stored = stored
        self.bound: list[str] = []
        self.events: list[Event] = []
        self.failures = 0

    async def serve(self, call: Call) -> Response:
        if call.path.endswith("/binding"):
            self.bound.append(call.path.split("/")[-2])
            return answer({}, 201)
        assert (call.method, call.query) == ("GET", {}), "an uncached read"
        if self.failures:
            self.failures -= 1
            return refusal(503, "ServiceUnavailable")
        return refusal(404, "NotFound") if self.stored is None else answer(self.stored)

    async def submit(self, known: Manifest) -> list[Event]:
        """Bind a gang of two that was decided with `known`; returns the outcomes."""
        group = msgspec.convert(known, kinds.POD_GROUP.type)
        assert isinstance(group, PodGroup)
        bus = EventBus(self.clock.now)
        bus.subscribe(self.events.extend)
        options = BinderOptions(group_of={"ns/g": group}.get)
        async with Binder(ScriptedTransport(self.serve), bus.publish, clock=self.clock, options=options) as binder:
            binder.submit(batch(None, None))
            while binder.unfinished:
                await self.clock.advance(1.0)
        return self.events


def pod_group(minimum: int, version: str = "5", uid: str = "g") -> Manifest:
    metadata = {"name": "g", "namespace": "ns", "uid": uid, "resourceVersion": version}
    return {"metadata": metadata, "spec": {"minMember": minimum}, "status": {"phase": "Inqueue"}}


async def test_a_gang_is_bound_if_its_stored_pod_group_has_the_known_spec() -> None:
    server = GroupServer({**pod_group(2, version="9"), "status": {"phase": "Running"}})
    server.failures = 2
    outcomes = await server.submit(pod_group(2))
    assert all(isinstance(event, BindDone) for event in outcomes)
    assert server.bound == ["p0", "p1"]


@pytest.mark.parametrize(
    ("stored", "code", "message"),
    [
        (
            pod_group(10, version="9"),
            409,
            'PodGroup "ns/g" was changed, and the decision was made without that change',
        ),
        (pod_group(2, uid="other"), 404, 'PodGroup "ns/g" was replaced by another of its name'),
        (None, 404, 'PodGroup "ns/g" is gone'),
    ],
    ids=["a larger minimum", "another PodGroup", "none"],
)
async def test_no_pod_is_bound_by_an_outdated_pod_group(stored: Manifest | None, code: int, message: str) -> None:
    """volcano-sh/volcano#6010: the change was stored before the pods, but its watch event comes after theirs."""
    server = GroupServer(stored)
    outcomes = await server.submit(pod_group(2))
    assert server.bound == []
    refused = [event for event in outcomes if isinstance(event, BindRefused)]
    assert [(event.code, event.reason, event.message) for event in refused] == [(code, "PodGroupChanged", message)] * 2


async def test_a_pod_group_that_cannot_be_read_refuses_the_gang_and_ends_nothing() -> None:
    server = GroupServer({**pod_group(2), "spec": "none"})
    outcomes = await server.submit(pod_group(2))
    assert server.bound == []
    assert all(isinstance(event, BindRefused) and "cannot be decoded" in event.message for event in outcomes)


async def test_a_lock_is_written_only_where_there_is_none_whatever_else_changes() -> None:
    server = Server("a")
    server.conflicts = 2
    async with server.binder() as binder:
        binder.submit(batch(lock("a")))
        await until(lambda: not binder.unfinished)
        binder.submit(batch(lock("a", "n2")))
        await until(lambda: not binder.unfinished)
    assert server.log == ["write a", "bind p0"]
    assert server.annotations("a") == {NODE: "n1"}
    failure = 'execute preBind for pod ns/p0 failed: PersistentVolumeClaim "ns/a" was changed by another client'
    assert [event.message for event in server.events if isinstance(event, BindRefused)] == [failure]


async def test_a_lock_that_an_attempt_without_response_wrote_is_kept() -> None:
    """The sender repeats a write whose response was lost; the repetition gets a conflict."""
    server = Server("a")
    server.conflicts, server.are_conflicts_carried_out = 1, True
    async with server.binder() as binder:
        binder.submit(batch(lock("a")))
        await until(lambda: not binder.unfinished)
    assert server.outcomes() == {"p0": "done"}


async def test_a_lock_is_released_when_another_step_of_the_batch_fails() -> None:
    server = Server("a", "b")
    server.refuse["b"] = 422
    async with server.binder() as binder:
        binder.submit(batch(lock("a"), step("b")))
        await until(lambda: not binder.unfinished)
    assert server.annotations("a") == {}


async def test_an_expired_lock_is_replaced_by_the_first_of_several_binds() -> None:
    server = Server("a")
    expired: Manifest = {"metadata": {"annotations": {NODE: "old"}}}
    server.set("a", expired)
    taken = msgspec.structs.replace(lock("a"), before=expired)
    async with server.binder() as binder:
        binder.submit(batch(taken, taken))
        await until(partial(has_bound, server, 1))
        server.set("a", {"metadata": {"annotations": {NODE: None}}})
        await until(lambda: not binder.unfinished)
    assert server.outcomes() == {"p0": "done", "p1": "done"}


def same_lock(count: int, claim: str = "volume", value: str = "n1") -> BindBatch:
    """Return a batch whose binds need the same lock; the last one also has a claim."""
    binds = [
        BindRequest(
            uid=f"u{at}", namespace="ns", name=f"p{at}", node="n1", prebind=(lock("a", value),) if at + 1 < count else (
                lock("a", value), step(claim, until={}, keeps={}),
            ),
        )
        for at in range(count)
    ]  # fmt: skip
    return BindBatch(group="ns/g", cycle=1, binds=tuple(binds))


def has_bound(server: Server, number: int) -> bool:
    return len(server.bound) == number


async def test_binds_that_need_the_same_lock_follow_one_another() -> None:
    server = Server("a", "volume")
    async with server.binder() as binder:
        binder.submit(same_lock(3))
        for number in range(1, 4):
            await until(partial(has_bound, server, number))
            await run_until_idle()
            assert has_bound(server, number), "the next one waits for the lock"
            server.set("a", {"metadata": {"annotations": {NODE: None}}})
        await until(lambda: not binder.unfinished)
    assert server.log.index("write volume") < server.log.index("bind p0"), "other steps come before the first bind"


async def test_binds_whose_lock_is_not_released_are_refused() -> None:
    server = Server("a", "volume")
    async with server.binder() as binder:
        binder.submit(same_lock(3))
        await until(lambda: server.bound == ["p0"])
        await server.clock.advance(700.0)
        await until(lambda: not binder.unfinished)
    reason = (
        'execute preBind for pod ns/p1 failed: timed out waiting for PersistentVolumeClaim "ns/a" after 600 seconds'
    )
    assert server.outcomes() == {"p0": "done", "p1": reason, "p2": reason}
    assert server.annotations("volume") == {}, "what its other steps wrote is reverted"


FREE: Manifest = {"metadata": {"annotations": {NODE: None}}}


async def test_a_lock_that_another_client_takes_first_is_waited_for_again() -> None:
    server = Server("a", "volume")
    async with server.binder() as binder:
        binder.submit(same_lock(2))
        await until(partial(has_bound, server, 1))
        server.locked_after_read = {"metadata": {"annotations": {NODE: "of-another-scheduler"}}}
        server.set("a", FREE)
        await run_until_idle()
        assert server.annotations("a") == {NODE: "of-another-scheduler"}
        server.set("a", FREE)
        await until(lambda: not binder.unfinished)
    assert server.outcomes() == {"p0": "done", "p1": "done"}
    assert server.annotations("a") == {NODE: "n1"}


async def test_a_lock_is_waited_for_until_one_deadline_however_often_others_take_it() -> None:
    server = Server("a", "volume")
    async with server.binder() as binder:
        binder.submit(same_lock(2))
        await until(partial(has_bound, server, 1))
        await server.clock.advance(400.0)
        server.locked_after_read = {"metadata": {"annotations": {NODE: "of-another-scheduler"}}}
        server.set("a", FREE)
        await server.clock.advance(190.0)
        assert binder.unfinished == 1
        await server.clock.advance(20.0)
        await until(lambda: not binder.unfinished)
    assert "timed out" in server.outcomes()["p1"]
    assert "after 600 seconds" in server.outcomes()["p1"]


@pytest.mark.parametrize("refused", [False, True])
async def test_a_lock_has_the_time_of_its_write(*, refused: bool) -> None:
    """Else the third pod of a gang may write a lock that is five minutes old, which other schedulers ignore."""
    server = Server("a", "volume")
    async with server.binder() as binder:
        binder.submit(same_lock(2, value="1970-01-01T00:16:40Z,ns,p"))
        await until(partial(has_bound, server, 1))
        assert server.annotations("a") == {NODE: "1970-01-01T00:16:40Z,ns,p"}
        await server.clock.advance(299.0)
        server.refuse_bind = 422 if refused else 0
        server.set("a", FREE)
        await until(lambda: not binder.unfinished)
    assert server.annotations("a") == ({} if refused else {NODE: "1970-01-01T00:21:39Z,ns,p"})


async def test_a_process_that_ends_refuses_the_binds_that_wait_for_a_lock() -> None:
    server = Server("a", "volume")
    async with server.binder() as binder:
        binder.submit(same_lock(2))
        await until(lambda: server.bound == ["p0"])
        await binder.drain()
        assert not binder.unfinished
    assert server.outcomes() == {"p0": "done", "p1": "this process ends"}
