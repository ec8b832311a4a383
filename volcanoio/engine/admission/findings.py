"""What a review found: one line a problem, each with the field, the rule and the next step."""

from __future__ import annotations

from volcanoio.model import durations


class Findings:
    """Gathers problems and warnings, so that all are told at once.

    `strict` turns what we accept with a warning, though Volcano's newest admission refuses it, into a refusal.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.messages: list[str] = []
        self.warnings: list[str] = []
        self._strict = strict

    def refuse(self, field: str, rule: str, advice: str = "") -> None:
        """The object cannot be stored: `field: rule; advice`."""
        self.messages.append(_line(field, rule, advice))

    def pass_on(self, problem: str, advice: str) -> None:
        """A problem that names its field already."""
        self.messages.append(f"{problem}; {advice}")

    def check_duration(self, field: str, text: str | None) -> None:
        """Refuse what is given and is no duration: Volcano cannot read such an object either."""
        try:
            durations.seconds("0" if text is None else text)
        except durations.DurationError as error:
            self.messages.append(f"{field}: {error}")

    def tolerate(self, field: str, rule: str, advice: str) -> None:
        """Accepted with a warning, refused when strict."""
        (self.messages if self._strict else self.warnings).append(_line(field, rule, advice))

    def mention(self, field: str, rule: str, advice: str) -> None:
        """Accepted with a warning, also when strict."""
        self.warnings.append(_line(field, rule, advice))


def _line(field: str, rule: str, advice: str) -> str:
    return f"{field}: {rule}; {advice}" if advice else f"{field}: {rule}"
