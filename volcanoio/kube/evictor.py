"""`Evictor`: evicts a pod by setting condition DisruptionTarget and then deleting that uid.

Volcano: pkg/scheduler/cache/cache.go (Evict) and its pod conditions.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from volcanoio.framework.effects import PatchType
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.framework.scheduling_events import EvictDone, EvictRefused
from volcanoio.kube import requests
from volcanoio.kube.background_tasks import BackgroundTasks
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import Conflict, Invalid, NotFound
from volcanoio.kube.informer import Publish
from volcanoio.kube.requests import DeleteOptions, PatchOptions
from volcanoio.kube.sender import Sender, is_gone
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import POD
from volcanoio.model.times import rfc3339


class Evictor:
    """Carries out evictions through a Sender, which retries and checks the leadership fence.

    It is a context manager: leaving it cancels requests.
    """

    def __init__(self, sender: Sender, publish: Publish, *, clock: Clock, scheduler: str) -> None:
        self._sender = sender
        self._publish = publish
        self._clock = clock
        self._scheduler = scheduler
        self._under_way = BackgroundTasks()

    async def __aenter__(self) -> Evictor:
        """Prepare for `submit`."""
        await self._under_way.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel all evictions in progress."""
        await self._under_way.__aexit__(kind, error, trace)

    def submit(self, effect: Evict, cause: int = 0) -> None:
        """Evict one pod, without waiting."""
        self._under_way.start(self.evict(effect, cause))

    async def drain(self) -> None:
        """Return once every eviction has its outcome: a pod that was marked is also deleted."""
        await self._under_way.finished()

    async def evict(self, effect: Evict, cause: int = 0) -> None:
        """Evict one pod and publish the outcome. A pod that is gone or was replaced counts as evicted."""
        where: dict[str, Any] = {
            "group": effect.group,
            "uid": effect.uid,
            "namespace": effect.namespace,
            "name": effect.name,
            "node": effect.node,
        }
        conditions = requests.patch(
            POD,
            effect.namespace,
            effect.name,
            {"status": {"conditions": self._conditions(effect)}},
            PatchOptions(subresource="status", type=PatchType.STRATEGIC, uid=effect.uid),
        )
        outcome = await self._sender.send(conditions)
        # A conflict of the patch is ignored: the precondition of the deletion decides.
        if outcome.error is None or isinstance(outcome.error, Conflict | Invalid):
            deletion = requests.delete(POD, effect.namespace, effect.name, DeleteOptions(uid=effect.uid))
            outcome = await self._sender.send(deletion)
        gone = isinstance(outcome.error, NotFound) or (
            isinstance(outcome.error, Conflict)
            and await is_gone(self._sender, POD, effect.namespace, effect.name, effect.uid)
        )
        if outcome.error is None or gone:
            self._publish([EvictDone(cause=cause, **where)])
        else:
            refused = EvictRefused(cause=cause, **where, code=outcome.error.code, message=outcome.error.message)
            self._publish([refused])

    def _conditions(self, effect: Evict) -> list[Manifest]:
        since = rfc3339(self._clock.now())
        return [
            {
                "type": "Ready",
                "status": "False",
                "reason": "Evict",
                "message": f"Pod is evicted, because of {effect.reason}",
                "lastTransitionTime": since,
            },
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{self._scheduler}: preempting to accommodate a higher priority pod",
                "lastTransitionTime": since,
            },
        ]
