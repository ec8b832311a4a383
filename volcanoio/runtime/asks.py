"""Posts what plugins ask, and publishes what comes back: within each question's limit, JSON or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
import anyio
import msgspec
import structlog

from volcanoio.framework.events import Event
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling_effects import Question
from volcanoio.framework.scheduling_events import AskAnswered

AT_ONCE = 16
"""How many questions are under way at once (Volcano: the workers of a predicate pass)."""
ROUNDS = 10
"""How often the longest limit many questions may take together: then those still open have no answer."""
LARGEST = 10 << 20
"""Bytes an answer may have (Volcano: 10 MB)."""
_log = structlog.get_logger(__name__)


class AskHost:
    """An `Asker`; enter it before the first question, leaving closes its connections."""

    def __init__(self, publish: Callable[[list[Event]], object], *, probe: Probe) -> None:
        self._publish = publish
        self._probe = probe
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            with anyio.CancelScope(shield=True):
                await self._session.close()

    async def answer(self, questions: Sequence[Question]) -> None:
        """Ask all, and publish the answers in the order of the questions once the last has come."""
        limit = anyio.CapacityLimiter(AT_ONCE)
        answers: list[AskAnswered | None] = [None] * len(questions)

        async def ask(at: int) -> None:
            async with limit:
                answers[at] = await self._post(questions[at])

        longest = ROUNDS * max((question.timeout for question in questions), default=0.0)
        with anyio.move_on_after(longest):
            async with anyio.create_task_group() as tasks:
                for at in range(len(questions)):
                    tasks.start_soon(ask, at)
        self._publish(
            [
                answer or self._failed(question, f"no answer within {longest:g} s, among {len(questions)} questions")
                for answer, question in zip(answers, questions, strict=True)
            ]
        )

    async def tell(self, notice: Question) -> None:
        """Post something; that it failed is logged and counted."""
        await self._post(notice)

    async def _post(self, question: Question) -> AskAnswered:
        value: Any = None
        fault = ""
        if self._session is None:  # belongs to the running loop
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.post(
                question.url,
                data=msgspec.json.encode(question.body),
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=question.timeout),
            ) as answer:
                body = await _whole(answer)
                if answer.status == 200:
                    value = msgspec.json.decode(body) if body else None
                else:
                    fault = f"HTTP {answer.status}"
        except TimeoutError:
            fault = f"no answer within {question.timeout:g} s"
        except (aiohttp.ClientError, OSError, ValueError, msgspec.DecodeError) as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            return self._failed(question, fault)
        return AskAnswered(plugin=question.plugin, key=question.key, value=value)

    def _failed(self, question: Question, fault: str) -> AskAnswered:
        """A question without answer; logged and counted."""
        self._probe.count("volcanoio_question_failures_total", plugin=question.plugin)
        _log.warning("a question was not answered", plugin=question.plugin, url=question.url, reason=fault)
        return AskAnswered(plugin=question.plugin, key=question.key, fault=fault)


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """The body; raises ValueError for one that is too large."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > LARGEST:
            msg = f"the answer is larger than {LARGEST >> 20} MiB"
            raise ValueError(msg)
    return bytes(body)
