"""Volumes of the default class: directories under the data directory, created on demand.

All simulated nodes are this machine, so that a directory can be used on any of them and shared by many pods.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Final

from volcanoio.localcluster.apiserver.admission.storage import DEFAULT_CLASS, VOLUME_PROTECTION
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.model.base import Manifest
from volcanoio.model.storage import VOLUMES_REACHABLE

PROVISIONER: Final = "volcanoio.dev/directory"
CLASS_NAME: Final = "standard"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_REMOVED: Final = ".removed"
ELSEWHERE: Final = Path("/var/lib/volcanoio/volumes")
"""Path in volumes of a server without a data directory; no directory is created there."""


def default_storage_class() -> Manifest:
    """Return the storage class of claims that name none."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME, "annotations": {DEFAULT_CLASS: "true", VOLUMES_REACHABLE: "everywhere"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def substitute_class(name: str) -> Manifest:
    """Return the class for claims that name a missing class.

    With it, manifests of other clusters run.

    In a real cluster such a claim stays pending; here it is bound once a pod uses it.
    """
    default = default_storage_class()
    return {**default, "metadata": {"name": name}}


def new_volume(core: Core, claim: Manifest, storage_class: Manifest) -> Manifest:
    """Create the directory of a volume for a claim, and return the volume."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    path = (core.volumes or ELSEWHERE) / name
    if core.volumes is not None:
        core.volumes.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(exist_ok=True)
        path.chmod(0o777)  # for the user of any container; the parent directory is private
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
    """Return the reference from a volume to its claim."""
    metadata = claim["metadata"]
    keys = ("namespace", "name", "uid", "resourceVersion")
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **{key: metadata[key] for key in keys}}


def is_ours(volume: Manifest) -> bool:
    """Return whether the volume is one of our directories."""
    return (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER


def remove_directory(core: Core, volume: Manifest) -> None:
    """Remove the directory of a volume; one outside the data directory is kept."""
    if core.volumes is not None and is_ours(volume):
        path = core.volumes / volume["metadata"]["name"]
        if str(path) == (volume["spec"].get("hostPath") or {}).get("path") and path.is_dir():
            removed = path.with_name(f".{path.name}{_REMOVED}")
            path.rename(removed)
            _remove(removed)


def remove_leftovers(core: Core) -> None:
    """Finish removals that a killed server had begun."""
    if core.volumes is not None and core.volumes.is_dir():
        for removed in core.volumes.glob(f".*{_REMOVED}"):
            _remove(removed)


def _remove(removed: Path) -> None:
    """Remove a directory in a thread, as it may hold many files."""
    threading.Thread(target=shutil.rmtree, args=(removed, True), name="remove volume", daemon=True).start()
