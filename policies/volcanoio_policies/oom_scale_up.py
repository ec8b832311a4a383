"""`oom_scale_up`: a task that was killed for memory comes back with more of it, and it costs the job no retry.

The value is computed from what the killed pod had, so that hearing twice of one pod leads to the same value. It is
stored on the Job, and the next job of the name may start from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanoio.framework.arguments import ArgumentError, convert, suggestion
from volcanoio.framework.decisions import Abstain, Alert, Decision, Override
from volcanoio.framework.lifecycle import Occasion, PolicyContext
from volcanoio.framework.overrides import TaskOverride, template_of
from volcanoio.framework.podusage import usage_of
from volcanoio.model import kinds, quantity
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job, JobAction, JobEvent, TaskSpec
from volcanoio.model.core import Container, Node, Pod, PodSpec, ResourceQuota, ResourceRequirements
from volcanoio.model.quantity import QuantityError

MEMORY = "memory"
KILLED = "OOMKilled"
_ACTIONS = (JobAction.RESTART_POD, JobAction.RESTART_TASK, JobAction.RESTART_PARTITION, JobAction.RESTART_JOB)
_ENDED = ("Succeeded", "Failed")


class OomScaleUpArguments(msgspec.Struct, frozen=True):
    """`factor` multiplies request and limit, `cap` bounds them ("" for no bound), `attempts` is how often that may be.

    `action` brings the pod back: RestartPod, RestartTask, RestartPartition or RestartJob. With `remember` the next job
    of the name starts with the value.
    """

    factor: float = 2.0
    cap: str = ""
    attempts: int = 3
    action: str = JobAction.RESTART_POD
    remember: bool = True


class OomScaleUp:
    """Grows the containers that were killed for memory, of that task alone, up to the least of `cap`, what the largest
    node can give, and what the namespace's quotas leave.
    """

    name = "oom_scale_up"
    events = (JobEvent.POD_FAILED, JobEvent.TASK_FAILED, Occasion.PODS_DUE)
    indexes = (kinds.NODE.resource, kinds.RESOURCE_QUOTA.resource, kinds.POD.resource)
    job_arguments = ("factor", "cap", "attempts", "action", "remember")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = convert(arguments, OomScaleUpArguments, self.name)
        if not 1 < given.factor <= _MOST:
            msg = f'{self.name}: "factor" must be more than 1 and at most {_MOST:g}, not {given.factor:g}; 2 doubles'
            raise ArgumentError(msg, key="factor")
        if given.attempts < 1:
            msg = (
                f'{self.name}: "attempts" must be 1 or more, not {given.attempts}; leave the policy out to grow nothing'
            )
            raise ArgumentError(msg, key="attempts")
        if given.action not in _ACTIONS:
            advice = suggestion(given.action, _ACTIONS)
            msg = f'{self.name}: "action" must be one that restarts, not "{given.action}"{advice}'
            raise ArgumentError(msg, key="action")
        try:
            self._cap = quantity.value(given.cap) if given.cap else None
        except QuantityError as error:
            msg = f'{self.name}: "cap": {error}'
            raise ArgumentError(msg, key="cap") from None
        self._arguments = given
        self._action = JobAction(given.action)

    async def decide(self, context: PolicyContext) -> Decision:
        """Grow what was killed; start with what was learned."""
        if context.event.name == Occasion.PODS_DUE:
            return self._learned(context)
        pod = next((pod for pod in context.pods if pod.metadata.uid == context.event.pod_uid), None)
        task = _task(context.job, context.event.task)
        if pod is None or task is None:
            return Abstain()
        restarted = context.event.name == JobEvent.TASK_FAILED
        killed_in = set(_killed(pod, restarted=restarted))
        killed = [container for container in _containers(pod.spec) if container.name in killed_in]
        if not killed:
            return Abstain()
        stored = next((each for each in context.overrides if each.task == task.name and each.index is None), None)
        known = stored or TaskOverride(task=task.name, resources={}, attempts=0)
        return self._grow(context, task, pod, killed, known)

    def _grow(
        self, context: PolicyContext, task: TaskSpec, pod: Pod, killed: list[Container], known: TaskOverride
    ) -> Decision:
        bounds = self._bounds(context, pod, killed)
        resources, told = dict(known.resources), []
        for container in killed:
            had = _memory(container.resources)
            stored = _memory(known.resources.get(container.name))
            if stored is not None and had is not None and stored > had:
                continue  # this pod was made before: what is stored was not tried yet
            new = self._larger(container.resources, bounds)
            if new is None:
                return self._gives_up(context, task, container, "it has no limit or request to multiply", known)
            if had is not None and (_memory(new) or 0) <= had:
                return self._gives_up(context, task, container, bounds.told(had), known)
            resources[container.name] = _merged(task, context.overrides, container, new)
            told.append(f"{container.name} {_text(had)} -> {_text(_memory(new))}")
        if told and known.attempts >= self._arguments.attempts:
            return self._gives_up(context, task, killed[0], f"it was given more {known.attempts} times", known)
        return Override(
            task=task.name,
            resources=resources,
            attempts=known.attempts + bool(told),
            reason=f"task {task.name} was killed for memory and comes back with more: {', '.join(told)}",
            action=self._action,
            keep=self._arguments.remember,
        )

    def _larger(self, had: ResourceRequirements, bounds: _Bounds) -> ResourceRequirements | None:
        """Request and limit of memory multiplied, within bounds; None where there is neither."""
        factor = Fraction(str(self._arguments.factor))
        limit = had.limits.get(MEMORY)
        request = had.requests.get(MEMORY, limit)
        if request is None:
            return None
        new_request = min(_times(request, factor), bounds.request, bounds.node)
        if limit is None:
            return ResourceRequirements(requests={MEMORY: quantity.format_bytes(new_request)})
        new_limit = min(_times(limit, factor), bounds.limit, bounds.node)
        return ResourceRequirements(
            requests={MEMORY: quantity.format_bytes(min(new_request, new_limit))},
            limits={MEMORY: quantity.format_bytes(new_limit)},
        )

    def _bounds(self, context: PolicyContext, pod: Pod, killed: list[Container]) -> _Bounds:
        """What one killed container may have at most."""
        others = sum(
            quantity.value(container.resources.requests.get(MEMORY, container.resources.limits.get(MEMORY, "0")))
            for container in pod.spec.containers
            if container.name not in {each.name for each in killed}
        )
        share = len([each for each in killed if each in pod.spec.containers]) or 1
        nodes = [node for node in context.indexes[kinds.NODE.resource].values() if isinstance(node, Node)]
        largest = max((quantity.value(_allocatable(node)) for node in nodes if not node.spec.unschedulable), default=0)
        bounds = _Bounds()
        if nodes:
            bounds = replace(bounds, node=max(0, largest - others) // share, why="the largest node has no more")
        if self._cap is not None and self._cap < bounds.node:
            bounds = replace(bounds, node=self._cap, why="the policy's cap is reached")
        quotas = context.indexes[kinds.RESOURCE_QUOTA.resource].within(context.job.metadata.namespace)
        left = _quota_left(
            [quota for quota in quotas.values() if isinstance(quota, ResourceQuota)],
            context.indexes[kinds.POD.resource].within(context.job.metadata.namespace).values(),
        )
        for field, names in (("request", ("requests.memory", "memory")), ("limit", ("limits.memory",))):
            rooms = [left[name] for name in names if name in left]
            if rooms:
                bounds = replace(bounds, **{field: max(0, min(rooms) - others) // share})
        return bounds

    def _gives_up(
        self, context: PolicyContext, task: TaskSpec, container: Container, why: str, known: TaskOverride
    ) -> Decision:
        message = f"task {task.name}: container {container.name} was killed for memory and is given no more: {why}"
        return Alert(
            reason="OOMScaleUpExhausted",
            message=message,
            key=f"{task.name}/{known.attempts}/{context.job.status.retry_count}",
        )

    def _learned(self, context: PolicyContext) -> Decision:
        """Before the first pods: what the last job of this name had come to."""
        if not self._arguments.remember:
            return Abstain()
        done = {override.task for override in context.overrides}
        bounds = self._bounds(context, Pod(), [])
        for task in context.job.spec.tasks:
            if task.name in done or task.name not in context.learned:
                continue
            resources, told = {}, []
            for container in _containers(msgspec.convert(task.template.get("spec") or {}, PodSpec, strict=False)):
                learned = context.learned[task.name].get(container.name)
                had, knows = _memory(container.resources), _memory(learned)
                if learned is None or knows is None or (had is not None and knows <= had) or knows > bounds.node:
                    continue
                resources[container.name] = _merged(task, (), container, learned)
                told.append(f"{container.name} {_text(had)} -> {_text(knows)}")
            if resources:
                reason = f"task {task.name} starts with what the last job of this name needed: {', '.join(told)}"
                return Override(task=task.name, resources=resources, attempts=0, reason=reason, keep=True)
        return Abstain()


_MOST = 16.0
_ENDLESS = 2**62
_MEBI = 2**20
_OF_QUOTAS = ("memory", "requests.memory", "limits.memory")


class _Bounds(msgspec.Struct, frozen=True):
    """Bytes that a container may have at most: by nodes and the cap, and by quotas on requests and limits."""

    node: int = _ENDLESS
    request: int = _ENDLESS
    limit: int = _ENDLESS
    why: str = ""

    def told(self, had: int) -> str:
        """Which bound keeps it from growing."""
        return self.why if self.node <= had and self.why else "the namespace's quota leaves no more"


def _task(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def _containers(spec: PodSpec) -> Iterator[Container]:
    yield from spec.init_containers
    yield from spec.containers


def _killed(pod: Pod, *, restarted: bool) -> Iterator[str]:
    """The containers whose end was for memory; of a pod whose containers were `restarted`, also their last end."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ends = (status.state.terminated, status.last_state.terminated if restarted else None)
        if any(end is not None and end.reason == KILLED for end in ends):
            yield status.name


def _memory(resources: ResourceRequirements | None) -> int | None:
    """What bounds a container's memory: its limit, else its request."""
    if resources is None:
        return None
    text = resources.limits.get(MEMORY, resources.requests.get(MEMORY))
    return None if text is None else quantity.value(text)


def _merged(
    task: TaskSpec, overrides: tuple[TaskOverride, ...], container: Container, new: ResourceRequirements
) -> ResourceRequirements:
    """The container's resources as its task has them, with other memory."""
    spec = msgspec.convert(template_of(task, overrides).get("spec") or {}, PodSpec, strict=False)
    has = next((each.resources for each in _containers(spec) if each.name == container.name), ResourceRequirements())
    of_memory = {key: value for key, value in new.requests.items() if key == MEMORY}
    limit = {key: value for key, value in new.limits.items() if key == MEMORY}
    return ResourceRequirements(requests={**has.requests, **of_memory}, limits={**has.limits, **limit})


def _quota_left(quotas: list[ResourceQuota], pods: Iterable[ApiObject]) -> dict[str, int]:
    """What quotas without scopes leave of memory, by their keys.

    What is used is counted here: the quota's own status still counts the killed pod for a while.
    """
    left: dict[str, int] = {}
    for quota in quotas:
        if quota.spec.scopes or quota.spec.scope_selector:
            continue
        for name, hard in quota.spec.hard.items():
            if name in _OF_QUOTAS:
                left[name] = min(left.get(name, _ENDLESS), quantity.value(hard))
    if left:
        for pod in pods:
            if isinstance(pod, Pod) and pod.status.phase not in _ENDED:
                usage = usage_of(pod.spec)
                for name in left:
                    left[name] -= -(-usage.get(name, 0) // 1000)
    return left


def _allocatable(node: Node) -> str:
    return str(node.status.allocatable.get(MEMORY, "0"))


def _times(amount: str | int | float, factor: Fraction) -> int:
    """So many bytes, up to whole Mi: what pods ask for is read by people."""
    return ceil(quantity.value(amount) * factor / _MEBI) * _MEBI


def _text(amount: int | None) -> str:
    return "none" if amount is None else quantity.format_bytes(amount)
