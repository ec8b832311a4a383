"""Answers of an extender's server: the same for the same names and requests, in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

from tests.scenario.scheduling.harness import World
from volcanoio.engine.scheduling.session.context import Budget
from volcanoio.engine.scheduling.session.cycle import CycleResult, run_cycle
from volcanoio.framework.scheduling_events import AskAnswered, CycleOpened
from volcanoio.model.base import Manifest

URL = "http://extender/"
PLACED = {1 << 1, 1 << 3, 1 << 4, 1 << 5, 1 << 7}
"""States that count as placed, as bits of a TaskInfo's status."""


@dataclass(frozen=True)
class Service:
    """`salt` makes it another one; to `down` verbs it does not answer. `fine`: it scores no two nodes the same."""

    salt: int = 0
    down: frozenset[str] = frozenset()
    fine: bool = False

    def permits(self, task: str, node: str) -> bool:
        return self._draw("permits", task, node) % 4 > 0

    def score(self, task: str, node: str) -> float:
        drawn = self._draw("score", task, node)
        return drawn % 4 * 20.0 + (drawn % 9973 / 1000 if self.fine else 0)

    def admits(self, job: str) -> int:
        return self._draw("admits", job) % 4 // 2 * 2 - 1 if self._draw("knows", job) % 3 else 0

    def overused(self, queue: str) -> bool:
        return self._draw("overused", queue) % 4 == 0

    def ready(self, job: str, placed: int) -> bool:
        return placed >= self._draw("ready", job) % 3

    def vote(self, preemptor: str) -> int:
        """Answer about the victims of a task: none, no opinion, or a list of them."""
        return (-1, 0, 1, 1, 1)[self._draw("vote", preemptor) % 5]

    def names(self, preemptor: str, victim: str) -> bool:
        return self._draw("names", preemptor, victim) % 3 > 0

    def answer(self, verb: str, body: Any) -> Any:
        """Return the JSON of an answer; verbs have the names of the arguments."""
        match verb:
            case "predicate":
                permitted = self.permits(_task(body["task"]), body["node"]["Name"])
                return {} if permitted else {"status": "not this one", "code": 1}
            case "prioritize":
                names = [node["Name"] for node in body["nodes"]]
                return {"nodeScore": {name: self.score(_task(body["task"]), name) for name in names}}
            case "jobEnqueueable":
                return {"status": self.admits(body["job"]["UID"])}
            case "queueOverused":
                return {"overused": self.overused(body["queue"]["Name"])}
            case "jobReady":
                placed = sum(each["Status"] in PLACED for each in body["job"]["Tasks"].values())
                return {"status": self.ready(body["job"]["UID"], placed)}
        preemptor = _task(body["evictor"])
        victims = [each for each in body["evictees"] if self.names(preemptor, each["Name"])]
        return {"status": self.vote(preemptor), "victims": victims}

    def _draw(self, *about: str) -> int:
        return crc32("/".join((str(self.salt), *about)).encode()) >> 7


def kind(job: str, role: str, cpu: float) -> str:
    """Return the key of a task in requests."""
    return f"{job} {role} {cpu:g}"


def _task(info: Any) -> str:
    return kind(info["Job"], info["TaskRole"], info["Resreq"]["MilliCPU"])


class Served(World):
    """A world whose requests a service answers: cycles are repeated until one has no open requests."""

    def __init__(self, *objects: Manifest, conf: str, service: Service, now: float = 1000.0) -> None:
        super().__init__(*objects, conf=conf, now=now)
        self.service = service
        self.asked: list[AskAnswered] = []

    def cycle(self, *, budget: Budget | None = None) -> CycleResult:
        """Run cycles until all requests are answered; the decisions of all are in `last`."""
        self.last = []
        while True:
            self.cycles += 1
            opening = CycleOpened(
                cycle=self.cycles, upto=0, seed=self.seed, at=self.now, period=self.period, answering=True
            )
            result = self._once(opening, budget)
            if not result.questions:
                self.decisions.extend(self.last)
                self.now += self.period
                return result
            for question in result.questions:
                verb = question.url.removeprefix(URL)
                down = verb in self.service.down
                value = None if down else self.service.answer(verb, question.body)
                answer = AskAnswered(
                    plugin="extender", key=question.key, value=value, fault="connection refused" if down else ""
                )
                self.asked.append(answer)
                self.fold(answer)

    def _once(self, opening: CycleOpened, budget: Budget | None) -> CycleResult:
        steps = run_cycle(self.state, self.profile, opening, budget=budget, inspect=self.inspect)
        while True:
            try:
                self.last.extend(next(steps).decisions)
            except StopIteration as end:
                result: CycleResult = end.value
                return result


def informed(*objects: Manifest, conf: str, service: Service, now: float = 1000.0) -> Served:
    """A world that has all answers before the cycle, so that no cycle is interrupted."""
    answers: list[AskAnswered] = []
    while True:
        asking = Served(*objects, conf=conf, service=service, now=now)
        world = Served(*objects, conf=conf, service=service, now=now)
        for answer in answers:
            asking.fold(answer)
            world.fold(answer)
        asking.cycle()
        if not asking.asked:
            return world
        answers += asking.asked
