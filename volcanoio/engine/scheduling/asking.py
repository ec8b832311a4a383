"""Questions of plugins within a session: answers at hand, or the end of the cycle for want of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volcanoio.engine.scheduling.outbox import Outbox
from volcanoio.framework.scheduling.asks import Answer, Unanswered
from volcanoio.framework.scheduling_effects import Question


class Asking:
    """`ask` and `tell` of a session. `answering`: questions are answered now; otherwise every answer is the default.

    While a session closes nothing is asked any more, and things may still be told.
    """

    def __init__(self, known: Mapping[tuple[str, str], Answer], outbox: Outbox, *, answering: bool) -> None:
        self._known = known
        self._outbox = outbox
        self.answering = self._heard = answering

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """As `sessionview.SessionView`."""
        if not self.answering:
            return [Answer(question.default) for question in questions]
        known = self._known
        missing = [question for question in questions if (question.plugin, question.key) not in known]
        if missing:
            raise Unanswered(missing)
        return [known[question.plugin, question.key] for question in questions]

    def tell(self, notice: Question) -> None:
        """As `sessionview.SessionView`."""
        if self._heard:
            self._outbox.put(notice)
