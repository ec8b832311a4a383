"""What stands for an image's entry point: there are no images here, only commands of this machine."""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterable

_RULE = "write IMAGE=COMMAND, for example nginx*=nginx -g 'daemon off;'"


class ImageMapError(ValueError):
    """An entry that cannot be read; the text says which and the rule."""


class Images:
    """Commands by image. A pattern may hold `*`; the first that fits an image, with or without its tag, counts."""

    def __init__(self, commands: Iterable[tuple[str, list[str]]] = ()) -> None:
        self._commands = tuple(commands)

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Images:
        """From texts `IMAGE=COMMAND`; raises ImageMapError."""
        commands = []
        for entry in entries:
            pattern, equals, text = entry.partition("=")
            try:
                words = shlex.split(text)
            except ValueError as error:
                raise ImageMapError(f"{entry!r}: {error}; {_RULE}") from None
            if not pattern.strip() or not equals or not words:
                raise ImageMapError(f"{entry!r}: {_RULE}")
            commands.append((pattern.strip(), words))
        return cls(commands)

    def entrypoint(self, image: str) -> list[str]:
        """The command of an image's containers; empty when none is known."""
        bare = image.partition("@")[0]
        name, _, tag = bare.rpartition(":")
        untagged = name if name and "/" not in tag else bare
        for pattern, words in self._commands:
            if fnmatch.fnmatchcase(bare, pattern) or fnmatch.fnmatchcase(untagged, pattern):
                return words
        return []
