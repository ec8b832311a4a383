"""Watchers that trust nothing: they list in pages, watch, break off, resume, and compare all with the ledger."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.soak.ledger import MARKED, Change, Ledger
from volcanoio.kube.transport import StreamRefused, Transport, TransportError

_PAGE = "7"
LONG_AWAY_SECONDS = 600
_LONG_AWAY = 0.2
"""Probability that one who broke off comes back only when the server has forgotten where that was."""


class Watcher:
    """Folds one resource into `view` (key to resourceVersion); raises AssertionError at the first wrong event."""

    def __init__(
        self, resource: str, path: str, ledger: Ledger, transport: Transport, rng: random.Random, *, marked: bool
    ) -> None:
        self.view: dict[str, int] = {}
        self.seen = 0
        self.lists = 0
        self.resumed = 0
        self.resource = resource
        self._path, self._ledger, self._transport, self._rng = path, ledger, transport, rng
        self._marked = marked
        self._revision = 0
        self._continues = False

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            try:
                if not self._continues:
                    await self._list()
                await self._watch()
            except TransportError:
                await asyncio.sleep(self._rng.uniform(0.1, 5))

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is in the view."""
        return not self._marked or MARKED in labels

    async def _list(self) -> None:
        query = {"limit": _PAGE} | ({"labelSelector": MARKED} if self._marked else {})
        view: dict[str, int] = {}
        while True:
            answer = await self._transport.request("GET", self._path, query=query)
            if answer.status != 200:  # a fault, or 410 for a page of a list that took too long: from the beginning
                raise TransportError(str(answer.status))
            page = json.loads(answer.body)
            view |= {_key(one): _revision(one) for one in page["items"]}
            self._revision = int(page["metadata"]["resourceVersion"])
            if not page["metadata"].get("continue"):
                break
            query = {"limit": _PAGE, "continue": page["metadata"]["continue"]} | (
                {"labelSelector": MARKED} if self._marked else {}
            )
        self.view, self._continues = view, True
        self.lists += 1

    async def _watch(self) -> None:
        query = {
            "watch": "true",
            "resourceVersion": str(self._revision),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(60, 600)),
        } | ({"labelSelector": MARKED} if self._marked else {})
        try:
            async with self._transport.stream(self._path, query=query) as batches:
                self.resumed += 1
                async with asyncio.timeout(self._rng.expovariate(1 / 1200)):  # a client may break off at any moment
                    await self._follow(batches)
        except TimeoutError:
            if self._rng.random() < _LONG_AWAY:
                await asyncio.sleep(LONG_AWAY_SECONDS)
        except StreamRefused as refused:
            if refused.response.status == 410:
                self._continues = False
            await asyncio.sleep(self._rng.uniform(0.1, 5))

    async def _follow(self, batches: AsyncIterator[list[bytes]]) -> None:
        async for batch in batches:
            changes = []
            start = self._revision
            for event in map(json.loads, batch):
                if event["type"] == "ERROR":
                    assert event["object"]["code"] == 410, event
                    self._continues = False
                    break
                revision = _revision(event["object"])
                if event["type"] == "BOOKMARK":
                    assert revision >= self._revision, "a bookmark went back"
                else:
                    assert revision > self._revision, f"{event['type']} at {revision} after {self._revision}"
                    changes.append(Change(revision, event["type"], _key(event["object"])))
                self._revision = revision
            expected = self._ledger.between(self.resource, start, self._revision, marked=self._marked)
            assert changes == expected, f"after {start}: {changes} instead of {expected}"
            self.seen += len(changes)
            for change in changes:
                self._fold(change)

    def _fold(self, change: Change) -> None:
        assert (change.key in self.view) == (change.type != "ADDED"), f"{change} is impossible in this view"
        if change.type == "DELETED":
            del self.view[change.key]
        else:
            self.view[change.key] = change.revision


def _key(obj: dict[str, Any]) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _revision(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])
