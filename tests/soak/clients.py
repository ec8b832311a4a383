"""Clients that write at random and remember what the server has acknowledged."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

from tests.soak.ledger import MARKED
from volcanoio.kube.transport import ContentType, Response, Transport, TransportError

_NAMES = 12


class Client:
    """Owns some names of one collection: objects that no other client writes must equal the responses it received."""

    def __init__(self, number: int, path: str, body: dict[str, Any], transport: Transport, rng: random.Random) -> None:
        self.known: dict[str, int] = {}
        self.done: Counter[str] = Counter()
        self._path, self._body, self._transport, self._rng = path, body, transport, rng
        self._names = [f"client-{number}-{name}" for name in range(_NAMES)]
        self._count = 0
        self._busy = asyncio.Lock()

    async def run(self, gate: asyncio.Event, pause: float) -> None:
        """Write for ever while the gate is open, every `pause` seconds on average (0: one after the other)."""
        while True:
            await gate.wait()
            async with self._busy:
                await self.write(self._rng.choice(self._names))
            await asyncio.sleep(self._rng.expovariate(1 / pause) if pause else 0)

    async def write(self, name: str) -> None:
        """Change one object, in one of the ways there are; what came of it is known afterwards."""
        known = self.known.get(name)
        if known is None:
            verb = "create"
        else:
            verb = self._rng.choice(("replace", "patch", "patch", "delete", "nothing"))
        before = known
        try:
            answer = await getattr(self, f"_{verb}")(name)
        except TransportError:
            answer = None
        if answer is not None and answer.status < 300:
            self.done[verb] += 1
            after = None if verb == "delete" else _revision(answer)
            if verb == "nothing":
                assert after == before, f"{name}: a patch that changes nothing made version {after} of {before}"
            elif after is not None:
                assert after > (before or 0), f"{name}: version {after} after {before}"
            self._remember(name, after)
            return
        found = await self._look(name)
        if found != before:  # carried out, but the response was lost
            self.done[f"{verb}, unknown to us"] += 1
            assert found is None if verb == "delete" else found is not None and found > (before or 0), (verb, found)
        self._remember(name, found)

    async def check(self) -> None:
        """Everything is as it was acknowledged. Waits for a write under way."""
        async with self._busy:
            for name in self._names:
                found, known = await self._look(name), self.known.get(name)
                assert found == known, f"{name}: version {found}, acknowledged was {known}"

    def _remember(self, name: str, revision: int | None) -> None:
        if revision is None:
            self.known.pop(name, None)
        else:
            self.known[name] = revision

    async def _look(self, name: str) -> int | None:
        """The version of an object, None when there is none; asks until there is an answer."""
        while True:
            try:
                answer = await self._transport.request("GET", f"{self._path}/{name}")
            except TransportError:
                continue
            if answer.status == 200:
                return _revision(answer)
            if answer.status == 404:
                return None
            await asyncio.sleep(1)

    def _object(self, name: str) -> dict[str, Any]:
        self._count += 1
        labels = {MARKED: ""} if self._rng.random() < 0.5 else {}
        metadata = {"name": name, "labels": labels, "annotations": {"count": str(self._count)}}
        return {**self._body, "metadata": metadata}

    async def _create(self, name: str) -> Response:
        return await self._send("POST", self._path, self._object(name))

    async def _replace(self, name: str) -> Response:
        body = self._object(name)
        body["metadata"]["resourceVersion"] = str(self.known[name])
        return await self._send("PUT", f"{self._path}/{name}", body)

    async def _patch(self, name: str) -> Response:
        self._count += 1
        labels = {MARKED: "" if self._rng.random() < 0.5 else None}
        body = {"metadata": {"labels": labels, "annotations": {"count": str(self._count)}}}
        return await self._send("PATCH", f"{self._path}/{name}", body)

    async def _nothing(self, name: str) -> Response:
        return await self._send("PATCH", f"{self._path}/{name}", {"metadata": {"annotations": {"never": None}}})

    async def _delete(self, name: str) -> Response:
        return await self._send("DELETE", f"{self._path}/{name}", {"kind": "DeleteOptions", "apiVersion": "v1"})

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> Response:
        kind = ContentType.MERGE_PATCH if method == "PATCH" else ContentType.JSON
        return await self._transport.request(method, path, body=json.dumps(body).encode(), content_type=kind)


def _revision(answer: Response) -> int:
    return int(json.loads(answer.body)["metadata"]["resourceVersion"])
