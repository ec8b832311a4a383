"""A store with watches, and the controllers' real process over it, under virtual time: to be killed at any write.

Everything between a reducer and the store is what runs in a cluster: host, policies, informers, executor, and the
embedded API server with its resourceVersions, preconditions and graceful deletion. Users, scheduler and kubelet are
the test: `submit`, `command`, `admit`, `run_pods`, `end_pod` … Nothing may wait for a thread, as making an ssh key
does: virtual time would run away.

    jobs_world.run(story)   # async def story(world: JobsWorld) -> None
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import msgspec
from volcanoio_policies.declared import Declared

from tests.soak import virtual_loop
from tests.stateful.dying_transport import DyingTransport
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.local import install_crds
from volcanoio.engine.jobs.pods.plugins import SUPPORT_KINDS
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.kube.client import Client
from volcanoio.kube.errors import NotFound
from volcanoio.kube.requests import DeleteOptions, PatchOptions
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.http.faults import Faults
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind
from volcanoio.runtime.loading.registry import Registry, discover
from volcanoio.runtime.policies.policy_set import PolicySet

Result = TypeVar("Result")
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
MOMENT, PATIENCE = 0.5, 200
"""Virtual seconds that a reaction may take, back-offs aside, and how often more is waited for."""
NAMESPACE = "default"


class LoopClock:
    """The loop's time, for processes and, as a date, for the server."""

    rate = 1.0

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()  # a journal's thread asks for the time, too

    def monotonic(self) -> float:
        return self._loop.time()

    def now(self) -> float:
        return BEGIN.timestamp() + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    idle = sleep


class ServerTime:
    """The same as a date."""

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=asyncio.get_running_loop().time())

    async def idle(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class JobsWorld:
    """One store, and one controllers' process over it after the other.

    `lives` are the connections of all processes there were, the last is the one that is alive, if any, whose inside is
    `manager`. `line` is what their connections go through.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        policies: tuple[LifecyclePolicy, ...],
        controllers: tuple[str, ...],
    ) -> None:
        self._server = server
        self._transport = InProcessTransport(server)
        self._policies, self._controllers = policies, controllers
        self._process: asyncio.Task[None] | None = None
        self.client = Client(self._transport)
        self.lives: list[DyingTransport] = []
        self.line: Transport = self._transport
        self.manager: ControllerManager | None = None

    # The process.

    async def start(self, die_at: int = 0, *, after: bool = False, waiting: bool = True) -> None:
        """Start the controllers; they die at their write number `die_at`, before or after it is carried out.

        `waiting` until they have listed all.
        """
        assert self._process is None
        life = DyingTransport(self.line, die_at, after=after)
        manager = self._manager(life)
        manager.host.adopt(PolicySet.of(self._policies, inline=True), {})  # a thread's time is not ours
        self.lives.append(life)
        self.manager = manager
        self._process = asyncio.create_task(manager.run())
        if waiting:
            await manager.synced()

    def _manager(self, life: Transport) -> ControllerManager:
        """Run the parts of one process."""
        settings = ControllerSettings(registry=plugins(), policies=self._policies, controllers=self._controllers)
        return ControllerManager(life, clock=LoopClock(), settings=settings)

    async def kill(self) -> None:
        """End the process wherever it is; what it had in flight is what it left."""
        if self._process is not None:
            self._process.cancel()
            await asyncio.wait([self._process])
            self._process = self.manager = None

    async def reset(self) -> None:
        """Start again with an empty store, which is cheaper than a new world."""
        await self.kill()
        for kind in (kinds.JOB, kinds.COMMAND, kinds.POD_GROUP, kinds.POD, *SUPPORT_KINDS):
            for obj in await self.client.list(kind, NAMESPACE):
                if obj.metadata.name != "kube-root-ca.crt":
                    with suppress(NotFound):  # it went with its owner
                        await self.client.delete(
                            kind, obj.metadata.name, namespace=NAMESPACE, options=DeleteOptions(grace=0)
                        )
        self.lives.clear()
        await self.start()

    @property
    def writes(self) -> list[str]:
        """What the process that is alive wrote."""
        return self.lives[-1].writes

    def die_in(self, writes: int, *, after: bool = False) -> None:
        """Let the process die so many writes from now."""
        life = self.lives[-1]
        life.die_at, life.after = len(life.writes) + writes, after

    async def run_until_stable(self, *, admit: bool = True) -> None:
        """Let everything react until nothing moves any more. One who died is succeeded; `admit` is the scheduler."""
        for _ in range(PATIENCE):
            before = self._server.store.revision
            await asyncio.sleep(MOMENT)
            if self.lives and self.lives[-1].died.is_set():
                await self.kill()
                await self.start()
                continue
            if admit:
                await self.admit()
            if self._server.store.revision == before:
                return
        msg = f"the world does not come to rest; last written: {self.writes[-5:]}"
        raise AssertionError(msg)

    # Users.

    async def submit(self, spec: Manifest, name: str = "job", **metadata: Any) -> None:
        """Create a Job."""
        await self._create(kinds.JOB, {"metadata": {"name": name, **metadata}, "spec": spec})

    async def edit(self, patch: Manifest, name: str = "job") -> None:
        """Merge a patch into a Job's spec."""
        await self.client.patch(kinds.JOB, name, {"spec": patch}, namespace=NAMESPACE)

    async def command(self, action: str, job: str = "job") -> None:
        """Issue a Command."""
        target = {
            "apiVersion": kinds.JOB.api_version,
            "kind": "Job",
            "name": job,
            "uid": (await self.job(job)).metadata.uid,
        }
        manifest = {"metadata": {"generateName": f"{job}-"}, "action": action, "target": target}
        await self._create(kinds.COMMAND, manifest)

    async def delete(self, kind: Kind, name: str) -> None:
        """Delete an object as kubectl does: a bound pod stays, terminating, until `reap`."""
        await self.client.delete(kind, name, namespace=NAMESPACE if kind.namespaced else "")

    # Scheduler and kubelet.

    async def admit(self) -> None:
        """Let every new PodGroup into its queue."""
        for group in await self.client.list(kinds.POD_GROUP, NAMESPACE):
            if getattr(group, "status").phase in ("", "Pending"):  # noqa: B009 - of whatever kind the list is
                patch = {"status": {"phase": "Inqueue"}}
                await self.client.patch(kinds.POD_GROUP, group.metadata.name, patch, namespace=NAMESPACE)

    async def bind(self, pod: str, node: str = "n") -> None:
        """Bind a pod, so that its deletion is graceful."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"kind": "Node", "name": node},
        }
        response = await self._transport.request("POST", path, body=msgspec.json.encode(body))
        assert response.ok, response.body

    async def run_pods(self, *, bound: bool = False) -> None:
        """Let every pending pod run, on a node if it is to be `bound`."""
        for name, pod in (await self.pods()).items():
            if pod.status.phase in ("", "Pending") and pod.metadata.deletion_timestamp is None:
                if bound and not pod.spec.node_name:
                    await self.bind(name)
                await self.end_pod(name, "Running")

    async def end_pod(self, name: str, phase: str, exit_code: int | None = None, reason: str = "") -> None:
        """Report a pod's phase, and how its container ended."""
        status: Manifest = {"phase": phase}
        if exit_code is not None:
            ended = {"exitCode": exit_code, "reason": reason, "startedAt": None, "finishedAt": None}
            state = {"terminated": ended}
            status["containerStatuses"] = [
                {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
            ]
        await self.client.patch(
            kinds.POD, name, {"status": status}, namespace=NAMESPACE, options=PatchOptions(subresource="status")
        )

    async def reap(self) -> None:
        """Remove every terminating pod, as the kubelet does."""
        for name, pod in (await self.pods()).items():
            if pod.metadata.deletion_timestamp is not None:
                await self.client.delete(kinds.POD, name, namespace=NAMESPACE, options=DeleteOptions(grace=0))

    async def come_to_rest(self, *, bound: bool = False) -> tuple[object, ...]:
        """Let kubelets end and run pods until nothing is left to do; what came of it."""
        await self.run_until_stable()
        while any(pod.metadata.deletion_timestamp is not None for pod in (await self.pods()).values()):
            await self.reap()
            await self.run_until_stable()
        await self.run_pods(bound=bound)
        await self.run_until_stable()
        return await self.outcome()

    # What there is.

    async def job(self, name: str = "job") -> Job:
        """A Job."""
        job = await self.client.get(kinds.JOB, name, NAMESPACE)
        assert isinstance(job, Job)
        return job

    async def pods(self) -> dict[str, Pod]:
        """Pods by name."""
        found = await self.client.list(kinds.POD, NAMESPACE)
        return {pod.metadata.name: pod for pod in sorted(found, key=_name) if isinstance(pod, Pod)}

    async def names(self, kind: Kind) -> list[str]:
        """Names of a kind's objects."""
        return sorted(obj.metadata.name for obj in await self.client.list(kind, NAMESPACE))

    async def outcome(self) -> tuple[object, ...]:
        """Return what must not depend on crashes: phase, counters, counts, pods, other objects."""
        status = (await self.job()).status
        pods = await self.pods()
        return (
            (status.state.phase, status.version, status.retry_count, status.state.reason),
            (status.pending, status.running, status.succeeded, status.failed, status.terminating),
            [(name, pod.status.phase, pod.metadata.annotations[names.JOB_VERSION]) for name, pod in pods.items()],
            len(await self.names(kinds.POD_GROUP)),
            await self.names(kinds.COMMAND),
            [name for name in await self.names(kinds.CONFIG_MAP) if name != "kube-root-ca.crt"],
        )

    async def _create(self, kind: Kind, manifest: Manifest) -> Manifest:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        return await self.client.create(kind, whole, namespace=NAMESPACE if kind.namespaced else "")


@cache
def plugins() -> Registry:
    """Discover the installed plugins."""
    return discover()


def _name(obj: Any) -> str:
    return str(obj.metadata.name)


@asynccontextmanager
async def world(
    *,
    policies: tuple[LifecyclePolicy, ...] | None = None,
    controllers: tuple[str, ...] = ("job-controller",),
    faults: Faults | None = None,
) -> AsyncIterator[JobsWorld]:
    """Yield a world whose controllers have started; to be used in a virtual event loop."""
    server = ApiServer(Core(Store(), ServerTime()), faults)
    async with server.running():
        made = JobsWorld(server, policies=(Declared(),) if policies is None else policies, controllers=controllers)
        await install_crds(InProcessTransport(server))
        await made._create(kinds.QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        await made.start()
        try:
            yield made
        finally:
            await made.kill()


def run(story: Callable[[JobsWorld], Awaitable[Result]], **options: Any) -> Result:
    """Live a story in a world of its own, on virtual time."""

    async def lived() -> Result:
        async with world(**options) as made:
            return await story(made)

    return virtual_loop.run(lived())
