"""Claimed devices counted against queues: `deviceclass/CLASS` is their number, `DIM.deviceclass/CLASS` their capacity.

A queue's spec.capability limits them; a class that it does not name is unlimited. A claim counts once for a queue,
however many of its pods share it (Volcano: DRA keys of the plugin capacity). An allocated claim counts by the devices
that it has, another one by what it asks for: by the first alternative of a request, and by one device for all devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, Shape, Task, TaskStatus
from volcanoio.model import kinds
from volcanoio.model.dynamic_resources.objects import ALL_DEVICES, ClaimedDevices, ExactRequest, Quantity, ResourceClaim
from volcanoio.model.resources import LARGEST, Amounts, add, amount_text, stored_amounts
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.queues.attributes import QueueAttributes

CLAIMS = kinds.RESOURCE_CLAIM.resource
_PREFIX, _INFIX = "deviceclass/", ".deviceclass/"
_DECODE = msgspec.json.Decoder(ClaimedDevices)
_ADMITTED = (PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING)


def class_of(name: str) -> str:
    """Return the device class of a quota key, "" for other resources."""
    if name.startswith(_PREFIX):
        return name.removeprefix(_PREFIX)
    return name.partition(_INFIX)[2]


class _Claims(NamedTuple):
    """The claims of a job: those of its allocated tasks, and those of each pending task.

    `unmade` has the content of those for extended resources that are not seen yet.
    """

    allocated: frozenset[str]
    allocated_tasks: int
    pending: tuple[tuple[str, ...], ...]
    unmade: Mapping[str, bytes]


class DeviceQuota:
    """The claims that queues use; call `open` in each session, with the queues above each queue."""

    watches: tuple[str, ...] = (CLAIMS,)

    def __init__(self, *, capacity: bool) -> None:
        self._counts_capacity = capacity
        self._session: SessionView
        self._table: Callable[[str], Table]
        self._jobs: dict[str, _Claims] = {}
        """The claims of jobs that have any."""
        self._held: dict[str, set[str]] = {}
        """Claims by queue, those of the queues below it included, as the session opened."""
        self._closing: dict[str, set[str]] | None = None
        """Claims by queue, as the session closes."""
        self._amounts: dict[str, tuple[ResourceClaim, Amounts]] = {}
        self._by_content: dict[bytes, Amounts] = {}
        self._unmade: dict[str, bytes] = {}
        """The content of claims for extended resources that are not seen yet."""

    def open(self, session: SessionView, table: Callable[[str], Table], above: Mapping[str, Iterable[str]]) -> None:
        """Count the claims of allocated tasks; `above` are the ancestors of each queue."""
        self._session, self._table = session, table
        self._held.clear()
        self._closing = None
        for queue, keys in self._allocated().items():
            for name in (queue, *above.get(queue, ())):
                self._held.setdefault(name, set()).update(keys)

    def usage(self, queue: str) -> Amounts:
        """Return what the allocated tasks of a queue, and of those below it, have claimed as the session opened."""
        return self._sum(self._held.get(queue, ()))

    def own_usage(self, queue: str) -> Amounts:
        """Return what the allocated tasks of a queue have claimed as the session closes."""
        if self._closing is None:
            self._closing = self._allocated()
        return self._sum(self._closing.get(queue, ()))

    def demand(self, job: Job) -> Amounts:
        """Return what a job's missing tasks, up to its minimum, ask for beside the claims of its queue."""
        if (claims := self._jobs.get(job.key)) is None:
            return {}
        missing = max(job.min_available - claims.allocated_tasks, 0)
        keys = {key for task in claims.pending[:missing] for key in task}
        return self._sum(keys - self._held.get(job.queue, set()))

    def admitted(self) -> dict[str, Amounts]:
        """Return by queue what admitted jobs ask for and do not have yet."""
        result: dict[str, Amounts] = {}
        for key in self._jobs:
            job = self._session.jobs[key]
            if job.phase in _ADMITTED and (demand := self.demand(job)):
                add(result.setdefault(job.queue, {}), demand)
        return result

    def count(self, attr: QueueAttributes, shape: Shape, count: int) -> None:
        """Count tasks of a shape in a queue; a shared claim counts with the first task, and until the last."""
        held, uses = self._held.get(attr.queue.name, set()), self._table(f"claims/{attr.queue.name}")
        for claim in shape.device_claims:
            if claim.error:
                continue
            if not claim.key:
                attr.add(self._asked(claim.devices), count)
                continue
            before = uses.get(claim.key)
            uses.add(claim.key, count)
            if claim.key not in held and (before > 0) is not (before + count > 0):
                attr.add(self._of(claim.key), 1 if count > 0 else -1)

    def fits(self, attr: QueueAttributes, shape: Shape, count: int) -> int:
        """Return how many of `count` more tasks stay within the limits of a queue."""
        each, once = self._needs(attr, shape)
        limits = attr.queue.capability
        for name, amount in {**once, **each}.items():
            if amount and (limit := _limit(limits, name)) is not None:
                left = limit - attr.allocated_amount(name) - once.get(name, 0)
                if left < 0:
                    return 0
                if per_task := each.get(name, 0):
                    count = min(count, left // per_task)
        return count

    def explain(self, attr: QueueAttributes, shape: Shape, count: int) -> str:
        """Explain which limits keep some of `count` more tasks out, "" for none."""
        each, once = self._needs(attr, shape)
        limits = attr.queue.capability
        needed = {
            name: count * each.get(name, 0) + once.get(name, 0)
            for name in (*each, *once)
            if _limit(limits, name) is not None
        }
        return attr.explain_limit(needed, 1, limits, "limit")

    def insufficient(self, attr: QueueAttributes, demand: Amounts) -> list[str]:
        """Return the keys of which a queue has not enough left for a demand, beside what is allocated and admitted."""
        limits, admitted = attr.queue.capability, attr.admitted()
        return sorted(
            name
            for name, amount in demand.items()
            if (limit := _limit(limits, name)) is not None
            and attr.allocated_amount(name) + admitted.get(name, 0) + amount > limit
        )

    def explain_shortage(self, attr: QueueAttributes, demand: Amounts, names: Iterable[str]) -> str:
        """Explain why a queue cannot admit a demand: the keys of which it has not enough left."""
        limits, admitted = attr.queue.capability, attr.admitted()
        texts = [
            f"needs {name} {amount_text(name, demand[name])}, in use {amount_text(name, attr.allocated_amount(name))}"
            f", admitted {amount_text(name, admitted.get(name, 0))}, limit {amount_text(name, limits.get(name, 0))}"
            for name in names
        ]
        return f"queue {attr.queue.name}: {'; '.join(texts)}"

    def _needs(self, attr: QueueAttributes, shape: Shape) -> tuple[Amounts, Amounts]:
        """Return what each task of a shape claims, and what all of them claim once."""
        each: Amounts = {}
        once: Amounts = {}
        held, uses = self._held.get(attr.queue.name, set()), self._table(f"claims/{attr.queue.name}")
        for claim in shape.device_claims:
            if claim.error:
                continue
            if not claim.key:
                add(each, self._asked(claim.devices))
            elif claim.key not in held and not uses.get(claim.key):
                add(once, self._of(claim.key))
        return each, once

    def _allocated(self) -> dict[str, set[str]]:
        """Follow changes of jobs; return the claims of allocated tasks by queue."""
        jobs = self._session.jobs
        for job in self._session.changed_jobs(self):
            self._read(jobs.get(job.key) or job, exists=job.key in jobs)
        for key in [key for key in self._jobs if key not in jobs]:
            self._forget(key)
        found: dict[str, set[str]] = {}
        for key, claims in self._jobs.items():
            if claims.allocated:
                found.setdefault(jobs[key].queue, set()).update(claims.allocated)
        return found

    def _read(self, job: Job, *, exists: bool) -> None:
        """Read the claims of a job that changed."""
        self._forget(job.key)
        tasks = [task for task in job.tasks if task.shape.has_device_claims] if exists else []
        if not tasks:
            return
        allocated = [task for task in tasks if task.status in ALLOCATED_STATUSES]
        pending = sorted(
            (task for task in tasks if task.status is TaskStatus.PENDING), key=lambda task: (task.created, task.name)
        )
        unmade: dict[str, bytes] = {}
        self._jobs[job.key] = _Claims(
            frozenset(self._keys_of(allocated, unmade)),
            job.count(*ALLOCATED_STATUSES),
            tuple(tuple(self._keys_of((task,), unmade)) for task in pending),
            unmade,
        )
        self._unmade.update(unmade)

    def _forget(self, key: str) -> None:
        """Forget the claims of a job."""
        if (claims := self._jobs.pop(key, None)) is not None:
            for each in claims.unmade:
                self._unmade.pop(each, None)

    def _keys_of(self, tasks: Iterable[Task], unmade: dict[str, bytes]) -> list[str]:
        """Return the claims of tasks; the content of those that are not made is added to `unmade`."""
        keys: list[str] = []
        for task in tasks:
            for key, claim in self._session.device_claims.claims(task):
                if key:
                    keys.append(key)
                if claim.is_extended:
                    unmade[key] = claim.devices
        return keys

    def _sum(self, keys: Iterable[str]) -> Amounts:
        result: Amounts = {}
        for key in keys:
            add(result, self._of(key))
        return {name: min(amount, LARGEST) for name, amount in result.items()}

    def _of(self, key: str) -> Amounts:
        """Return what a claim counts as."""
        if not isinstance(claim := self._session.objects(CLAIMS).get(key), ResourceClaim):
            return {} if (devices := self._unmade.get(key)) is None else self._asked(devices)
        known = self._amounts.get(key)
        if known is None or known[0] is not claim:
            if len(self._amounts) > 2 * len(self._session.objects(CLAIMS)) + 64:
                self._amounts.clear()  # of claims that are gone
            known = self._amounts[key] = claim, self._read_amounts(claim)
        return known[1]

    def _asked(self, devices: bytes) -> Amounts:
        """Return what a claim with that content counts as before it is allocated."""
        if (known := self._by_content.get(devices)) is None:
            known = self._by_content[devices] = self._by_request(_DECODE.decode(devices))
        return known

    def _read_amounts(self, claim: ResourceClaim) -> Amounts:
        if claim.status.allocation is None:
            return self._by_request(claim.spec.devices)
        requests = {name: exact for each in claim.spec.devices.requests for name, exact in each.alternatives}
        result: Amounts = {}
        for device in claim.status.allocation.devices.results:
            if (request := requests.get(device.request)) is not None and not device.admin_access:
                consumed = device.consumed_capacity
                add(result, self._counted(request, 1, consumed))
        return result

    def _by_request(self, devices: ClaimedDevices) -> Amounts:
        result: Amounts = {}
        for request in devices.requests:
            if request.alternatives and not (first := request.alternatives[0][1]).admin_access:
                wanted = first.capacity.requests if first.capacity is not None else {}
                add(result, self._counted(first, 1 if first.allocation_mode == ALL_DEVICES else first.count, wanted))
        return result

    def _counted(self, request: ExactRequest, count: int, capacity: Mapping[str, Quantity]) -> Amounts:
        name = f"{_PREFIX}{request.device_class_name}"
        result = stored_amounts({name: 1})
        if self._counts_capacity:
            result |= stored_amounts({f"{dim}.{name}": amount for dim, amount in capacity.items()})
        return {key: min(amount * count, LARGEST) for key, amount in result.items()}


def _limit(limits: Mapping[str, int], name: str) -> int | None:
    """Return the limit of a key, None for none; it is 0 for a capacity of a limited class that is not named."""
    if (limit := limits.get(name)) is not None:
        return limit
    known = class_of(name)
    is_limited = not name.startswith(_PREFIX) and any(class_of(other) == known for other in limits)
    return 0 if is_limited else None
