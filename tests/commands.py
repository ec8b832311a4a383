"""Commands of volcanoio as processes of their own that begin at once.

A new interpreter takes two seconds to import what `volcanoio up` needs. These are forked from a process that has
imported it already (multiprocessing's fork server), and are otherwise what users start: with arguments, a directory, an
environment, standard streams, signals and an exit code of their own. That the programs themselves start is shown in
tests/packaging, tests/scenario/docs and by those tests of tests/scenario/cluster that run `python -m volcanoio`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import reduction
from pathlib import Path
from typing import Any, Self

import anyio.to_thread

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "volcanoio.cli.main", "volcanoio.cli.serving", "volcanoio.cli.demo", "volcanoio.cli.serving",
        "volcanoio.cli.vcctl", "volcanoio.cli.vcctl.tools", "volcanoio.cli.vcctl.jobs", "volcanoio.cli.vcctl.queues",
        "volcanoio.cli.vcctl.flows", "volcanoio.cli.connection", "volcanoio.compose.local",
    ]
)  # fmt: skip
_SECONDS = 120.0


class _Descriptor:
    """The writing end of a pipe, on its way to a child."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(sent: Any) -> _Descriptor:
    return _Descriptor(sent.detach())


def _main(
    program: str, words: Sequence[str], cwd: str, environment: Mapping[str, str], out: _Descriptor, err: _Descriptor
) -> None:
    """What the child does: become the command, and run it."""
    for number, stream in ((1, out), (2, err)):
        os.dup2(stream.number, number)
        os.close(stream.number)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv = [program, *words]
    if program == "vcctl":
        from volcanoio.cli.vcctl import main
    elif program.startswith("v") and program != "volcanoio":
        from volcanoio.cli.vcctl import tools

        main = getattr(tools, f"{program}_main")
    else:
        from volcanoio.cli.main import main
    main()


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class Command:
    """A running command; leaving its context kills it if need be."""

    def __init__(
        self,
        *words: str,
        program: str = "volcanoio",
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        (read_out, out), (read_err, err) = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(read_out), os.fdopen(read_err)
        given = dict(os.environ if environment is None else environment)
        arguments = (program, words, str(cwd or Path.cwd()), given, _Descriptor(out), _Descriptor(err))
        self._process = _CONTEXT.Process(target=_main, args=arguments, daemon=True)
        try:
            self._process.start()
        finally:
            os.close(out)
            os.close(err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send(signal.SIGKILL)

    def wait(self, seconds: float = _SECONDS) -> int:
        """Its exit code once it has ended, which it must in this time."""
        self._process.join(seconds)
        assert self.code is not None, f"still running after {seconds} s"
        return self.code

    def ended(self, seconds: float = _SECONDS) -> Ended:
        """What it still writes, and how it ends."""
        with ThreadPoolExecutor(2) as readers:
            out, err = readers.submit(self.stdout.read), readers.submit(self.stderr.read)
            try:
                code = self.wait(seconds)
            except AssertionError:
                self.kill()
                raise
            return Ended(code, out.result(), err.result())


def run(
    *words: str, program: str = "volcanoio", cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command to its end."""
    with Command(*words, program=program, cwd=cwd, environment=environment) as command:
        return command.ended()


async def run_aside(*words: str, program: str = "volcanoio", environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end while the event loop goes on."""
    return await anyio.to_thread.run_sync(partial(run, *words, program=program, environment=environment))
