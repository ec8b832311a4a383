"""A Job names the user who created it, which that user can neither choose nor change."""

from __future__ import annotations

from typing import Any

import pytest

from volcanoio.engine.admission.request import AdmissionSettings, Operation, ReviewRequest
from volcanoio.engine.admission.review import review, with_defaults
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks.reviewer import Snapshot

CREATOR = "volcanoio.dev/creator"
SETTINGS = AdmissionSettings(trusted_users=("controllers",))
SPEC = {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {}}}]}


def manifest(annotations: dict[str, str] | None) -> Manifest:
    metadata: Manifest = {"name": "train", "namespace": "ml"}
    return {"metadata": metadata if annotations is None else {**metadata, "annotations": annotations}, "spec": SPEC}


@pytest.mark.parametrize(
    ("username", "given", "stored"),
    [
        ("ann", None, {CREATOR: "ann"}),
        ("ann", {CREATOR: "bob", "note": "x"}, {CREATOR: "ann", "note": "x"}),
        ("controllers", {CREATOR: "bob"}, {}),  # a template cannot name somebody either
        ("controllers", None, None),
        ("", {"note": "x"}, {"note": "x"}),
    ],
)
def test_the_creator_is_the_author_of_the_request(
    username: str, given: dict[str, str] | None, stored: dict[str, str] | None
) -> None:
    request = ReviewRequest(
        operation=Operation.CREATE, resource=kinds.JOB.resource, object=manifest(given), username=username
    )
    made = with_defaults(request, Snapshot(()), SETTINGS).object
    assert made is not None
    assert made["metadata"].get("annotations") == stored


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ({CREATOR: "ann"}, {CREATOR: "ann", "note": "x"}, True),
        ({CREATOR: "ann"}, {}, True),
        ({CREATOR: "ann"}, {CREATOR: "bob"}, False),
        ({}, {CREATOR: "bob"}, False),
    ],
)
def test_an_update_may_not_name_another_creator(before: dict[str, str], after: dict[str, str], allowed: bool) -> None:
    asked: dict[str, Any] = {"object": manifest(after), "old": manifest(before), "username": "bob"}
    request = ReviewRequest(operation=Operation.UPDATE, resource=kinds.JOB.resource, **asked)
    found = review(request, Snapshot(()), SETTINGS)
    refusal = (
        f"metadata.annotations[{CREATOR}]: it is set when the Job is created; leave the annotation out, or as it is"
    )
    assert found.messages == (() if allowed else (refusal,))
