"""Events are forgotten after an hour."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from volcanoio.localcluster.apiserver.clock import parse_rfc3339
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.model.base import Manifest

EVENT_LIFETIME: Final = timedelta(hours=1)
PERIOD_SECONDS: Final = 60.0
_TIMES: Final = ("lastTimestamp", "eventTime", "firstTimestamp")


class EventExpiry:
    """Removes events that did not happen again for an hour."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def run(self) -> None:
        """Look once a minute until cancelled."""
        while True:
            await self._core.clock.idle(PERIOD_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Remove what is too old now."""
        limit = self._core.clock.now() - EVENT_LIFETIME
        store = self._core.store
        for (namespace, name), stored in list(store.collection("events").objects.items()):
            try:
                old = parse_rfc3339(_last_seen(stored.decode())) < limit
            except ValueError:  # a time nobody can read ages with the creation of the next server
                continue
            if old:
                store.remove(Ref("events", namespace, name))


def _last_seen(event: Manifest) -> str:
    series = event.get("series") or {}
    times = [series.get("lastObservedTime"), *(event.get(key) for key in _TIMES)]
    return str(next((time for time in times if time), event["metadata"]["creationTimestamp"]))
