"""Which tasks a queue may take from others, by what each deserves (Volcano: pkg/scheduler/plugins/capacity).

Unlike there, also queues above the one that loses a task keep their guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from volcanoio.framework.scheduling.views import Task
from volcanoio.model.names import ROOT_QUEUE
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, add
from volcanoio_plugins.scheduling.queues.accounts import Account
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities


class Holder(NamedTuple):
    """A queue's account, and those of its ancestors up to the root."""

    chain: tuple[Account, ...]

    @property
    def account(self) -> Account:
        """The queue's own."""
        return self.chain[0]

    def near(self, level: int) -> tuple[Account, ...]:
        """The ancestors up to that many steps above it, the root left out."""
        return tuple(account for account in self.chain[1 : 1 + level] if account.queue.name != ROOT_QUEUE)

    def common(self, other: Holder) -> set[str]:
        """The names of the ancestors that both have."""
        return {account.queue.name for account in self.chain[1:]} & {account.queue.name for account in other.chain[1:]}


class Taking(NamedTuple):
    """Who takes: its queue, what the task requests (None: not asked about), and how many ancestors count."""

    holder: Holder
    requests: Mapping[str, int] | None
    level: int


def may_take(taking: Taking, candidates: Sequence[Task], holder_of: Callable[[Task], Holder | None]) -> list[Task]:
    """The candidates, in their order, that may be taken together."""
    held: dict[str, Amounts] = {}
    victims = []
    for task in candidates:
        holder = holder_of(task)
        if holder is None:
            continue
        for account in holder.chain:
            held.setdefault(account.queue.name, account.allocated())
        if _may_lose(taking, holder, task.shape.requests, held):
            victims.append(task)
            for account in holder.chain:
                add(held[account.queue.name], task.shape.requests, -1)
    return victims


def _may_lose(taking: Taking, holder: Holder, requests: Mapping[str, int], held: Mapping[str, Amounts]) -> bool:
    """Whether a queue may lose a task, after what it and others have lost already."""
    if taking.requests is not None and not _have_common(requests, taking.requests, ignored=PODS):
        return False
    account = holder.account
    shared = taking.holder.common(holder) | {taking.holder.account.queue.name}
    for losing in holder.chain:
        if losing.queue.name not in shared and not losing.covers_guarantee(held[losing.queue.name], requests):
            return False
    if not _have_common(requests, account.deserved):
        if _share_near(taking, holder) and not _have_common(taking.requests or {}, taking.holder.account.deserved):
            return False
    elif not _exceeds(held[account.queue.name], account.deserved, requests):
        return False
    return all(
        not _have_common(requests, above.deserved) or _exceeds(held[above.queue.name], above.deserved, requests)
        for above in _not_shared(taking, holder)
    )


def _not_shared(taking: Taking, holder: Holder) -> list[Account]:
    """The near ancestors of a queue that are not as far above the taker's."""
    own = taking.holder.chain
    return [
        account
        for step, account in enumerate(holder.chain[1 : 1 + taking.level], 1)
        if account.queue.name != ROOT_QUEUE and not (step < len(own) and own[step] is account)
    ]


def _share_near(taking: Taking, holder: Holder) -> bool:
    """Whether both have a near ancestor in common."""
    near = {account.queue.name for account in taking.holder.near(taking.level)}
    return any(account.queue.name in near for account in holder.near(taking.level))


def _have_common(left: Quantities, right: Quantities, *, ignored: str = "") -> bool:
    """Whether there is a resource of which both name some."""
    return any(
        amount >= TOLERANCE and right.get(name, 0) >= TOLERANCE for name, amount in left.items() if name != ignored
    )


def _exceeds(held: Quantities, deserved: Quantities, requests: Mapping[str, int]) -> bool:
    """Whether a queue holds more than it deserves of a resource that is requested and that it is to deserve any of."""
    return any(
        amount > 0
        and name != PODS
        and (deserved.get(name, 0) >= TOLERANCE if name in (CPU, MEMORY) else name in deserved)
        and held.get(name, 0) > deserved[name]
        for name, amount in requests.items()
    )
