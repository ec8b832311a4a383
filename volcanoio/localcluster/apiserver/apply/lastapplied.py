"""Objects that were applied client-side before: kubectl's annotation says what (API: well-known annotations)."""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.apply import conform, fieldset
from volcanoio.localcluster.apiserver.apply.compare import compare
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.localcluster.apiserver.apply.owned import claimed
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.localcluster.apiserver.objects import decode, encode
from volcanoio.model.base import Manifest

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL: Final = "kubectl"
"""The one manager that takes over what the annotation says, and keeps it up to date."""
_MAX_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all annotations together (apimachinery: TotalAnnotationSizeLimitB)."""


def unchanged_since(type_: Type, version: str, live: Manifest) -> FieldSet:
    """The fields that were applied client-side and are still as they were applied."""
    text = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        applied = decode(text.encode()) if text else None
    except ValueError:
        return {}
    if not isinstance(applied, dict) or applied.get("apiVersion") != version or conform.problems(type_, applied):
        return {}
    changes = compare(type_, applied, live)
    fields = claimed(type_, applied)
    for gone in changes:
        fields = fieldset.difference(fields, gone)
    return fields


def keep_up(merged: Manifest, config: Manifest) -> Manifest:
    """The merged object with the annotation, if it has one, saying what was applied now."""
    metadata = merged.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return merged
    stated = config.get("metadata") or {}
    if isinstance(stated.get("annotations"), dict):
        others = {key: value for key, value in stated["annotations"].items() if key != ANNOTATION}
        kept = {key: value for key, value in stated.items() if key != "annotations"}
        stated = {**kept, "annotations": others} if others else kept
    text = _sorted({**config, "metadata": stated}) + "\n"
    now = {**annotations, ANNOTATION: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in now.items()) > _MAX_ANNOTATIONS:
        del now[ANNOTATION]
    return {**merged, "metadata": {**metadata, "annotations": now}}


def _sorted(obj: Manifest) -> str:
    return encode(obj, order="sorted").decode()
