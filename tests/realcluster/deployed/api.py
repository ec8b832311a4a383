"""The harness's own way to the API server: requests, and lists that are followed by watches over breaks.

Independent of volcanoio's client on purpose: what observes the product must not share its defects.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import aiohttp

Obj: TypeAlias = dict[str, Any]
MERGE = "application/merge-patch+json"
_RETRY_SECONDS = 0.3
_LINE_LIMIT = 8 << 20


class RefusedError(Exception):
    """The server answered with an error; `code` is the HTTP status."""

    def __init__(self, code: int, body: str) -> None:
        super().__init__(f"HTTP {code}: {body[:500]}")
        self.code = code


class Api:
    """An API server with the rights of an administrator."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str) -> None:
        self.url = url
        self.tls = tls
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", **query: Any
    ) -> Obj:
        """Return the answer; raises RefusedError, and OSError or aiohttp.ClientError without one."""
        session = self._opened()
        headers = {"Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        async with session.request(
            method, self.url + path, data=data, headers=headers, params=query, ssl=self.tls
        ) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise RefusedError(answer.status, text)
            decoded: Obj = json.loads(text)
            return decoded

    async def persist(self, method: str, path: str, body: Any = None, **options: Any) -> Obj | None:
        """Send until the server answers, retrying while it is away or throttles; None when the object is gone."""
        while True:
            try:
                return await self.request(method, path, body, **options)
            except RefusedError as refused:
                if refused.code in {404, 409}:
                    return None
                if refused.code < 500 and refused.code != 429:
                    raise
            except (OSError, aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(_RETRY_SECONDS)

    async def follow(self, path: str, **query: Any) -> AsyncIterator[tuple[str, Obj]]:
        """Yield ADDED, MODIFIED and DELETED with objects for ever, and SYNCED with the list after each list.

        An object that vanished between two lists is DELETED with its last known state.
        """
        known: dict[str, Obj] = {}
        while True:
            listed = await self.persist("GET", path, **query)
            if listed is None:  # the kind is not served yet
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            items = {one["metadata"]["uid"]: one for one in listed["items"]}
            for uid in known.keys() - items.keys():
                yield "DELETED", known.pop(uid)
            for uid, one in items.items():
                if known.get(uid, {}).get("metadata", {}).get("resourceVersion") != one["metadata"]["resourceVersion"]:
                    yield ("MODIFIED" if uid in known else "ADDED"), one
            known = items
            yield "SYNCED", listed
            async for kind, one in self._changes(path, listed["metadata"]["resourceVersion"], query):
                if kind == "DELETED":
                    known.pop(one["metadata"]["uid"], None)
                else:
                    known[one["metadata"]["uid"]] = one
                yield kind, one
            await asyncio.sleep(_RETRY_SECONDS)

    async def _changes(self, path: str, version: str, query: Obj) -> AsyncIterator[tuple[str, Obj]]:
        """Yield the events of watches from a version on, until the server refuses to continue."""
        while True:
            asked = {**query, "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
            try:
                async with self._opened().get(
                    self.url + path, params=asked, ssl=self.tls, timeout=aiohttp.ClientTimeout(total=None)
                ) as answer:
                    if answer.status != 200:
                        return
                    async for line in answer.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            return
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            yield event["type"], event["object"]
            except (OSError, aiohttp.ClientError, TimeoutError, ValueError):
                pass
            await asyncio.sleep(_RETRY_SECONDS)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers, read_bufsize=_LINE_LIMIT, timeout=aiohttp.ClientTimeout(total=30)
            )
        return self._session

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
