"""`oom_scale_up`: restarts a task that was OOMKilled with more memory, without using a retry of the job.

The value is computed from the resources of the killed pod, so that two events of one pod lead to the same value. It is
stored on the Job, and the next job of that name may start with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanoio.framework.arguments import ArgumentError, convert, pluralize, suggestion
from volcanoio.framework.decisions import Abstain, Alert, Decision, Override
from volcanoio.framework.lifecycle import PolicyContext, PolicyEvent
from volcanoio.framework.overrides import TaskOverride, overridden_template
from volcanoio.framework.podusage import spec_usage
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
    """`factor` multiplies request and limit up to `cap` ("" for no cap); `attempts` is the number of increases.

    `action` restarts the pod: RestartPod, RestartTask, RestartPartition or RestartJob. With `remember` the next job of
    the name starts with the value.
    """

    factor: float = 2.0
    cap: str = ""
    attempts: int = 3
    action: str = JobAction.RESTART_POD
    remember: bool = True


class OomScaleUp:
    """Increases the memory of a task's containers that were OOMKilled.

    The upper bound is the minimum of `cap`, the memory of the largest node, and what the namespace's quotas leave.
    """

    name = "oom_scale_up"
    events = (JobEvent.POD_FAILED, JobEvent.TASK_FAILED, PolicyEvent.PODS_DUE)
    indexes = (kinds.NODE.resource, kinds.RESOURCE_QUOTA.resource, kinds.POD.resource)
    job_arguments = ("factor", "cap", "attempts", "action", "remember")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = convert(arguments, OomScaleUpArguments, self.name)
        if not 1 < given.factor <= MAX_FACTOR:
            msg = (
                f'{self.name}: "factor" must be more than 1 and at most {MAX_FACTOR:g}, not {given.factor:g}; 2 doubles'
            )
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
            raise ArgumentError(f'{self.name}: "cap": {error}', key="cap") from None
        self._arguments = given
        self._action = JobAction(given.action)

    async def decide(self, context: PolicyContext) -> Decision:
        """Increase memory after a kill; before the first pods, restore the last job's values."""
        if context.event.name == PolicyEvent.PODS_DUE:
            return self._restore_learned(context)
        pod = next((pod for pod in context.pods if pod.metadata.uid == context.event.pod_uid), None)
        task = _task(context.job, context.event.task)
        if pod is None or task is None:
            return Abstain()
        restarted = context.event.name == JobEvent.TASK_FAILED
        killed_in = set(_killed(pod, restarted=restarted))
        if not (killed := [container for container in _containers(pod.spec) if container.name in killed_in]):
            return Abstain()
        stored = next((each for each in context.overrides if each.task == task.name and each.index is None), None)
        known = stored or TaskOverride(task=task.name, resources={}, attempts=0)
        return self._grow(context, task, pod, killed, known)

    def _grow(
        self, context: PolicyContext, task: TaskSpec, pod: Pod, killed: list[Container], known: TaskOverride
    ) -> Decision:
        bounds = self._bounds(context, pod, killed)
        resources, changes = dict(known.resources), []
        for container in killed:
            had = _memory(container.resources)
            stored = _memory(known.resources.get(container.name))
            if stored is not None and had is not None and stored > had:
                continue  # this pod is older than the stored value
            if (new := self._increased(container.resources, bounds)) is None:
                return self._exhausted(context, task, container, "it has no limit or request to multiply", known)
            if had is not None and (_memory(new) or 0) <= had:
                return self._exhausted(context, task, container, bounds.reason(had), known)
            resources[container.name] = _merged(task, context.overrides, container, new)
            changes.append(f"{container.name} {_text(had)} -> {_text(_memory(new))}")
        if changes and known.attempts >= self._arguments.attempts:
            return self._exhausted(
                context, task, killed[0], f"it was given more {pluralize(known.attempts, 'time')}", known
            )
        return Override(
            task=task.name,
            resources=resources,
            attempts=known.attempts + bool(changes),
            reason=f"task {task.name} was killed for memory and comes back with more: {', '.join(changes)}",
            action=self._action,
            keep=self._arguments.remember,
        )

    def _increased(self, had: ResourceRequirements, bounds: _Bounds) -> ResourceRequirements | None:
        """Return request and limit of memory multiplied, within bounds; None if the container has neither."""
        factor = Fraction(str(self._arguments.factor))
        limit = had.limits.get(MEMORY)
        if (request := had.requests.get(MEMORY, limit)) is None:
            return None
        new_request = min(_multiplied(request, factor), bounds.request, bounds.node)
        if limit is None:
            return ResourceRequirements(requests={MEMORY: quantity.format_bytes(new_request)})
        new_limit = min(_multiplied(limit, factor), bounds.limit, bounds.node)
        return ResourceRequirements(
            requests={MEMORY: quantity.format_bytes(min(new_request, new_limit))},
            limits={MEMORY: quantity.format_bytes(new_limit)},
        )

    def _bounds(self, context: PolicyContext, pod: Pod, killed: list[Container]) -> _Bounds:
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
        quotas = context.indexes[kinds.RESOURCE_QUOTA.resource].in_namespace(context.job.metadata.namespace)
        left = _quota_left(
            [quota for quota in quotas.values() if isinstance(quota, ResourceQuota)],
            context.indexes[kinds.POD.resource].in_namespace(context.job.metadata.namespace).values(),
        )
        for field, names in (("request", ("requests.memory", "memory")), ("limit", ("limits.memory",))):
            if rooms := [left[name] for name in names if name in left]:
                bounds = replace(bounds, **{field: max(0, min(rooms) - others) // share})
        return bounds

    def _exhausted(
        self, context: PolicyContext, task: TaskSpec, container: Container, why: str, known: TaskOverride
    ) -> Decision:
        message = f"task {task.name}: container {container.name} was killed for memory and is given no more: {why}"
        return Alert(
            reason="OOMScaleUpExhausted",
            message=message,
            key=f"{task.name}/{known.attempts}/{context.job.status.retry_count}",
        )

    def _restore_learned(self, context: PolicyContext) -> Decision:
        """Before the first pods: return the memory values with which the last job of this name ended."""
        if not self._arguments.remember:
            return Abstain()
        done = {override.task for override in context.overrides}
        bounds = self._bounds(context, Pod(), [])
        for task in context.job.spec.tasks:
            if task.name in done or task.name not in context.learned:
                continue
            resources, changes = {}, []
            for container in _containers(msgspec.convert(task.template.get("spec") or {}, PodSpec, strict=False)):
                learned = context.learned[task.name].get(container.name)
                had, knows = _memory(container.resources), _memory(learned)
                if learned is None or knows is None or (had is not None and knows <= had) or knows > bounds.node:
                    continue
                resources[container.name] = _merged(task, (), container, learned)
                changes.append(f"{container.name} {_text(had)} -> {_text(knows)}")
            if resources:
                reason = f"task {task.name} starts with what the last job of this name needed: {', '.join(changes)}"
                return Override(task=task.name, resources=resources, attempts=0, reason=reason, keep=True)
        return Abstain()


MAX_FACTOR = 16.0
_UNLIMITED = 2**62
_MEBI = 2**20
_QUOTA_KEYS = ("memory", "requests.memory", "limits.memory")


class _Bounds(msgspec.Struct, frozen=True):
    """Upper bounds of a container's memory in bytes: by nodes and the cap, and by quotas on requests and limits."""

    node: int = _UNLIMITED
    request: int = _UNLIMITED
    limit: int = _UNLIMITED
    why: str = ""

    def reason(self, had: int) -> str:
        """Return which bound prevents an increase."""
        return self.why if self.node <= had and self.why else "the namespace's quota leaves no more"


def _task(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def _containers(spec: PodSpec) -> Iterator[Container]:
    yield from spec.init_containers
    yield from spec.containers


def _killed(pod: Pod, *, restarted: bool) -> Iterator[str]:
    """Yield the containers that were OOMKilled; if they were `restarted`, their last termination counts too."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ends = (status.state.terminated, status.last_state.terminated if restarted else None)
        if any(end is not None and end.reason == KILLED for end in ends):
            yield status.name


def _memory(resources: ResourceRequirements | None) -> int | None:
    """Return the bound of a container's memory: its limit, else its request."""
    if resources is None:
        return None
    text = resources.limits.get(MEMORY, resources.requests.get(MEMORY))
    return None if text is None else quantity.value(text)


def _merged(
    task: TaskSpec, overrides: tuple[TaskOverride, ...], container: Container, new: ResourceRequirements
) -> ResourceRequirements:
    """Return the container's resources as its task has them, with other memory."""
    spec = msgspec.convert(overridden_template(task, overrides).get("spec") or {}, PodSpec, strict=False)
    has = next((each.resources for each in _containers(spec) if each.name == container.name), ResourceRequirements())
    of_memory = {key: value for key, value in new.requests.items() if key == MEMORY}
    limit = {key: value for key, value in new.limits.items() if key == MEMORY}
    return ResourceRequirements(requests={**has.requests, **of_memory}, limits={**has.limits, **limit})


def _quota_left(quotas: list[ResourceQuota], pods: Iterable[ApiObject]) -> dict[str, int]:
    """Return the memory that quotas without scopes leave, by their keys.

    Usage is summed here: the quota's own status still counts the killed pod for a while.
    """
    left: dict[str, int] = {}
    for quota in quotas:
        if quota.spec.scopes or quota.spec.scope_selector:
            continue
        for name, hard in quota.spec.hard.items():
            if name in _QUOTA_KEYS:
                left[name] = min(left.get(name, _UNLIMITED), quantity.value(hard))
    if left:
        for pod in pods:
            if isinstance(pod, Pod) and pod.status.phase not in _ENDED:
                usage = spec_usage(pod.spec)
                for name in left:
                    left[name] -= -(-usage.get(name, 0) // 1000)
    return left


def _allocatable(node: Node) -> str:
    return str(node.status.allocatable.get(MEMORY, "0"))


def _multiplied(amount: str | int | float, factor: Fraction) -> int:
    """Return the product in bytes, rounded up to whole Mi for readability."""
    return ceil(quantity.value(amount) * factor / _MEBI) * _MEBI


def _text(amount: int | None) -> str:
    return "none" if amount is None else quantity.format_bytes(amount)
