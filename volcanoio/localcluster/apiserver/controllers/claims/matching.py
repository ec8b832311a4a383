"""Which volume a claim gets: the smallest that has its class, modes, labels and size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from volcanoio.localcluster.apiserver.plugins.amounts import ZERO, Amount, amount
from volcanoio.localcluster.apiserver.selectors import matches_label_selector
from volcanoio.model.base import Manifest

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def requested(claim: Manifest) -> Amount:
    """The size a claim asks for."""
    text = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    return ZERO if text is None else amount(text)


def capacity(volume: Manifest) -> Amount:
    """The size a volume has."""
    text = (volume["spec"].get("capacity") or {}).get("storage")
    return ZERO if text is None else amount(text)


def class_of(obj: Manifest) -> str:
    """The class of a claim or a volume; empty for none."""
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(CLASS_ANNOTATION) or obj["spec"].get("storageClassName") or "")


def refers_to(volume: Manifest, claim: Manifest) -> bool:
    """Whether a volume is reserved for this very claim, or for one of its name."""
    reference, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference or (reference.get("namespace"), reference.get("name")) != (
        metadata["namespace"],
        metadata["name"],
    ):
        return False
    return reference.get("uid", "") in {"", metadata["uid"]}


def fits(volume: Manifest, claim: Manifest) -> bool:
    """Whether a volume has what a claim asks for, apart from its size."""
    spec, wanted = volume["spec"], claim["spec"]
    if (spec.get("volumeMode") or "Filesystem") != (wanted.get("volumeMode") or "Filesystem"):
        return False
    if class_of(volume) != class_of(claim):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    selector = wanted.get("selector")
    return not selector or matches_label_selector(selector, volume["metadata"].get("labels") or {})


def best_volume(volumes: Iterable[Manifest], claim: Manifest, *, reserved_only: bool) -> Manifest | None:
    """The volume for a claim: one reserved for it, else the smallest that fits.

    A claim that waits for its first consumer gets none but a reserved one (`reserved_only`).
    """
    size = requested(claim).value
    candidates: list[tuple[Amount, str, Manifest]] = []
    for volume in volumes:
        if volume["metadata"].get("deletionTimestamp") or capacity(volume).value < size:
            continue
        if refers_to(volume, claim):
            return volume
        if reserved_only or volume["spec"].get("claimRef") or not fits(volume, claim):
            continue
        candidates.append((capacity(volume), volume["metadata"]["name"], volume))
    return min(candidates, key=lambda one: (one[0].value, one[1]))[2] if candidates else None
