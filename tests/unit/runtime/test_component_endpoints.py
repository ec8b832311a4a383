"""Endpoints of components over real sockets on free ports."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path

import aiohttp
import pytest

from tests.realcluster.certificates import Authority
from volcanoio.runtime.endpoints import (
    EndpointError,
    Health,
    Profiles,
    TlsFiles,
    metrics_handler,
    sample,
    serving,
)
from volcanoio.runtime.metrics import PrometheusProbe


async def got(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as answer:
        return answer.status, await answer.text()


async def test_health_follows_the_checks() -> None:
    problems = {"stuck": "", "unready": "not everything is listed yet"}
    health = Health(lambda: problems["stuck"], lambda: problems["unready"])
    async with serving("127.0.0.1", 0, health.handlers()) as port, aiohttp.ClientSession() as session:
        base = f"http://127.0.0.1:{port}"
        assert await got(session, f"{base}/healthz") == (200, "ok")
        assert await got(session, f"{base}/healthz/ping") == (200, "ok")
        assert await got(session, f"{base}/livez") == (200, "ok")
        assert await got(session, f"{base}/readyz") == (500, "not everything is listed yet")
        problems.update(stuck="no progress for 61 s", unready="")
        assert await got(session, f"{base}/livez") == (500, "no progress for 61 s")
        assert await got(session, f"{base}/readyz") == (200, "ok")
        assert await got(session, f"{base}/healthz") == (200, "ok")  # as Volcano's, which only shows that it answers
        assert (await got(session, f"{base}/metrics"))[0] == 404


async def test_metrics_are_in_prometheus_format() -> None:
    probe = PrometheusProbe(process=False)
    probe.count("volcano_job_completed_phase_count", 3.0, job_name="a/b")
    handlers = {"/metrics": metrics_handler(probe.render)}
    async with (
        serving("127.0.0.1", 0, handlers) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert 'volcano_job_completed_phase_count{job_name="a/b"} 3.0' in await answer.text()


async def test_with_the_three_files_endpoints_are_served_by_https(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    files = TlsFiles(tmp_path / "ca.crt", *authority.server("component").write(tmp_path, "tls"))
    trust = ssl.create_default_context(cadata=authority.pem.decode())
    health = Health(lambda: "", lambda: "")
    async with (
        serving("127.0.0.1", 0, health.handlers(), tls=files.context()) as port,
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}/healthz", ssl=trust) as answer,
    ):
        assert await answer.text() == "ok"


def test_files_that_are_no_certificates_are_an_error(tmp_path: Path) -> None:
    for name in ("ca", "crt", "key"):
        (tmp_path / name).write_text("nothing")
    with pytest.raises(EndpointError, match=r"the certificates cannot be used: .*; give PEM files"):
        TlsFiles(tmp_path / "ca", tmp_path / "crt", tmp_path / "key").context()


async def test_an_address_in_use_is_an_error_with_the_next_step() -> None:
    async with serving("127.0.0.1", 0, {}) as port:
        with pytest.raises(EndpointError, match=rf"cannot listen at 127.0.0.1:{port}: .*; choose another address"):
            async with serving("127.0.0.1", port, {}):
                pass


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "301", "nan"])
async def test_the_length_of_a_profile_is_checked(seconds: str) -> None:
    async with (
        serving("127.0.0.1", 0, {"/debug/profile": Profiles().answer}) as port,
        aiohttp.ClientSession() as session,
    ):
        status, text = await got(session, f"http://127.0.0.1:{port}/debug/profile?seconds={seconds}")
        assert (status, text) == (
            400,
            f'seconds: "{seconds}" is not a number from 0 to 300; write ?seconds=30\n',
        )


async def test_one_profile_is_taken_at_a_time() -> None:
    profiles = Profiles()
    async with serving("127.0.0.1", 0, {"/debug/profile": profiles.answer}) as port, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{port}/debug/profile?seconds=0.05"
        answers = await asyncio.gather(got(session, url), got(session, url))
        assert sorted(status for status, _ in answers) == [200, 409]


def test_a_profile_contains_the_functions_in_which_threads_are() -> None:
    begun, end = threading.Event(), threading.Event()

    def waits_here() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=waits_here, name="worker;1")
    thread.start()
    begun.wait()
    try:
        text = sample(0.0)
    finally:
        end.set()
        thread.join()
    line = next(line for line in text.splitlines() if "waits_here" in line)
    stack, _, count = line.rpartition(" ")
    assert stack.split(";")[0] == "worker:1"
    assert count == "1"
