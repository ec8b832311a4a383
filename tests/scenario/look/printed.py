"""What a command prints while it runs."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest


class Printed:
    """What was printed since the last look, awaited without a pause of the test's own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    async def until(self, wanted: str) -> str:
        """Return everything printed once it contains a text."""
        with anyio.fail_after(20):
            while wanted not in self._text:
                await anyio.lowlevel.checkpoint()
                self._text += self._capsys.readouterr().out
        text, self._text = self._text, ""
        return text
