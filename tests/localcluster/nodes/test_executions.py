"""Containers that a runtime carries out, with a runtime that does what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.localcluster.nodes.cluster import PODS, Cluster, cluster
from volcanoio.localcluster.nodes.addresses import PodAddresses
from volcanoio.localcluster.nodes.container_runtime import Exit, StartError, StartOrder
from volcanoio.model import names
from volcanoio.model.core import Pod


@dataclass
class Scripted:
    """A run that ends when the test, or a signal it obeys, says so."""

    order: StartOrder
    ended: asyncio.Future[Exit]
    signals: list[str] = field(default_factory=list)
    obedient: bool = True

    async def wait(self) -> Exit:
        return await self.ended

    def terminate(self) -> None:
        self.signals.append("TERM")
        if self.obedient:
            self.end(Exit(0))

    def kill(self) -> None:
        self.signals.append("KILL")
        self.end(Exit(137))

    def end(self, how: Exit) -> None:
        if not self.ended.done():
            self.ended.set_result(how)


class ScriptedRuntime:
    """Remembers its orders. `refuses` is what it raises instead of starting."""

    name = "scripted"

    def __init__(self) -> None:
        self.addresses = PodAddresses("127.1")
        self.runs: list[Scripted] = []
        self.forgotten: list[str] = []
        self.refuses = ""
        self.obedient = True
        self.objections: dict[str, str] = {}

    def objection(self, pod: Pod, container: str) -> str:
        return self.objections.get(container, "")

    async def start(self, order: StartOrder) -> Scripted:
        if self.refuses:
            raise StartError(self.refuses)
        run = Scripted(order, asyncio.get_running_loop().create_future(), obedient=self.obedient)
        self.runs.append(run)
        return run

    async def forget(self, pod: Pod) -> None:
        self.forgotten.append(pod.metadata.name)

    async def read(self, *_: Any) -> AsyncIterator[list[bytes]]:
        yield []


def carried(runtime: ScriptedRuntime) -> dict[str, Any]:
    return {"runtimes": {"scripted": runtime}, "default_runtime": "scripted"}


def state(api: Cluster, name: str) -> dict[str, Any]:
    pod = api.pod(name)
    assert pod is not None
    found: dict[str, Any] = pod["status"]["containerStatuses"][0]
    return found


async def test_a_run_follows_the_runtime() -> None:
    runtime = ScriptedRuntime()
    async with cluster() as api, api.nodes(**carried(runtime)) as fleet:
        await api.submit("p")
        await api.until(lambda: api.phase("p") == "Running")
        assert fleet.executions.active == 1
        pod = api.pod("p")
        assert pod is not None
        assert pod["status"]["podIP"].startswith("127.1.")
        assert state(api, "p")["containerID"].startswith("scripted://")
        await api.clock.advance(3600)  # however long it takes
        assert api.phase("p") == "Running"
        runtime.runs[0].end(Exit(3, "", "no luck"))
        await api.until(lambda: api.phase("p") == "Failed")
        ended = state(api, "p")["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "no luck")
        assert fleet.executions.active == 0
        await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await api.until(lambda: runtime.forgotten == ["p"])


async def test_restarts_are_new_orders_after_the_back_off() -> None:
    runtime = ScriptedRuntime()
    async with cluster() as api, api.nodes(**carried(runtime)):
        await api.submit("p", restartPolicy="OnFailure")
        await api.until(lambda: len(runtime.runs) == 1)
        runtime.runs[0].end(Exit(1))
        await api.until(lambda: len(runtime.runs) == 2)
        runtime.runs[1].end(Exit(1))
        await api.clock.advance(9)
        assert [run.order.attempt for run in runtime.runs] == [0, 1]
        await api.clock.advance(2)
        assert [run.order.attempt for run in runtime.runs] == [0, 1, 2]


async def test_a_deletion_terminates_then_kills_after_the_grace_period() -> None:
    runtime = ScriptedRuntime()
    runtime.obedient = False
    async with cluster() as api, api.nodes(**carried(runtime)):
        await api.submit("p", terminationGracePeriodSeconds=10)
        await api.until(lambda: api.phase("p") == "Running")
        await api.call("DELETE", f"{PODS}/p")
        await api.clock.advance(9)
        assert runtime.runs[0].signals == ["TERM"]
        assert api.phase("p") == "Running"
        await api.until(lambda: api.phase("p") == "gone")
        assert runtime.runs[0].signals == ["TERM", "KILL"]
        assert runtime.forgotten == ["p"]


async def test_pods_that_cannot_start_fail_with_the_reason() -> None:
    runtime = ScriptedRuntime()
    runtime.refuses = "no such file: train.py"
    async with cluster() as api, api.nodes(**carried(runtime)):
        await api.submit("p")
        await api.until(lambda: api.phase("p") == "Failed")
        ended = state(api, "p")["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert ended["message"] == "no such file: train.py"


async def test_a_pod_deleted_by_force_is_killed() -> None:
    runtime = ScriptedRuntime()
    async with cluster() as api, api.nodes(**carried(runtime)):
        await api.submit("p")
        await api.until(lambda: len(runtime.runs) == 1)
        await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await api.until(lambda: runtime.forgotten == ["p"])
        assert runtime.runs[0].signals[-1] == "KILL"


async def test_pods_are_simulated_on_request_or_if_they_cannot_run() -> None:
    runtime = ScriptedRuntime()
    runtime.objections = {"main": "image i has no command here"}
    async with cluster() as api, api.nodes(**carried(runtime)):
        await api.submit("asked", annotations={names.RUNTIME: "sim"})
        await api.submit("cannot")
        await api.until(lambda: api.phase("asked") == api.phase("cannot") == "Succeeded")
        assert runtime.runs == []
        assert "Simulated" in api.reported("cannot")
        assert "Simulated" not in api.reported("asked")


async def test_a_runtime_that_is_not_there_is_named() -> None:
    async with cluster() as api, api.nodes():
        await api.submit("p", annotations={names.RUNTIME: "process"})
        await api.clock.advance(10)
        waiting = state(api, "p")["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert "'process' is not here; this cluster has sim" in waiting["message"]


async def test_runs_are_lost_with_the_server_process() -> None:
    runtime, again = ScriptedRuntime(), ScriptedRuntime()
    async with cluster() as api:
        async with api.nodes(**carried(runtime)):
            await api.submit("once")
            await api.submit("always", restartPolicy="Always")
            await api.until(lambda: api.phase("once") == api.phase("always") == "Running")
        assert [run.signals for run in runtime.runs] == [["KILL"], ["KILL"]]
        async with api.nodes(**carried(again)):
            await api.until(lambda: api.phase("once") == "Failed")
            assert state(api, "once")["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
            await api.until(lambda: [run.order.pod.metadata.name for run in again.runs] == ["always"])
