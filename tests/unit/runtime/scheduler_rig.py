"""The scheduler actor over a bus, with an API server that says yes: binds come back as watch events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from tests.scenario.scheduling.harness import actions, decoded, plugins
from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from tests.unit.runtime.virtual_time import VirtualClock, run_until_idle
from volcanoio.bus.event_bus import Batch, EventBus
from volcanoio.engine.scheduling.cluster.state import REQUIRED_RESOURCES
from volcanoio.engine.scheduling.config.profile import WATCHABLE
from volcanoio.framework.effects import Patch, Stages
from volcanoio.framework.events import Change, EffectSucceeded, Event, Observed, Relisting, Synced
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.framework.scheduling_events import BindDone, BindRefused, ConfigurationChanged, CycleClosed, CycleOpened
from volcanoio.kube.client import Client
from volcanoio.kube.transport import Response
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.runtime.scheduler.dispatcher import Writers
from volcanoio.runtime.scheduler.scheduler import Scheduler, SchedulerOptions
from volcanoio.runtime.scheduler.setup import PluginCatalog


class StillInformers:
    """Informers that are asked for and see nothing."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def informer(self, kind: kinds.Kind, *, label_selector: str = "", field_selector: str = "") -> object:
        self.asked.append(kind.resource)
        return None

    def forget(self, kind: kinds.Kind) -> None:
        self.asked.remove(kind.resource)

    async def run(self) -> None:
        await anyio.sleep_forever()


class Rig:
    """`events` is all that was on the bus, `batches` what the binder was given."""

    def __init__(self, *, more_plugins: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self.clock = VirtualClock()
        self.bus = EventBus(self.clock.now)
        self.events: list[Event] = []
        self.batches: list[BindBatch] = []
        self.patches: list[Patch] = []
        self.refuse: Callable[[BindBatch], bool] = lambda _: False
        self.informers = StillInformers()
        self.transport = ScriptedTransport(self._answer)
        self.objects: dict[str, ApiObject] = {}
        self.revision = 0
        self.bus.subscribe(self._remember)
        self.scheduler = Scheduler(
            bus=self.bus,
            informers=self.informers,
            clock=settings.pop("clock", self.clock),
            known=settings.pop("known", None)
            or PluginCatalog(plugins={**plugins(), **(more_plugins or {})}, actions=actions()),
            options=SchedulerOptions(**settings),
        )

    @asynccontextmanager
    async def running(self, *objects: Manifest, synced: bool = True) -> AsyncIterator[None]:
        """Run the actor; objects are listed first."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.scheduler.run, Writers(self, self, self, Client(self.transport)))
            await run_until_idle()
            self.put(*objects)
            if synced:
                self.sync()
            await run_until_idle()
            yield
            tasks.cancel_scope.cancel()

    def put(self, *objects: Manifest | ApiObject) -> None:
        """Objects appear or change."""
        self.bus.publish([self._observed(obj) for obj in objects])

    def gone(self, kind: kinds.Kind, key: str) -> Observed:
        """Return the event that an object is gone."""
        return Observed(resource=kind.resource, change=Change.GONE, object=self.objects.pop(f"{kind.resource}/{key}"))

    def sync(self, resources: Iterable[str] = (*REQUIRED_RESOURCES, *sorted(WATCHABLE))) -> None:
        """Publish that all of these are listed."""
        self.bus.publish([Synced(resource=resource) for resource in resources])

    def relist(self, resource: str) -> None:
        """Publish that a watch is lost."""
        self.bus.publish([Relisting(resource=resource)])

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of one type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def opened(self) -> list[CycleOpened]:
        return self.of(CycleOpened)

    @property
    def closed(self) -> list[CycleClosed]:
        return self.of(CycleClosed)

    @property
    def configurations(self) -> list[ConfigurationChanged]:
        return self.of(ConfigurationChanged)

    # The outlets.

    def submit(self, first: BindBatch | Evict | str, *rest: Any, cause: int = 0) -> None:
        """Binder.submit(batch, cause) and Executor.submit(controller, key, stages, cause); nothing may be evicted."""
        assert not isinstance(first, Evict), first
        if isinstance(first, BindBatch):
            self._bind(first, rest[0] if rest else cause)
        else:
            key, stages, because = rest
            self._write(key, stages, because)

    def _bind(self, batch: BindBatch, cause: int) -> None:
        self.batches.append(batch)
        refused = self.refuse(batch)
        for bind in batch.binds:
            outcome: dict[str, Any] = {**msgspec.to_builtins(bind), "group": batch.group, "cause": cause}
            del outcome["annotations"], outcome["prebind"]
            if refused:
                self.bus.publish([BindRefused(code=409, **outcome)])
                continue
            pod = self.objects[f"{kinds.POD.resource}/{bind.namespace}/{bind.name}"]
            assert isinstance(pod, Pod)
            bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=bind.node))
            self.bus.publish([BindDone(**outcome), self._observed(bound)])

    def _write(self, key: str, stages: Stages, cause: int) -> None:
        for effect in (effect for stage in stages for effect in stage):
            if isinstance(effect, Patch):
                self.patches.append(effect)
                done = EffectSucceeded(cause=cause, controller="scheduler", key=key, effect_id=effect.id)
                self.bus.publish([done])

    async def _answer(self, call: Call) -> Response:
        if call.method == "GET":
            return refusal(404, "NotFound")
        return answer({"apiVersion": "v1", "kind": "Queue", "metadata": {"name": "x"}}, 201)

    def _observed(self, obj: Manifest | ApiObject) -> Observed:
        struct = decoded(obj) if isinstance(obj, dict) else obj
        self.revision += 1
        meta = msgspec.structs.replace(struct.metadata, resource_version=str(self.revision))
        struct = msgspec.structs.replace(struct, metadata=meta)
        key = f"{kinds.of(struct).resource}/{meta.key}"
        change = Change.CHANGED if key in self.objects else Change.APPEARED
        self.objects[key] = struct
        return Observed(resource=kinds.of(struct).resource, change=change, object=struct)

    def _remember(self, batch: Batch) -> None:
        self.events.extend(batch)
