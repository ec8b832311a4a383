"""A whole world for the job controller, pure and synchronous: objects in a dict, effects applied to them, the host.

It keeps to what an API server does: uids, revisions, preconditions, merge patches, a status subresource for Jobs and
graceful deletion of pods. `crash` forgets everything but the objects.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from volcanoio_plugins.job.env import EnvPlugin
from volcanoio_plugins.job.ssh import SshPlugin
from volcanoio_plugins.job.svc import SvcPlugin
from volcanoio_policies.declared import Declared

from volcanoio.engine.hosting.controller_host import Dispatch, InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.jobs.controller import JobController
from volcanoio.engine.jobs.pods.plugins import PluginFactory
from volcanoio.framework import effects
from volcanoio.framework.controller import ControllerContext
from volcanoio.framework.decisions import Abstain, Decision
from volcanoio.framework.effects import Ask, Create, Delete, Effect, Measure, Patch, Record, StartTimer, StopTimer
from volcanoio.framework.events import (
    Answered,
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    Synced,
    TimerFired,
)
from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyContext
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.times import rfc3339

PLUGINS: dict[str, PluginFactory] = {"env": EnvPlugin, "svc": SvcPlugin, "ssh": SshPlugin}
KINDS = {kind.resource: kind for kind in kinds.ALL}
START = 1_700_000_000.0


class Asked:
    """A policy that answers by a function of the context."""

    name = "p"

    def __init__(self, answer: Callable[[PolicyContext], Decision]) -> None:
        self._answer = answer

    async def decide(self, context: PolicyContext) -> Decision:
        return self._answer(context)


class World:
    """The objects, the controller's host over them, and what has happened."""

    def __init__(self, *, policy: LifecyclePolicy | None = None, graceful: bool = False) -> None:
        self.policy = Declared() if policy is None else policy
        self.graceful = graceful
        self.now = START
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.records: list[tuple[str, str, str]] = []
        self.writes: list[Effect] = []
        self.statuses: list[Manifest] = []
        self.figures: list[Measure] = []
        self.refusals: dict[str, tuple[int, str]] = {}
        self.asked: list[str] = []
        self.collisions: list[str] = []
        self.held: list[Ask] | None = None
        self._revision = 0
        self._uid = 0
        self.boot()
        self.put(kinds.QUEUE, "", {"metadata": {"name": "default"}, "spec": {"weight": 1}})

    def boot(self) -> None:
        """Start a new controller process that lists the stored objects."""
        self.host = Host([JobController(ControllerContext(job_plugins=PLUGINS))], on_fault=self._fault)
        self.inbox: deque[ControllerEvent] = deque()
        self.outbox: deque[tuple[str, deque[deque[Effect]]]] = deque()
        self.timers: dict[str, tuple[str, str, float]] = {}
        for (resource, _), manifest in sorted(self.objects.items()):
            self.inbox.append(self._observed(resource, Change.APPEARED, manifest))
        for resource in sorted(self.host["job-controller"].resources):
            self.inbox.append(Synced(resource=resource, at=self.now))

    crash = boot

    def _fault(self, fault: InvariantError) -> None:
        raise fault

    # What others do to the objects.

    def put(self, kind: kinds.Kind, namespace: str, manifest: Manifest) -> Manifest:
        """Somebody creates an object."""
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **copy.deepcopy(manifest)}
        meta = manifest["metadata"]
        if namespace:
            meta["namespace"] = namespace
        self._uid += 1
        meta.update(uid=f"uid-{self._uid}", creationTimestamp=rfc3339(self.now), generation=1)
        return self._store(kind.resource, manifest, Change.APPEARED)

    def change(self, resource: str, key: str, patch: Manifest) -> Manifest:
        """Somebody merge-patches an object."""
        before = self.objects[resource, key]
        after = effects.apply_merge_patch(copy.deepcopy(before), patch)
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        return self._store(resource, after, Change.CHANGED)

    def remove(self, resource: str, key: str, *, graceful: bool = False) -> None:
        """Somebody deletes an object; with `graceful` it stays terminating until `vanish`."""
        manifest = self.objects.get((resource, key))
        if manifest is None:
            return
        if graceful:
            if "deletionTimestamp" not in manifest["metadata"]:
                self.change(resource, key, {"metadata": {"deletionTimestamp": rfc3339(self.now)}})
            return
        del self.objects[resource, key]
        self.inbox.append(self._observed(resource, Change.GONE, manifest, manifest))

    def vanish(self) -> None:
        """End all terminating pods."""
        for (resource, key), manifest in list(self.objects.items()):
            if "deletionTimestamp" in manifest["metadata"]:
                self.remove(resource, key)

    def admit(self) -> None:
        """Admit every new PodGroup, as the scheduler's enqueue action does."""
        for (resource, key), manifest in list(self.objects.items()):
            if resource == kinds.POD_GROUP.resource and not manifest.get("status", {}).get("phase"):
                self.change(resource, key, {"status": {"phase": "Inqueue"}})

    def phase(self, pod: str, phase: str, exit_code: int | None = None) -> None:
        """Write a pod's phase, as the kubelet does."""
        status: Manifest = {"phase": phase}
        if exit_code is not None:
            status["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": exit_code}}}]
        self.change("pods", pod if "/" in pod else f"default/{pod}", {"status": status})

    def command(self, action: str, job: str = "job", name: str = "", uid: str = "") -> None:
        """Create a Command, as a user does."""
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": uid}
        manifest = {"metadata": {"name": name or f"{job}-{action.lower()}"}, "action": action, "target": target}
        self.put(kinds.COMMAND, "default", manifest)

    def submit(self, spec: Manifest, name: str = "job", **metadata: Any) -> None:
        """Create a Job, as a user does."""
        self.put(kinds.JOB, "default", {"metadata": {"name": name, **metadata}, "spec": spec})

    # What there is.

    def job(self, name: str = "job") -> Job:
        job: Job = self._decoded("jobs.batch.volcano.sh", self.objects["jobs.batch.volcano.sh", f"default/{name}"])
        return job

    def pods(self) -> dict[str, Pod]:
        """Pods by name."""
        return {
            manifest["metadata"]["name"]: self._decoded(resource, manifest)
            for (resource, _), manifest in sorted(self.objects.items())
            if resource == "pods"
        }

    def names(self, resource: str) -> list[str]:
        """Names of a kind's objects."""
        return [
            manifest["metadata"]["name"] for (kind, _), manifest in sorted(self.objects.items()) if kind == resource
        ]

    # Time passing.

    def run_until_stable(self, *, admit: bool = True, limit: int = 2000) -> World:
        """Run until nothing moves; with `admit` the scheduler plays along."""
        for _ in range(limit):
            if not self.step():
                if admit:
                    self.admit()
                if not self.inbox:
                    return self
        msg = "the world does not come to rest"
        raise AssertionError(msg)

    def step(self) -> bool:
        """Reduce one event, or else carry out one effect; return False if there is neither."""
        if self.inbox:
            event = self.inbox.popleft()
            for dispatch in self.host.handle(event):
                self._take(dispatch)
            return True
        if self.outbox:
            self._carry_out()
            return True
        return False

    def pass_time(self, seconds: float) -> World:
        """Let time pass, and everything react to it."""
        self.elapse(seconds)
        return self.run_until_stable()

    def elapse(self, seconds: float) -> None:
        """Let timers fire that fall due."""
        self.now += seconds
        for name, (key, timer, due) in list(self.timers.items()):
            if due <= self.now:
                del self.timers[name]
                self.inbox.append(TimerFired(controller="job-controller", key=key, name=timer, at=self.now))

    def fire(self, timer: str) -> None:
        """Let the timers of one name fire, due or not."""
        for name, (key, known, _) in list(self.timers.items()):
            if known == timer:
                del self.timers[name]
                self.inbox.append(TimerFired(controller="job-controller", key=key, name=timer, at=self.now))
        self.run_until_stable()

    def answer(self, decision: Decision | None = None) -> None:
        """Answer the first held question, by the policy unless a decision is given."""
        assert self.held
        self._answer(self.held.pop(0), decision)

    # The edge.

    def _take(self, dispatch: Dispatch) -> None:
        stages = deque(deque(stage) for stage in dispatch.stages)
        for stage in stages:
            for effect in list(stage):
                if isinstance(effect, Record | Measure | StartTimer | StopTimer | Ask):
                    stage.remove(effect)
                    self._local(dispatch.key, effect)
        if any(stages):
            self.outbox.append((dispatch.key, deque(stage for stage in stages if stage)))

    def _local(self, key: str, effect: Effect) -> None:
        match effect:
            case Record(type=kind, reason=reason, message=message):
                self.records.append((kind, reason, message))
            case Measure():
                self.figures.append(effect)
            case StartTimer(name=name, due=due):
                self.timers[f"{key}/{name}"] = (key, name, due)
            case StopTimer(name=name):
                self.timers.pop(f"{key}/{name}", None)
            case Ask(event=event):
                self.asked.append(f"{event.name} {event.pod}".strip())
                if self.held is None:
                    self._answer(effect)
                else:
                    self.held.append(effect)
            case _:
                raise AssertionError(effect)

    def _answer(self, ask: Ask, decision: Decision | None = None) -> None:
        key = f"default/{self._job_name(ask.event.job_uid)}"
        if decision is None:
            pods = self.host["job-controller"].objects(key, "pods")
            job = self.host.cache.get("jobs.batch.volcano.sh", key)
            decision = Abstain()
            if isinstance(job, Job):
                context = PolicyContext(
                    event=ask.event, job=job, pods=tuple(pod for pod in pods if isinstance(pod, Pod)), now=self.now
                )
                coroutine = self.policy.decide(context)
                try:
                    coroutine.send(None)
                except StopIteration as end:
                    decision = end.value
        answered = Answered(
            controller="job-controller", key=key, question=ask.question, decision=decision, policy="p", at=self.now
        )
        self.inbox.append(answered)

    def _job_name(self, uid: str) -> str:
        for (resource, _), manifest in self.objects.items():
            if resource == "jobs.batch.volcano.sh" and manifest["metadata"]["uid"] == uid:
                return str(manifest["metadata"]["name"])
        return "job"

    def _carry_out(self) -> None:
        """Carry out one write of the oldest step; a failure drops its later stages."""
        key, stages = self.outbox[0]
        effect = stages[0].popleft()
        assert isinstance(effect, Create | Patch | Delete)
        self.writes.append(effect)
        error = self._refused(effect)
        response = None
        if error is None:
            response = self._apply(effect)
            obj = None if response is None else msgspec.convert(response, KINDS[effect.resource].type, strict=False)
            self.inbox.append(
                EffectSucceeded(controller="job-controller", key=key, effect_id=effect.id, object=obj, at=self.now)
            )
        else:
            dropped = tuple(later.id for stage in list(stages)[1:] for later in stage)
            while len(stages) > 1:
                stages.pop()
            code, message = error
            self.inbox.append(
                EffectFailed(
                    controller="job-controller",
                    key=key,
                    effect_id=effect.id,
                    code=code,
                    message=message,
                    dropped=dropped,
                    at=self.now,
                )
            )
        while stages and not stages[0]:
            stages.popleft()
        if not stages:
            self.outbox.popleft()

    def _refused(self, effect: Create | Patch | Delete) -> tuple[int, str] | None:
        if isinstance(effect, Create):
            meta = effect.manifest["metadata"]
            key = f"{meta['namespace']}/{meta['name']}"
            if effect.resource in self.refusals:
                return self.refusals[effect.resource]
            taken = (effect.resource, key) in self.objects
            self.collisions += [key] if taken else []
            return (409, f"{effect.resource} {key} already exists") if taken else None
        there = self.objects.get((effect.resource, f"{effect.namespace}/{effect.name}"))
        if isinstance(effect, Patch) and (reported := self.refusals.get(f"{effect.resource}/{effect.subresource}")):
            return reported
        if isinstance(effect, Delete):
            return (409, "uid") if there is not None and there["metadata"]["uid"] != effect.uid else None
        if there is None:
            return (404, "not found")
        if effect.uid and there["metadata"]["uid"] != effect.uid:
            return (409, "uid")
        if effect.resource_version and there["metadata"]["resourceVersion"] != effect.resource_version:
            return (409, "conflict")
        return None

    def _apply(self, effect: Create | Patch | Delete) -> Manifest | None:
        if isinstance(effect, Create):
            manifest = copy.deepcopy(effect.manifest)
            self._uid += 1
            manifest["metadata"].update(uid=f"uid-{self._uid}", creationTimestamp=rfc3339(self.now), generation=1)
            if effect.resource == "pods":
                manifest["status"] = {"phase": "Pending"}
            return self._store(effect.resource, manifest, Change.APPEARED)
        key = f"{effect.namespace}/{effect.name}"
        if isinstance(effect, Patch):
            if effect.resource == "jobs.batch.volcano.sh":
                wanted = {"status"} if effect.subresource else {"metadata", "spec"}
                assert set(effect.patch) <= wanted, effect
            after = self.change(effect.resource, key, effect.patch)
            if effect.subresource == "status":
                self.statuses.append(after["status"])
            return after
        self.remove(effect.resource, key, graceful=self.graceful and effect.resource == "pods")
        return None

    def _store(self, resource: str, manifest: Manifest, change: Change) -> Manifest:
        self._revision += 1
        meta = manifest["metadata"]
        meta["resourceVersion"] = str(self._revision)
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
        before = self.objects.get((resource, key))
        self.objects[resource, key] = manifest
        self.inbox.append(self._observed(resource, change, manifest, before))
        return copy.deepcopy(manifest)

    def _observed(self, resource: str, change: Change, manifest: Manifest, before: Manifest | None = None) -> Observed:
        previous = None if before is None else self._decoded(resource, before)
        obj = self._decoded(resource, manifest)
        return Observed(resource=resource, change=change, object=obj, previous=previous, at=self.now)

    @staticmethod
    def _decoded(resource: str, manifest: Manifest) -> Any:
        kind = ApiObject if resource == "secrets" else KINDS[resource].type
        return msgspec.convert(manifest, kind, strict=False)


def task(name: str = "t", replicas: int = 2, **fields: Any) -> Manifest:
    """A task of a spec; pod spec fields may be given as `pod`."""
    pod = {"containers": [{"name": "c", "image": "i"}], **fields.pop("pod", {})}
    return {"name": name, "replicas": replicas, "template": {"spec": pod}, **fields}


def spec(*tasks: Manifest, **fields: Any) -> Manifest:
    """A Job's spec with the defaults that admission gives."""
    chosen = tasks or (task(),)
    total = sum(one["minAvailable"] if "minAvailable" in one else one["replicas"] for one in chosen)
    defaults: Manifest = {"minAvailable": total, "queue": "default", "maxRetry": 3, "schedulerName": "volcano"}
    return {**defaults, "tasks": list(chosen), **fields}
