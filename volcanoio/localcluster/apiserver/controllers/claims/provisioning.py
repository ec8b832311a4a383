"""Volumes of the default class: directories under the data directory, made when a claim wants one.

All simulated nodes are this machine, so that a directory is as good on one as on another and may be
shared by many pods.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.plugins.storage import DEFAULT_CLASS, VOLUME_PROTECTION
from volcanoio.model.base import Manifest
from volcanoio.model.storage import VOLUMES_REACHABLE

PROVISIONER: Final = "volcanoio.dev/directory"
CLASS_NAME: Final = "standard"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_DOOMED: Final = ".removed"
ELSEWHERE: Final = Path("/var/lib/volcanoio/volumes")
"""Where volumes of a server without a data directory are said to be; nothing is made there."""


def default_storage_class() -> Manifest:
    """The class of claims that name none."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME, "annotations": {DEFAULT_CLASS: "true", VOLUMES_REACHABLE: "everywhere"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def stand_in(name: str) -> Manifest:
    """The class of claims that name one which does not exist here: manifests written for another cluster run, too.

    A real cluster leaves such a claim pending for ever; here it is bound once there is a pod that uses it.
    """
    default = default_storage_class()
    return {**default, "metadata": {"name": name}}


def new_volume(core: Core, claim: Manifest, storage_class: Manifest) -> Manifest:
    """A volume for a claim, with its directory."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    path = (core.volumes or ELSEWHERE) / name
    if core.volumes is not None:
        core.volumes.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(exist_ok=True)
        path.chmod(0o777)  # to whatever user a container has; nobody else gets as far
    now = core.now()
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "uid": core.new_uid(),
            "creationTimestamp": now,
            "annotations": {PROVISIONED_BY: PROVISIONER},
            "finalizers": [VOLUME_PROTECTION],
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "claimRef": claim_reference(claim),
            "hostPath": {"path": str(path), "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": spec.get("volumeMode") or "Filesystem",
        },
        "status": {"phase": "Pending", "lastPhaseTransitionTime": now},
    }


def claim_reference(claim: Manifest) -> Manifest:
    """How a volume names the claim it belongs to."""
    metadata = claim["metadata"]
    keys = ("namespace", "name", "uid", "resourceVersion")
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **{key: metadata[key] for key in keys}}


def is_ours(volume: Manifest) -> bool:
    """Whether the volume is a directory of ours."""
    return (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER


def remove_directory(core: Core, volume: Manifest) -> None:
    """Remove the directory of a volume; one outside our own place is left alone."""
    if core.volumes is not None and is_ours(volume):
        path = core.volumes / volume["metadata"]["name"]
        if str(path) == (volume["spec"].get("hostPath") or {}).get("path") and path.is_dir():
            doomed = path.with_name(f".{path.name}{_DOOMED}")
            path.rename(doomed)
            _remove(doomed)


def remove_leftovers(core: Core) -> None:
    """Remove what a server that was killed had begun to remove."""
    if core.volumes is not None and core.volumes.is_dir():
        for doomed in core.volumes.glob(f".*{_DOOMED}"):
            _remove(doomed)


def _remove(doomed: Path) -> None:
    """In a thread: what a job has left may be many files."""
    threading.Thread(target=shutil.rmtree, args=(doomed, True), name="remove volume", daemon=True).start()
