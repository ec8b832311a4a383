"""Builds a large cluster from one running job: the JSON that a cluster stored for it, under other names and uids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from bench.users import NAMESPACE, job_manifest
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.kube.client import Client
from volcanoio.kube.errors import check
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.kinds import Kind

NAME = "specimen"
OWNED = (kinds.JOB, kinds.POD_GROUP, kinds.POD)
UNOWNED = (kinds.QUEUE,)
SIZE = 10
"""Pods of a job."""
_TIME = rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_UID = re.compile(rb'"uid":"([0-9a-f-]{36})"')


@dataclass(frozen=True, slots=True)
class Piece:
    """One object: its kind, its name and its JSON."""

    kind: Kind
    name: str
    data: bytes


async def specimen() -> list[Piece]:
    """Return the stored objects of a job with `SIZE` running pods: Job, PodGroup, pods, and the queues."""
    options = LocalOptions.parse(nodes=2, node_resources="cpu=16,memory=64Gi,pods=110")
    async with LocalCluster(options) as cluster:
        client = Client(cluster.transport)
        async with client.watch(kinds.JOB, NAMESPACE) as changes:
            manifest = job_manifest(NAME, SIZE)
            manifest["spec"]["policies"] = [{"event": "PodFailed", "action": "RestartJob"}]
            await cluster.submit(manifest)
            async for change in changes:
                if isinstance(change.object, Job) and change.object.status.running == SIZE:
                    break
        found = []
        for kind in (*OWNED, *UNOWNED):
            namespace = NAMESPACE if kind.namespaced else ""
            for obj in await client.list(kind, namespace):
                answer = await cluster.transport.request("GET", kind.path(namespace, obj.metadata.name))
                check(answer)
                found.append(Piece(kind, obj.metadata.name, answer.body))
        return found


def copies(pieces: list[Piece], jobs: int) -> Iterator[Piece]:
    """Yield the objects of so many such jobs; objects without an owning job occur once."""
    yield from (piece for piece in pieces if piece.kind in UNOWNED)
    owned = [piece for piece in pieces if piece.kind in OWNED]
    own = {uid for piece in owned for uid in _UID.findall(piece.data)}
    pattern = re.compile(b"|".join([NAME.encode(), _TIME, *(re.escape(uid) for uid in own)]))
    for number in range(jobs):
        name, head = f"job-{number:05}".encode(), b"%08x" % number
        hour = b"T%02d:%02d:%02d" % (number // 3600 % 24, number // 60 % 60, number % 60)

        def renamed(found: re.Match[bytes], name: bytes = name, head: bytes = head, hour: bytes = hour) -> bytes:
            """Return the object with another name or uid and other times, as jobs are created at different times."""
            text = found.group()
            if text == NAME.encode():
                return name
            return text[:10] + hour + text[19:] if text[10:11] == b"T" else head + text[8:]

        for piece in owned:
            yield Piece(piece.kind, piece.name.replace(NAME, name.decode()), pattern.sub(renamed, piece.data))


def as_kept(piece: Piece, **status: object) -> Piece:
    """Return the object with other status fields."""
    obj = msgspec.json.decode(piece.data)
    obj["status"] = {**obj["status"], **status}
    return Piece(piece.kind, piece.name, msgspec.json.encode(obj))
