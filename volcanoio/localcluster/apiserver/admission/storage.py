"""Admission of volumes and claims: protection from deletion in use, the default class, and growth.

Kubernetes: plugin/pkg/admission/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from volcanoio.localcluster.apiserver.admission.resource_amounts import amount
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.clock import parse_rfc3339
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core


CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
CLASSES: Final = "storageclasses.storage.k8s.io"


def protect_claim(claim: Manifest, namespace: str, core: Core) -> None:
    """Add the finalizer that keeps a claim while a pod uses it."""
    del namespace, core
    _add_finalizer(claim, CLAIM_PROTECTION)


def protect_volume(volume: Manifest, namespace: str, core: Core) -> None:
    """Add the finalizer that keeps a volume while a claim is bound to it."""
    del namespace, core
    _add_finalizer(volume, VOLUME_PROTECTION)


def _add_finalizer(obj: Manifest, name: str) -> None:
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if name not in finalizers:
        metadata["finalizers"] = [*finalizers, name]


def set_default_class(claim: Manifest, namespace: str, core: Core) -> None:
    """Set the default class on a claim that names none."""
    del namespace
    spec = claim["spec"]
    if spec.get("storageClassName") is not None or CLASS_ANNOTATION in (claim["metadata"].get("annotations") or {}):
        return
    name = default_class(core)
    if name:
        spec["storageClassName"] = name


def default_class(core: Core) -> str:
    """Return the default class, the newest one when there are several; empty when there is none."""
    found: list[tuple[float, str]] = []
    for stored in core.store.collection(CLASSES).objects.values():
        if DEFAULT_CLASS.encode() not in stored.data:
            continue
        metadata = stored.decode()["metadata"]
        if (metadata.get("annotations") or {}).get(DEFAULT_CLASS) == "true":
            found.append((-parse_rfc3339(metadata["creationTimestamp"]).timestamp(), stored.name))
    return min(found)[1] if found else ""


def check_growth(claim: Manifest, old: Manifest, core: Core) -> None:
    """Refuse the growth of a claim whose class does not allow it; raises ApiError 403."""
    wanted, had = (((one["spec"].get("resources") or {}).get("requests") or {}).get("storage") for one in (claim, old))
    if wanted is None or had is None or amount(wanted).value <= amount(had).value:
        return
    resource, name = core.registry.builtin("persistentvolumeclaims"), claim["metadata"]["name"]
    if (old.get("status") or {}).get("phase") != "Bound":
        raise errors.forbidden(resource, name, "Only bound persistent volume claims can be expanded")
    class_ = old["spec"].get("storageClassName")
    stored = core.store.get(Ref(CLASSES, "", class_)) if class_ else None
    if stored is None or not stored.decode().get("allowVolumeExpansion"):
        text = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
        raise errors.forbidden(resource, name, text)
