"""A world whose plugin extender is answered by a function instead of an HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.scenario.scheduling.harness import Scenario, World
from volcanoio.engine.scheduling.session.cycle import CycleResult, run_cycle
from volcanoio.framework.scheduling_effects import Question, SchedulerEffect
from volcanoio.framework.scheduling_events import AskAnswered, CycleOpened
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: extender
    arguments:
      extender.urlPrefix: http://extender/
      {arguments}
"""


Server = Callable[[str, Any], Any]


class AnsweredWorld(World):
    """A world whose requests a server answers; the server is a function of verb and body, which may raise."""

    def __init__(self, *objects: Manifest, arguments: str, server: Server) -> None:
        super().__init__(*objects, conf=CONF.replace("{arguments}", arguments))
        self.server = server
        self.asked: list[str] = []
        self.notifications: list[Question] = []
        self.rounds = 0

    def run_until_answered(self) -> AnsweredWorld:
        """Run cycles until one ends without open requests."""
        for _ in range(20):
            self.rounds += 1
            opening = CycleOpened(cycle=self.rounds, upto=0, seed=7, at=self.now, answering=True)
            result = self.one_cycle(opening)
            for question in result.questions:
                self.fold(self._answer(question))
            if not result.questions:
                return self
        raise AssertionError(self.asked)

    def one_cycle(self, opening: CycleOpened) -> CycleResult:
        """Run one cycle."""
        steps = run_cycle(self.state, self.profile, opening)
        decided: list[SchedulerEffect] = []
        while True:
            try:
                decided.extend(next(steps).decisions)
            except StopIteration as end:
                result: CycleResult = end.value
                self.decisions.extend(decided)
                self.notifications.extend(each for each in decided if isinstance(each, Question))
                return result

    def _answer(self, question: Question) -> AskAnswered:
        assert question.url.startswith("http://extender/")
        verb = question.url.removeprefix("http://extender/")
        self.asked.append(verb)
        try:
            return AskAnswered(plugin="extender", key=question.key, value=self.server(verb, question.body))
        except OSError as error:
            return AskAnswered(plugin="extender", key=question.key, fault=str(error))


def down(_verb: str, _body: Any) -> Any:
    msg = "connection refused"
    raise OSError(msg)


def only(name: str) -> Server:
    """Return a server that allows one node."""
    return lambda _verb, body: {} if body["node"]["Name"] == name else {"status": "not this one", "code": 1}


@dataclass(frozen=True, kw_only=True)
class ExtenderScenario(Scenario):
    """A cluster with an extender; cycles run until all requests have been answered."""

    arguments: str
    """Arguments of the plugin besides its address."""
    server: Server
    rounds: int | None = None
    """Number of cycles, of which all but the last end with open requests."""
    asked: Sequence[str] | None = None
    """Verbs of the requests."""

    def run(self) -> World:
        """Run cycles until all requests have been answered, and compare rounds and requests."""
        world = AnsweredWorld(*self.cluster, arguments=self.arguments, server=self.server).run_until_answered()
        assert self.rounds in (None, world.rounds)
        assert self.asked in (None, world.asked)
        return world
