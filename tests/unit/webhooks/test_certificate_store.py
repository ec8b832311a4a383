"""Certificates in a Secret that replicas share, and in files that change."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

import anyio
import pytest

from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.framework.probe import NoProbe
from volcanoio.kube.client import Client
from volcanoio.kube.transport import RequestOptions, Response
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks.certificate_store import FileCertificates, SecretCertificates, SecretName
from volcanoio.runtime.webhooks.certificates import SERVING_VALIDITY, CertificateError, Certificates, create, problem_of

NAMES = ("admission", "admission.default", "admission.default.svc")
SECRET = SecretName("default", "volcano-admission-secret")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = ("tls.crt", "tls.key", "ca.crt", "ca.key")


@asynccontextmanager
async def server() -> AsyncIterator[InProcessTransport]:
    async with ApiServer.open(None).running() as api:
        yield InProcessTransport(api)


def replica(transport: InProcessTransport, clock: VirtualClock) -> SecretCertificates:
    return SecretCertificates(Client(transport), SECRET, NAMES, clock=clock, probe=NoProbe())


def clock() -> VirtualClock:
    return VirtualClock(NOW.timestamp())


async def stored(transport: InProcessTransport) -> Certificates:
    data = (await Client(transport).get_raw(kinds.SECRET, SECRET.name, SECRET.namespace))["data"]
    return Certificates(*(base64.b64decode(data[name]) for name in FIELDS if name in data))


async def put(transport: InProcessTransport, held: Certificates, **metadata: str) -> None:
    """Store certificates as another program does: without the authority's key."""
    data = {name: base64.b64encode(pem).decode() for name, pem in zip(FIELDS[:3], held, strict=False)}
    manifest: Manifest = {"metadata": {**SECRET._asdict(), **metadata}, "data": data}
    await Client(transport).create(kinds.SECRET, manifest)


async def test_a_missing_secret_is_created() -> None:
    async with server() as transport:
        held = await replica(transport, clock()).load()
        assert problem_of(held, NAMES, NOW) == ""
        assert await stored(transport) == held


class Meeting(InProcessTransport):
    """A transport whose first two writes of a Secret meet: neither is sent before both were wanted."""

    def __init__(self, transport: InProcessTransport) -> None:
        self.__dict__.update(transport.__dict__)
        self.waiting = anyio.Event()
        self.writers = 0

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        if method in ("POST", "PATCH"):
            self.writers += 1
            if self.writers == 2:
                self.waiting.set()
            await self.waiting.wait()
        return await super().request(method, path, **options)


async def both(transport: InProcessTransport, time: VirtualClock) -> list[Certificates]:
    """What two replicas use that read and write at the same time."""
    meeting, found = Meeting(transport), list[Certificates]()

    async def load() -> None:
        found.append(await replica(meeting, time).load())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(load)
        tasks.start_soon(load)
    assert meeting.writers == 2
    return found


async def test_two_replicas_that_create_the_secret_at_once_agree() -> None:
    async with server() as transport:
        assert await both(transport, clock()) == [await stored(transport)] * 2


async def test_two_replicas_that_renew_at_once_agree() -> None:
    async with server() as transport:
        time = clock()
        first = await replica(transport, time).load()
        await time.advance(SERVING_VALIDITY.total_seconds() * 0.7)
        renewed = await both(transport, time)
        assert renewed == [await stored(transport)] * 2
        assert renewed[0].certificate != first.certificate


async def test_a_running_replica_adopts_what_another_one_renewed() -> None:
    async with server() as transport:
        time, adopted = clock(), list[Certificates]()
        certificates = replica(transport, time)
        held, fresh = await certificates.load(), create(NAMES, NOW)

        async def adopt(new: Certificates) -> None:
            adopted.append(new)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(certificates.run, adopt)
            await time.advance(60)
            data = {name: base64.b64encode(pem).decode() for name, pem in zip(FIELDS, fresh, strict=True)}
            await Client(transport).patch(kinds.SECRET, SECRET.name, {"data": data}, SECRET.namespace)
            await time.advance(60)
            tasks.cancel_scope.cancel()
        assert adopted == [held, fresh]


async def test_a_secret_of_another_program_is_used_and_not_written() -> None:
    theirs = create(NAMES, NOW)._replace(authority_key=b"")
    async with server() as transport:
        await put(transport, theirs)
        assert await replica(transport, clock()).load() == theirs
        assert await stored(transport) == theirs


async def test_an_invalid_secret_is_replaced_and_keeps_its_other_fields() -> None:
    async with server() as transport:
        await put(transport, create(("other",), NOW))
        patch = {"data": {"mine": base64.b64encode(b"x").decode()}}
        await Client(transport).patch(kinds.SECRET, SECRET.name, patch, SECRET.namespace)
        held = await replica(transport, clock()).load()
        assert problem_of(held, NAMES, NOW) == ""
        kept = await Client(transport).get_raw(kinds.SECRET, SECRET.name, SECRET.namespace)
        assert "mine" in kept["data"]


@pytest.mark.parametrize("data", [{}, {"tls.crt": "", "tls.key": "", "ca.crt": ""}])
async def test_an_empty_secret_is_filled(data: dict[str, str]) -> None:
    async with server() as transport:
        await Client(transport).create(kinds.SECRET, {"metadata": SECRET._asdict(), "data": data})
        assert problem_of(await replica(transport, clock()).load(), NAMES, NOW) == ""


class Files:
    """The three files of a certificate."""

    def __init__(self, directory: Path) -> None:
        self.paths = tuple(directory / name for name in FIELDS[:3])

    def write(self, held: Certificates) -> Certificates:
        held = held._replace(authority_key=b"")
        for path, pem in zip(self.paths, held, strict=False):
            path.write_bytes(pem)
        return held

    def source(self, time: VirtualClock) -> FileCertificates:
        certificate, key, bundle = self.paths
        return FileCertificates(certificate, key, bundle, clock=time, probe=NoProbe())


async def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    files, time, adopted = Files(tmp_path), clock(), list[Certificates]()
    held = files.write(create(NAMES, NOW))
    source = files.source(time)
    assert await source.load() == held
    changed = anyio.Event()

    async def adopt(new: Certificates) -> None:
        adopted.append(new)
        changed.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.run, adopt)
        files.paths[0].write_bytes(b"half")
        await time.advance(5)
        fresh = files.write(create(NAMES, NOW))
        while not changed.is_set():  # files are read on a thread
            await time.advance(5)
        tasks.cancel_scope.cancel()
    assert adopted == [fresh]


def test_files_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path) -> None:
    files, time = Files(tmp_path), clock()
    with pytest.raises(CertificateError, match=r"tls\.crt: No such file or directory; give a file"):
        files.source(time)
    files.write(create(NAMES, NOW)._replace(key=create(NAMES, NOW).key))
    with pytest.raises(CertificateError, match=r"--tls-cert-file .*: the key is not that of the certificate"):
        files.source(time)
