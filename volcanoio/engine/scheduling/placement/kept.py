"""The answers that are kept across cycles, by shape."""

from __future__ import annotations

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.placement.answers import Answers
from volcanoio.engine.scheduling.placement.states import States
from volcanoio.engine.scheduling.placement.statevalues import NOTHING, Learned
from volcanoio.engine.scheduling.recent import Recent
from volcanoio.framework.scheduling.views import Shape

KEPT_SHAPES = 1024
"""For how many shapes answers are kept (100 kB each at 10,000 nodes, up to 300 where scores are asked for)."""
KEPT_CONCERNED = 24
"""For how many shapes that other pods concern: there are as many as jobs, and others' answers are good for a start."""
KEPT_TABLES = 2048
"""For how many shapes more what was learned by state is kept."""


class Kept:
    """Answers by shape."""

    def __init__(self, columns: Columns, states: States, inputs: Inputs) -> None:
        self._columns = columns
        self._states = states
        self._inputs = inputs
        self._recent = Recent(columns)
        self._answers: dict[int, Answers] = {}
        self._learned: dict[int, Learned] = {}
        self._concerned: dict[int, Answers] = {}
        """Those for shapes that other pods concern."""
        self._akin: dict[int, Answers] = {}
        """The latest answers for shapes that are the same but for what concerns other pods, by that shape's id."""

    def clear(self) -> None:
        """Other plugins answer from now on."""
        self._answers.clear()
        self._concerned.clear()
        self._akin.clear()
        self._learned.clear()

    def of(self, shape: Shape) -> tuple[Answers, Answers | None]:
        """The answers for a shape, to be prepared, and those for one that is the same but for what concerns pods."""
        if shape.id != shape.like:
            return self._of_concerned(shape)
        answers = self._answers.pop(shape.id, None)
        if answers is None or answers.capacity != self._columns.capacity:
            if len(self._answers) >= KEPT_SHAPES:
                old = next(iter(self._answers))
                self._learned[old] = self._answers.pop(old).learned
                if len(self._learned) > KEPT_TABLES:
                    del self._learned[next(iter(self._learned))]
            learned = self._learned.pop(shape.id, NOTHING)
            answers = Answers(shape, self._columns, self._states, self._inputs, self._recent, learned)
        self._answers[shape.id] = answers
        return answers, None

    def known(self, shape: Shape) -> Answers | None:
        """The answers for a shape as they were last prepared."""
        return (self._answers if shape.id == shape.like else self._concerned).get(shape.id)

    def _of_concerned(self, shape: Shape) -> tuple[Answers, Answers | None]:
        """The same for one of many shapes that differ in what concerns pods alone: they begin with what is known."""
        answers = self._concerned.pop(shape.id, None)
        if answers is None or answers.capacity != self._columns.capacity:
            if len(self._concerned) >= KEPT_CONCERNED:
                del self._concerned[next(iter(self._concerned))]
            answers = Answers(shape, self._columns, self._states, self._inputs, self._recent)
        self._concerned[shape.id] = answers
        latest, plain = self._akin.pop(shape.like, None), self._answers.get(shape.like)
        known = [one for one in (latest, plain) if one is not None and one.capacity == answers.capacity]
        akin = max(known, key=lambda one: one.revision, default=None)
        self._akin[shape.like] = answers
        if len(self._akin) > KEPT_CONCERNED:
            del self._akin[next(iter(self._akin))]
        return answers, akin
