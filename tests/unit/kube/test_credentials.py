"""Credentials that expire or are refused: renewed once for all, in the background while the old ones are valid."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from volcanoio.kube.credentials.sources import CredentialsError, Issued, RenewedCredentials, TokenFile


@dataclass
class Clock:
    time: float = 1000.0

    def __call__(self) -> float:
        return self.time


@dataclass
class Program:
    """Issues `token-1`, `token-2` and so on, each for `lifetime` seconds, while `open` is set."""

    clock: Clock
    lifetime: float = float("inf")
    runs: int = 0
    error: str = ""
    open: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.open.set()

    def __call__(self, before: Issued | None) -> Issued:
        self.runs += 1
        if self.runs == 2:
            self.started.set()
        assert self.open.wait(60)
        if self.error:
            raise CredentialsError(self.error)
        return Issued(f"token-{self.runs}", expires=self.clock.time + self.lifetime)


async def test_refused_credentials_are_issued_once_for_all_that_wait() -> None:
    clock = Clock()
    program = Program(clock)
    credentials = RenewedCredentials(program, now=clock)
    assert await credentials.header() == "token-1"
    clock.time += 60
    refused = [credentials.header(refused="token-1") for _ in range(20)]
    assert set(await asyncio.gather(*refused)) == {"token-2"}
    assert await credentials.header(refused="token-1") == "token-2"  # one that was sent before the renewal
    assert program.runs == 2


async def test_a_server_that_refuses_everything_starts_the_program_at_intervals_only() -> None:
    clock = Clock()
    program = Program(clock)
    credentials = RenewedCredentials(program, now=clock)
    for _ in range(100):
        header = await credentials.header()
        await credentials.header(refused=header)
        clock.time += 0.1
    assert program.runs <= 3


@pytest.mark.parametrize(("lifetime", "lead"), [(3600.0, 60.0), (120.0, 30.0), (20.0, 5.0)])
async def test_a_token_is_renewed_shortly_before_it_expires_and_not_earlier(lifetime: float, lead: float) -> None:
    clock = Clock()
    program = Program(clock, lifetime)
    credentials = RenewedCredentials(program, now=clock)
    await credentials.header()
    clock.time += lifetime - lead - 1
    assert await credentials.header() == "token-1"
    assert program.runs == 1
    clock.time += 2
    assert await credentials.header() == "token-1"
    clock.time += lead
    assert await credentials.header() == "token-2"
    assert program.runs == 2


async def test_no_request_waits_for_a_renewal_while_the_old_token_is_valid() -> None:
    clock = Clock()
    program = Program(clock, 100)
    credentials = RenewedCredentials(program, now=clock)
    await credentials.header()
    clock.time += 80
    program.open.clear()
    assert await credentials.header() == "token-1"
    await asyncio.to_thread(program.started.wait, 60)
    assert await credentials.header() == "token-1"

    def elsewhere() -> str:
        """Ask as leader election does: on a thread, in an event loop of its own."""
        return asyncio.run(credentials.header())

    assert await asyncio.to_thread(elsewhere) == "token-1"
    clock.time += 30
    waiting = asyncio.create_task(credentials.header())
    other = asyncio.create_task(asyncio.to_thread(elsewhere))
    await asyncio.sleep(0)
    impatient = asyncio.create_task(credentials.header())
    await asyncio.sleep(0)
    impatient.cancel()  # the others still get the token
    program.open.set()
    assert await waiting == await other == "token-2"
    assert program.runs == 2


async def test_a_failed_renewal_keeps_the_old_token_until_it_expires() -> None:
    clock = Clock()
    program = Program(clock, 100)
    credentials = RenewedCredentials(program, now=clock)
    await credentials.header()
    program.error = "the provider is down"
    clock.time += 90
    assert await credentials.header() == "token-1"
    await asyncio.to_thread(program.started.wait, 60)
    clock.time += 11
    with pytest.raises(CredentialsError, match="the provider is down"):
        await credentials.header()
    program.error = ""
    clock.time += 11
    assert (await credentials.header()).startswith("token-")


async def test_an_unforeseen_error_of_a_program_is_one_of_ours() -> None:
    def issue(_: Issued | None) -> Issued:
        raise KeyError("refresh_token")

    with pytest.raises(CredentialsError, match="raised KeyError; see the log"):
        await RenewedCredentials(issue).header()


async def test_a_token_file_that_is_being_replaced_keeps_the_old_token(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "token"
    path.write_text("one\n")
    credentials = TokenFile(path, clock)
    for content, header in (("", "Bearer one"), ("two", "Bearer two"), ("th\nree", "Bearer two"), (None, "Bearer two")):
        path.write_text(content) if content is not None else path.unlink()
        clock.time += 31
        assert await credentials.header() == header
    path.write_text("four")
    assert await credentials.header() == "Bearer two"  # read every 30 s
    assert await credentials.header(refused="Bearer two") == "Bearer four"


def test_a_token_file_without_a_token_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="No such file"):
        TokenFile(tmp_path / "token")
    (tmp_path / "token").touch()
    with pytest.raises(CredentialsError, match="empty"):
        TokenFile(tmp_path / "token")
