"""Requests to the port of the webhooks, which any pod may send: each gets a review, or the status of its mistake."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fuzz import originals
from tests.fuzz.mutations import damaged, enlarged, guaranteed, mutated
from tests.unit.webhooks.serving import Hooks, hooks, review_body
from volcanoio.runtime.webhooks.paths import PATHS
from volcanoio.runtime.webhooks.server import MAX_BODY

NO_REVIEWS = (b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"null", b"\xff\xfe", b" " * (MAX_BODY + 1))
TIMEOUTS = ("", "?timeout=10s", "?timeout=", "?timeout=-1s", "?timeout=1e999s", "?timeout=x", "?x=y")
CONTENT_TYPES = ("application/json",) * 8 + ("text/plain", "application/json; charset=utf-16", "")
WHOLE = msgspec.json.encode(originals.REVIEW)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a body: a review of a damaged or large object, a damaged review, or a text that is none."""
    kind, valid = draw(st.sampled_from(tuple(originals.REVIEWED.values())))
    if draw(st.booleans()):
        found = guaranteed(draw(st.one_of(mutated(valid), enlarged(valid))), valid)
        return review_body(kind, found, old=draw(st.sampled_from((None, valid))))
    body = draw(
        st.one_of(
            mutated(originals.REVIEW).map(msgspec.json.encode),
            damaged(WHOLE.decode()).map(lambda text: text.encode(errors="surrogatepass")),
            st.sampled_from(NO_REVIEWS),
        )
    )
    return bytes(body)


def test_bodies_of_requests() -> None:
    with asyncio.Runner() as runner:
        context = hooks()
        server = runner.run(context.__aenter__())

        @examples(80)
        @given(
            path=st.sampled_from(tuple(PATHS)),
            timeout=st.sampled_from(TIMEOUTS),
            content_type=st.sampled_from(CONTENT_TYPES),
            body=bodies(),
        )
        def check(path: str, timeout: str, content_type: str, body: bytes) -> None:
            runner.run(_post(server, path + timeout, body, content_type))

        try:
            check()
        finally:
            runner.run(context.__aexit__(None, None, None))


async def _post(server: Hooks, path: str, body: bytes, content_type: str) -> None:
    status, content = await server.post(path, body, content_type)
    if status != 200:
        assert status in (400, 413, 415), content[:200]
        assert 0 < len(content) < 2000
        return
    answer: dict[str, Any] = msgspec.json.decode(content)
    response = answer["response"]
    assert isinstance(response["allowed"], bool)
    assert response["allowed"] or response["status"]["message"]
