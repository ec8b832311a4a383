"""Volumes of a job: which claims they need, how they are named, and what is missing.

Volcano draws a random claim name and writes it back into the Job's spec; here the name is a hash of the job's uid and
the mount path, so that it need not be remembered anywhere.
"""

from __future__ import annotations

import hashlib

import msgspec

from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, VolumeSpec
from volcanoio.model.references import owner_reference

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX = 12


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `spec.volumes`: the pod volume's name and the claim, "" for an emptyDir.

    `manifest` is the claim to create when it is absent, None when the user must bring it.
    """

    path: str
    volume: str
    claim: str = ""
    manifest: Manifest | None = None
    generated: bool = False


def suffix(job: Job, seed: str) -> str:
    """Twelve characters of [0-9a-z] that depend on the job's uid and the seed alone."""
    number = int.from_bytes(hashlib.sha256(f"{job.metadata.uid}/{seed}".encode()).digest()[:16])
    letters = []
    for _ in range(_SUFFIX):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def mounts(job: Job) -> tuple[Mount, ...]:
    """The job's volumes in order; a second entry with the same claim is skipped, as in Volcano."""
    result: list[Mount] = []
    seen: set[str] = set()
    for volume in job.spec.volumes:
        mount = _mount(job, volume)
        if mount.claim and mount.claim in seen:
            continue
        seen.add(mount.claim)
        result.append(mount)
    return tuple(result)


def _mount(job: Job, volume: VolumeSpec) -> Mount:
    name = f"{job.metadata.name}-{suffix(job, volume.mount_path)}"
    claim = volume.volume_claim_name
    generated = not claim and volume.volume_claim is not None
    if generated:
        claim = f"{job.metadata.name}-pvc-{suffix(job, volume.mount_path)}"
    manifest = _claim_manifest(job, claim, volume.volume_claim) if volume.volume_claim is not None else None
    return Mount(path=volume.mount_path, volume=name, claim=claim, manifest=manifest, generated=generated)


def _claim_manifest(job: Job, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": kinds.PVC.api_version,
        "kind": kinds.PVC.kind,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "ownerReferences": [owner_reference(kinds.JOB, job)],
        },
        "spec": spec,
    }
