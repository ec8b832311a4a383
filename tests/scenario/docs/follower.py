"""Guides of docs/, followed to the letter: their files and commands, in an empty directory, and nothing else."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract.kubectls import installed

DOCS = Path(__file__).parents[3] / "docs"
PATIENCE = 60.0
BACKGROUND = "terminal-1"


class Block(NamedTuple):
    """A code block: its language, what stands beside it (a file's name, a terminal), and its text."""

    language: str
    title: str
    text: str


def blocks(guide: Path) -> list[Block]:
    """The code blocks of a guide."""
    found = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*groups) for groups in found]


class Follower:
    """Does what the guide says in a directory."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._environment = environment
        self._exports: list[str] = []
        self._background: asyncio.subprocess.Process | None = None
        self._said = ""

    async def follow(self, block: Block) -> None:
        """One block: a file to write, a command to run, or what is to be seen."""
        if block.language in ("python", "yaml"):
            path = self._directory / block.title
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
        elif block.language == "sh":
            await self._run(block)
        elif block.title == BACKGROUND:
            await self._hear(block.text.strip())
        elif block.language == "text":
            for line in block.text.splitlines():
                assert " ".join(line.split()) in " ".join(self._said.split()), (line, self._said)

    async def _run(self, block: Block) -> None:
        script = "\n".join(["set -e -o pipefail", *self._exports, block.text])
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", f"exec {block.text}" if block.title == BACKGROUND else script,
            cwd=self._directory, env=self._environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        if block.title == BACKGROUND:
            self._background = process
            return
        reported, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        self._said = reported.decode()
        assert process.returncode == 0, (block.text, self._said)
        self._exports += [line for line in block.text.splitlines() if line.startswith("export ")]

    async def _hear(self, text: str) -> None:
        """Wait until the other terminal says so; a reader who does all as the guide says is warned of nothing."""
        assert self._background is not None
        assert self._background.stdout is not None
        heard = []
        async with asyncio.timeout(PATIENCE):
            async for line in self._background.stdout:
                heard.append(line.decode())
                if text in heard[-1]:
                    return
                assert "[warning" not in heard[-1], heard
        raise AssertionError((text, heard))

    async def end(self) -> None:
        """Ctrl-C in the other terminal."""
        if self._background is not None and self._background.returncode is None:
            self._background.send_signal(signal.SIGINT)
            await asyncio.wait_for(self._background.communicate(), PATIENCE)


@asynccontextmanager
async def following(directory: Path, kubectl: str) -> AsyncIterator[Follower]:
    """Someone with volcanoio and kubectl on the path, in an empty directory."""
    tools = directory / "tools"
    tools.mkdir()
    (tools / "kubectl").symlink_to(kubectl)
    empty = directory / "empty"
    empty.mkdir()
    path = os.pathsep.join((str(Path(sys.executable).parent), str(tools), os.environ["PATH"]))
    follower = Follower(empty, {**os.environ, "PATH": path, "HOME": str(directory)})
    try:
        yield follower
    finally:
        await follower.end()


async def follow(name: str, directory: Path) -> None:
    """Follow a guide from its first block to its last; skips without kubectl and a shell."""
    kubectls = installed()
    if not kubectls or shutil.which("bash") is None:
        pytest.skip("the guide's commands need kubectl and bash")
    async with following(directory, list(kubectls.values())[-1]) as follower:
        for block in blocks(DOCS / name):
            await follower.follow(block)
