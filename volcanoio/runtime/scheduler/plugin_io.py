"""I/O on behalf of scheduler plugins: sources of facts, and questions posted to their servers.

Each source is a task of its own, which is cancelled with its plugin and restarted with back-off when it ends or raises.
A question is answered within its time limit, with JSON or with the reason why there is no answer. Results are published
on the bus. Failures are logged and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import anyio
import msgspec
import structlog

from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.backoff import Backoff
from volcanoio.framework.events import Event
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.settings import MetricsSettings
from volcanoio.framework.scheduling.sources import NODE_METRICS, Source
from volcanoio.framework.scheduling_effects import Question
from volcanoio.framework.scheduling_events import AskAnswered, FactsSaid
from volcanoio.kube.clock import Clock
from volcanoio.model.documents import ANSWER, decode_json

BACKOFF = Backoff(base=1.0, cap=60.0)
"""Delays before a source is restarted; after publishing facts it starts with the first delay again."""
_FAILURES = "volcanoio_source_failures_total"
_log = structlog.get_logger(__name__)


class _WantedSource(NamedTuple):
    """A source to run; a changed `origin` (compared by `==`) means a different source with the same name."""

    origin: object
    source: Source


class _PluginIdentity(NamedTuple):
    """A plugin that is equal only to itself."""

    plugin: int


class _Feed:
    """Arguments of one run of a source. Implements `sources.Feed`."""

    def __init__(self, name: str, publish: Callable[[list[Event]], object], clock: Clock) -> None:
        self._name = name
        self._publish = publish
        self._clock = clock
        self.said = False
        self.open = True

    def now(self) -> float:
        """Return the time (epoch seconds)."""
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        """Sleep; virtual time does not skip ahead to the end of this wait."""
        await self._clock.idle(seconds)

    def publish(self, facts: Mapping[str, Any], *, whole: bool = False) -> None:
        """Publish facts; those of a cancelled source are ignored."""
        if self.open:
            self.said = True
            self._publish([FactsSaid(source=self._name, facts=dict(facts), whole=whole)])


class SourceHost:
    """Runner of the sources that `follow` requests. `node_metrics` makes the built-in source."""

    def __init__(
        self,
        publish: Callable[[list[Event]], object],
        *,
        clock: Clock,
        probe: Probe,
        node_metrics: Callable[[MetricsSettings], Source],
    ) -> None:
        self._publish = publish
        self._clock = clock
        self._probe = probe
        self._node_metrics = node_metrics
        self._wanted: dict[str, _WantedSource] = {}
        self._changed = anyio.Event()
        self._running: dict[str, tuple[object, anyio.CancelScope]] = {}
        self._plugins: list[object] = []

    def follow(self, profile: Profile) -> None:
        """Run the sources of this profile and no others; facts of other sources are removed."""
        wanted: dict[str, _WantedSource] = {}
        self._plugins = [enabled.plugin for enabled in itertools.chain.from_iterable(profile.tiers)]
        for plugin in self._plugins:
            for name, source in _sources_of(plugin).items():
                wanted[name] = _WantedSource(_PluginIdentity(id(plugin)), source)
        if profile.metrics is not None:
            wanted[NODE_METRICS] = _WantedSource(profile.metrics, self._node_metrics(profile.metrics))
        self._wanted = wanted
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._changed.wait()
                self._changed = anyio.Event()
                for name, (origin, scope) in list(self._running.items()):
                    if name not in self._wanted or self._wanted[name].origin != origin:
                        scope.cancel()
                        del self._running[name]
                    if name not in self._wanted:
                        self._publish([FactsSaid(source=name, whole=True)])
                for name, wanted in self._wanted.items():
                    if name not in self._running:
                        scope = anyio.CancelScope()
                        self._running[name] = wanted.origin, scope
                        tasks.start_soon(self._keep, name, wanted.source, scope)

    async def _keep(self, name: str, source: Source, scope: anyio.CancelScope) -> None:
        """Restart a source whenever it ends, until its scope is cancelled."""
        self._probe.count(_FAILURES, 0.0, source=name)
        with scope:
            failures = 0
            while True:
                feed = _Feed(name, self._publish, self._clock)
                reason = "it ended by itself"
                try:
                    await source(feed)
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"
                finally:
                    feed.open = False
                failures = 1 if feed.said else failures + 1
                pause = BACKOFF.delay(failures)
                self._probe.count(_FAILURES, source=name)
                _log.warning("source stopped; it is started again", source=name, reason=reason, seconds=pause)
                await self._clock.idle(pause)


def _sources_of(plugin: object) -> Mapping[str, Source]:
    """Return a plugin's sources by the names that sessions use; logs and returns none if it raises."""
    sources, owner = getattr(plugin, "sources", None), getattr(plugin, "name", "")
    try:
        return {f"{owner}/{name}": source for name, source in sources().items()} if callable(sources) else {}
    except Exception:
        _log.exception("the sources of a plugin cannot be started; it runs without them", plugin=owner)
        return {}


CONCURRENT_QUESTIONS = 16
"""Maximum number of questions in progress (Volcano: the workers of a predicate pass)."""
ROUNDS = 10
"""Multiple of the longest limit after which questions that are asked together and are still open get no answer."""
MAX_ANSWER_BYTES = 10 << 20
"""Maximum size of an answer in bytes (Volcano: 10 MB)."""


class QuestionHost:
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
        """Ask all questions, and publish the answers in the order of the questions once all are there."""
        limit = anyio.CapacityLimiter(CONCURRENT_QUESTIONS)
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

    async def notify(self, notice: Question) -> None:
        """Post a notification; a failure is logged and counted."""
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
                body = await _read_body(answer)
                if answer.status == 200:
                    value = decode_json(body, limits=ANSWER) if body else None
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
        """Log and count a question without answer."""
        self._probe.count("volcanoio_question_failures_total", plugin=question.plugin)
        _log.warning("a question was not answered", plugin=question.plugin, url=question.url, reason=fault)
        return AskAnswered(plugin=question.plugin, key=question.key, fault=fault)


async def _read_body(answer: aiohttp.ClientResponse) -> bytes:
    """Read the body; raises ValueError if it is too large."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
    return bytes(body)
