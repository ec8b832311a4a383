"""Questions to others in the midst of a cycle: a plugin asks, the runtime posts, the answer is an event.

`SessionView.ask` gives answers at hand. Where one is missing it ends the cycle at that point (by `Unanswered`; what was
committed stays, all else is undone); once the answers have come, within their limits, the next cycle opens at once and
has them. They hold until a cycle has come to its end. Without a runtime (`volcanoio simulate`) the answer is the
question's `default`; a replay has those that were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from volcanoio.framework.scheduling_effects import Question


class Answer(msgspec.Struct, frozen=True):
    """The JSON that came back, or why none did."""

    value: Any = None
    fault: str = ""


class Unanswered(BaseException):
    """Answers are missing. Raised by `ask`; plugins let it pass."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(f"{len(questions)} questions wait for their answers")
        self.questions = tuple(questions)
