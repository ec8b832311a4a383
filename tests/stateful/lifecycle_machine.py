"""Random lives of jobs in a whole world: users, pods, a scheduler and accidents at random, and what must hold.

Rules only make things happen and let a moment pass, so that they overlap; `come_to_rest` repairs the network, and then
everything must be as it should. At the end it comes to rest twice: after that no time limit can change anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from volcanoio_policies.declared import Declared
from volcanoio_policies.oom_scale_up import OomScaleUp

from tests.stateful.faulty_network import Trouble
from tests.stateful.jobs_world import NAMESPACE
from tests.stateful.lifecycle_world import LifecycleWorld, Living
from tests.unit.jobs.driver import spec, task
from volcanoio.kube.errors import ApiError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod

Result = TypeVar("Result")
CONTROLLERS = ("job-controller", "pg-controller", "queue-controller", "gc-controller")
NAMES = ("one", "two")
ACTIONS = ["RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "AbortJob"]
EVENTS = ["*", "PodFailed", "PodEvicted", "TaskCompleted", "PodPending", "Unknown", "TaskFailed", "JobUpdated"]
COMMANDS = ["RestartJob", "AbortJob", "ResumeJob", "ResumeJob", "TerminateJob", "CompleteJob", "RestartPod"]
MEMORY = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}

POLICY = st.fixed_dictionaries(
    {"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)},
    optional={"timeout": st.sampled_from(["3s", "1m"])},
)
EXIT = st.fixed_dictionaries({"exitCode": st.sampled_from([1, 137]), "action": st.sampled_from(ACTIONS)})
POLICIES = st.lists(POLICY | EXIT, max_size=2)
REPLICAS = st.integers(0, 3)
MOMENTS = st.sampled_from([0.0, 0.0, 0.05, 0.5, 4.0])
"""Virtual seconds after something happened."""
JOB = st.sampled_from(NAMES)
PICK = st.integers(0, 7)


@st.composite
def specs(draw: st.DrawFn) -> Manifest:
    """Draw a Job's spec that admission accepts."""
    tasks = []
    for name in draw(st.sampled_from([("a",), ("a", "b")])):
        replicas = draw(st.integers(1, 3))
        least = draw(st.none() | st.integers(0, replicas))
        one = task(name, replicas, pod={"containers": [{"name": "c", "image": "i", "resources": MEMORY}]})
        if least is not None:
            one["minAvailable"] = least
        if draw(st.booleans()):
            one["policies"] = draw(POLICIES)
        if name == "b" and draw(st.booleans()):
            one["dependsOn"] = {"name": ["a"]}
        tasks.append(one)
    total = sum(one["replicas"] for one in tasks)
    fields: Manifest = {
        "policies": draw(POLICIES),
        "minAvailable": draw(st.integers(1, total)),
        "maxRetry": draw(st.integers(1, 3)),
        "plugins": draw(st.sampled_from([{}, {}, {"env": []}, {"svc": [], "env": []}])),
        "queue": draw(st.sampled_from(["default", "default", "default", "other"])),
    }
    if draw(st.integers(0, 3)) == 0:
        fields["minSuccess"] = draw(st.integers(1, total))
    if draw(st.integers(0, 3)) == 0:
        fields["ttlSecondsAfterFinished"] = draw(st.sampled_from([0, 2, 30]))
    return spec(*tasks, **fields)


class Lifecycle(RuleBasedStateMachine):
    """See above. `steps` and `looks` count over all examples."""

    steps = 0
    looks = 0

    def __init__(self) -> None:
        super().__init__()
        self.living = self.make()
        self.world: LifecycleWorld = self.living.world

    def make(self) -> Living:
        """The world it is about."""
        return Living(policies=(OomScaleUp(), Declared()), controllers=CONTROLLERS)

    def teardown(self) -> None:
        try:
            self.do(self.world.look_at_rest())
            self.do(asyncio.sleep(100))
            self.do(self.world.look_at_rest())
            type(self).looks += 2
        finally:
            self.living.close()

    def do(self, doing: Awaitable[Result], moment: float = 0.0) -> Result:
        """Let something happen, and time pass."""

        async def done() -> Result:
            result = await doing
            await asyncio.sleep(moment)
            return result

        result: Result = self.living.do(done())
        return result

    def happen(self, doing: Awaitable[Any], moment: float) -> None:
        """Somebody does something; what the server refuses is theirs to bear."""
        type(self).steps += 1

        async def done() -> None:
            with suppress(ApiError):
                await doing

        self.do(done(), moment)

    # Users.

    @initialize(spec=specs(), bound=st.booleans())
    def first(self, spec: Manifest, bound: bool) -> None:
        self.bound = bound
        self.submit("one", spec, 0.5)
        self.all_go_well()

    @rule(name=JOB, spec=specs(), moment=MOMENTS)
    def submit(self, name: str, spec: Manifest, moment: float) -> None:
        self.happen(self.world.submit(spec, name), moment)

    @rule(name=JOB, moment=MOMENTS)
    def delete(self, name: str, moment: float) -> None:
        self.happen(self.world.delete(kinds.JOB, name), moment)

    @rule(name=JOB, sizes=st.lists(REPLICAS, min_size=2, max_size=2), least=REPLICAS, moment=MOMENTS)
    def scale(self, name: str, sizes: list[int], least: int, moment: float) -> None:
        self.happen(self._scale(name, sizes, least), moment)

    async def _scale(self, name: str, sizes: list[int], least: int) -> None:
        manifest = await self.world.manifest(kinds.JOB, name)
        tasks = manifest["spec"]["tasks"]
        for one, replicas in zip(tasks, sizes, strict=False):
            one["replicas"] = replicas
            if "minAvailable" in one:
                one["minAvailable"] = min(one["minAvailable"], replicas)
        total = sum(one["replicas"] for one in tasks)
        await self.world.edit({"tasks": tasks, "minAvailable": max(1, min(least, total))}, name)

    @rule(name=JOB, action=st.sampled_from(COMMANDS), moment=MOMENTS)
    def command(self, name: str, action: str, moment: float) -> None:
        self.happen(self.world.command(action, name), moment)

    @rule(name=JOB, number=st.integers(0, 3), moment=MOMENTS)
    def somebody_else_writes_the_job(self, name: str, number: int, moment: float) -> None:
        """Change the job from another client, so that our next write conflicts."""
        patch = {"metadata": {"annotations": {"somebody": str(number)}}}
        self.happen(self.world.client.patch(kinds.JOB, name, patch, namespace=NAMESPACE), moment)

    @rule(queue=st.sampled_from(["default", "other"]), action=st.sampled_from(["CloseQueue", "OpenQueue", "make"]))
    def a_queue_is_made_shut_or_opened(self, queue: str, action: str) -> None:
        if action == "make":
            self.happen(self.world.user(kinds.QUEUE, {"metadata": {"name": queue}, "spec": {"weight": 1}}), 0.0)
        else:
            self.happen(self.world.command_queue(action, queue), 0.0)

    # Pods.

    @rule(moment=MOMENTS)
    def all_run(self, moment: float) -> None:
        self.happen(self.world.run_pods(bound=self.bound), moment)

    async def _some(self, pick: int, phases: tuple[str, ...]) -> Pod | None:
        pods = [pod for pod in (await self.world.pods()).values() if pod.status.phase in phases]
        return pods[pick % len(pods)] if pods else None

    async def _end(self, pick: int, phase: str, code: int, reason: str = "") -> None:
        pod = await self._some(pick, ("Pending", "Running"))
        if pod is not None:
            await self.world.end_pod(pod.metadata.name, phase, code, reason)

    @rule(pick=PICK, code=st.sampled_from([1, 3, 137]), moment=MOMENTS)
    def fail(self, pick: int, code: int, moment: float) -> None:
        self.happen(self._end(pick, "Failed", code), moment)

    @rule(pick=PICK, moment=MOMENTS)
    def be_killed_for_memory(self, pick: int, moment: float) -> None:
        self.happen(self._end(pick, "Failed", 137, "OOMKilled"), moment)

    @rule(pick=PICK, moment=MOMENTS)
    def succeed(self, pick: int, moment: float) -> None:
        self.happen(self._end(pick, "Succeeded", 0), moment)

    @rule(moment=MOMENTS)
    def all_succeed(self, moment: float) -> None:
        async def doing() -> None:
            for name, pod in (await self.world.pods()).items():
                if pod.status.phase in ("Pending", "Running"):
                    await self.world.end_pod(name, "Succeeded", 0)

        self.happen(doing(), moment)

    @rule(pick=PICK, restarts=st.integers(1, 4), moment=MOMENTS)
    def containers_are_restarted(self, pick: int, restarts: int, moment: float) -> None:
        async def doing() -> None:
            pod = await self._some(pick, ("Running",))
            if pod is not None:
                await self.world.restart_containers(pod.metadata.name, restarts)

        self.happen(doing(), moment)

    @rule(pick=PICK, moment=MOMENTS)
    def evict(self, pick: int, moment: float) -> None:
        async def doing() -> None:
            pod = await self._some(pick, ("Pending", "Running", "Succeeded", "Failed"))
            if pod is not None:
                await self.world.delete(kinds.POD, pod.metadata.name)

        self.happen(doing(), moment)

    @rule(moment=MOMENTS)
    def kubelets_are_done(self, moment: float) -> None:
        self.happen(self.world.reap(), moment)

    # The scheduler, and others.

    @rule(moment=MOMENTS)
    def admit(self, moment: float) -> None:
        self.happen(self.world.admit(), moment)

    @rule(pick=PICK, phase=st.sampled_from(["Unknown", "Running", "Inqueue", "Pending"]), moment=MOMENTS)
    def a_podgroup_enters(self, pick: int, phase: str, moment: float) -> None:
        async def doing() -> None:
            if found := await self.world.names(kinds.POD_GROUP):
                patch = {"status": {"phase": phase}}
                await self.world.client.patch(kinds.POD_GROUP, found[pick % len(found)], patch, namespace=NAMESPACE)

        self.happen(doing(), moment)

    @rule(
        pick=PICK,
        kind=st.sampled_from([kinds.POD_GROUP, kinds.CONFIG_MAP, kinds.SERVICE, kinds.COMMAND]),
        moment=MOMENTS,
    )
    def somebody_deletes(self, pick: int, kind: Any, moment: float) -> None:
        async def doing() -> None:
            found = [name for name in await self.world.names(kind) if name not in ("kube-root-ca.crt", "kubernetes")]
            if found:
                await self.world.delete(kind, found[pick % len(found)])

        self.happen(doing(), moment)

    # Accidents.

    @rule(after=st.integers(0, 6), troubles=st.lists(st.sampled_from(Trouble), min_size=1, max_size=3))
    def writes_go_wrong(self, after: int, troubles: list[Trouble]) -> None:
        self.world.network.expect(after, *troubles)

    @rule(how=st.sampled_from(["break", "expire", "late", "very late", "stop", "clear"]))
    def watches(self, how: str) -> None:
        network = self.world.network
        match how:
            case "break" | "expire":
                network.cut(expired=how == "expire")
            case "stop":
                network.block()
            case "clear":
                network.clear()
            case _:
                network.lag = 2.0 if how == "very late" else 0.1

    @rule(writes=st.integers(1, 8), after=st.booleans())
    def die_at_a_write(self, writes: int, after: bool) -> None:
        if self.world.alive:
            self.world.die_in(writes, after=after)

    @rule(moment=MOMENTS)
    def kill(self, moment: float) -> None:
        type(self).steps += 1
        self.do(self.world.kill(), moment)

    @rule(moment=MOMENTS)
    def revive(self, moment: float) -> None:
        type(self).steps += 1
        self.do(self.world.revive(), moment)

    # Time.

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.0, 10.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @rule(admit=st.booleans())
    def come_to_rest(self, admit: bool) -> None:
        type(self).looks += 1
        self.do(self.world.look_at_rest())
        if admit:
            self.do(self.world.admit())
            self.do(self.world.look_at_rest())

    @rule(name=JOB, spec=specs())
    def another_runs(self, name: str, spec: Manifest) -> None:
        self.submit(name, spec, 0.5)
        self.all_go_well()

    @rule()
    def all_go_well(self) -> None:
        type(self).steps += 1
        self.come_to_rest(admit=True)
        self.do(self.world.run_pods(bound=self.bound))
        self.come_to_rest(admit=False)

    @invariant()
    def all_is_as_it_may_be(self) -> None:
        self.world.look()
