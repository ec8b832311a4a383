"""`namespace_quota`: what a namespace may have at once. Jobs beyond it wait in line, by priority, then by age.

A gang is let in whole or not at all: its PodGroup, which is made only then, stands for its share until its pods are
there. So what was let in is stored, and a new process counts the same. Between an answer and the PodGroup or pods that
follow from it, the policy remembers what it promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.decisions import Abstain, Decision, Hold, Wake
from volcanoio.framework.gangs import members
from volcanoio.framework.lifecycle import Occasion, PolicyContext
from volcanoio.framework.podusage import Usage, as_resource_list
from volcanoio.model import quantity
from volcanoio.model.batch import Job
from volcanoio.model.quantity import QuantityError
from volcanoio_policies.parts.quotaaccount import CLASSES, GROUPS, JOBS, PODS, Account, Memory
from volcanoio_policies.parts.quotaline import WAITS, Line, held_before

OTHERS = "*"
"""Stands for namespaces that are not named."""
LOOK_AGAIN = 30.0
"""Seconds until the first in line is asked again when nothing changed."""
NEAR = 4
"""Places whose holders look at every change of the job before them."""
LONGEST = 60.0
"""Seconds until one far back in line is, to show its place."""


class NamespaceQuotaArguments(msgspec.Struct, frozen=True):
    """`namespaces`: caps by namespace, then by resource, as ResourceQuota names them: cpu, memory, pods, limits.cpu,
    nvidia.com/gpu and so on; `*` is each namespace that is not named.
    """

    namespaces: dict[str, dict[str, str | int | float]]


class NamespaceQuota:
    """Holds back what is over the cap of its namespace."""

    name = "namespace_quota"
    events = (Occasion.PODS_DUE,)
    indexes = (PODS, JOBS, GROUPS, CLASSES)

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = convert(arguments, NamespaceQuotaArguments, self.name)
        self._caps: dict[str, Usage] = {}
        for namespace, caps in given.namespaces.items():
            try:
                self._caps[namespace] = {name: quantity.milli(str(text)) for name, text in caps.items()}
            except QuantityError as error:
                msg = f'{self.name}: "namespaces": {namespace}: {error}'
                raise ArgumentError(msg, key="namespaces") from None
        self._memory = Memory()
        self._waiting: dict[str, dict[str, str]] = {}
        """Uids and names of the jobs that were held, by namespace."""

    async def decide(self, context: PolicyContext) -> Decision:
        """Let through what fits and whose turn it is."""
        job = context.job
        namespace = job.metadata.namespace
        caps = self._caps.get(namespace, self._caps.get(OTHERS))
        if caps is None:
            return Abstain()
        waiting = self._waiting.get(namespace)
        if waiting is None:
            waiting = self._waiting[namespace] = held_before(context)
        line = Line(context, waiting)
        account = Account(self._memory, context, caps, line)
        gang, extra = account.wanted(job, context.event.due)
        if not _fits(gang, caps):
            waiting.pop(job.metadata.uid, None)
            self._memory.withdraw(job)
            why = f"needs {_text(gang, caps)}, more than the cap of {_caps(caps)}"
            reason = f"namespace {namespace} can never have it: {why}"
            return Hold(reason=reason, until=context.now + LONGEST)
        started = account.started(job)
        let_in = started or bool(self._memory.promised(job))
        ahead = line.ahead(job)
        if gang and ((ahead and not let_in) or not _fits(gang, account.free_for_gang)):
            self._memory.withdraw(job)
            why = f"needs {_text(gang, caps)} at once; free are {_caps(account.free_for_gang)} of {_caps(caps)}"
            waiting.setdefault(job.metadata.uid, job.metadata.name)
            return _in_line(context, [] if started else ahead, why)
        waiting.pop(job.metadata.uid, None)
        through = account.gang_due(job, context.event.due)
        free = account.free
        _take(free, gang)
        held_back = False
        for task, usage in extra:
            if ahead or held_back or not _fits(usage, free):
                held_back = True
                continue
            _take(free, usage)
            through[task] = through.get(task, 0) + 1
        self._promise(job, through, account, started=started)
        if not held_back:
            return Abstain()
        reason = f"has what its gang needs; for more pods, of {_text(extra[0][1], caps)} each, free are {_caps(free)}"
        return Hold(reason=reason, until=context.now + LOOK_AGAIN, pods=through, wake=_freed(namespace))

    def _promise(self, job: Job, through: Mapping[str, int], account: Account, *, started: bool) -> None:
        there = account.existing(job)
        pods = {task: there.get(task, 0) + number for task, number in through.items()} if started else {}
        gang = members(job, account.priorities)
        pods = {task: max(pods.get(task, 0), number) for task, number in gang.items()}
        self._memory.promise(job, pods)


def _in_line(context: PolicyContext, ahead: list[Job], why: str) -> Hold:
    """A hold that shows the place; the first is woken by what frees quota, each other one when who is before it is let
    in or gone, and the first few by any change of that job, as it may be aborted.
    """
    namespace, place = context.job.metadata.namespace, len(ahead) + 1
    reason = f"{WAITS} of namespace {namespace}, place {place} in line: {why}"
    if ahead:
        before = ahead[-1]
        of_job = Wake(JOBS, namespace, before.metadata.name, gone=place > NEAR)
        let_in = Wake(GROUPS, namespace, f"{before.metadata.name}-{before.metadata.uid}")
        return Hold(reason=reason, until=context.now + min(LONGEST, 5.0 * place), wake=(of_job, let_in))
    return Hold(reason=reason, until=context.now + LOOK_AGAIN, wake=_freed(namespace))


def _freed(namespace: str) -> tuple[Wake, ...]:
    return Wake(PODS, namespace), Wake(GROUPS, namespace), Wake(JOBS, namespace)


def _take(free: Usage, needs: Mapping[str, int]) -> None:
    for name in free:
        free[name] -= needs.get(name, 0)


def _fits(needs: Mapping[str, int], free: Mapping[str, int]) -> bool:
    return all(amount <= free[name] for name, amount in needs.items() if name in free and amount > 0)


def _text(needs: Mapping[str, int], caps: Mapping[str, int]) -> str:
    return _caps({name: needs[name] for name in caps if needs.get(name)}) or "nothing"


def _caps(amounts: Mapping[str, int]) -> str:
    texts = as_resource_list({name: max(0, amount) for name, amount in amounts.items()})
    return ", ".join(f"{name} {text}" for name, text in texts.items())
