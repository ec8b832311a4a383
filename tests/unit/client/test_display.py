"""Cards for notebooks and lines for terminals."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from volcanoio.client.cards import job_card
from volcanoio.client.progress import progress_text
from volcanoio.model.base import ObjectMeta
from volcanoio.model.batch import Job, JobCondition, JobSpec, JobState, JobStatus, TaskSpec


def job(**status: object) -> Job:
    conditions = (
        JobCondition(status="Pending", last_transition_time="2026-01-01T00:00:00Z"),
        JobCondition(status="Running", last_transition_time="2026-01-01T00:01:00Z"),
        JobCondition(status="Completed", last_transition_time="2026-01-01T00:10:00Z"),
    )
    return Job(
        metadata=ObjectMeta(name="train", namespace="ml", creation_timestamp="2026-01-01T00:00:00Z"),
        spec=JobSpec(queue="<b>", min_available=4, tasks=(TaskSpec(name="worker", replicas=8),)),
        status=JobStatus(**{"state": JobState(phase="Completed"), "conditions": conditions, **status}),  # type: ignore[arg-type]  # literal fields
    )


def test_a_card_is_escaped_and_has_no_script_or_reference() -> None:
    card = job_card(job(state=JobState(phase="Completed", message="<script>alert(1)</script>")), note="")
    ElementTree.fromstring(card)  # raises unless it is well-formed
    assert "<script" not in card
    assert "&lt;b&gt;" in card
    assert not {"href", "src", "url("} & set(card.replace('"', " ").replace("=", " ").split())


def test_a_card_shows_how_long_each_phase_took() -> None:
    card = job_card(job(succeeded=8))
    assert "<title>Pending for 60s</title>" in card
    assert "<title>Running for 9m</title>" in card
    assert "Completed after 10m" in card
    assert "8 succeeded of 8; 4 needed to start" in card


def test_a_line_marks_where_the_gang_is_complete() -> None:
    waiting = job(state=JobState(phase="Pending"), running=2, failed=1, conditions=())
    assert progress_text(waiting, "QueueQuota, number 2 in ml", 125) == (
        "train  Pending  ██████░░|░░░░░░░ 3/8  1 failed  2m5s  QueueQuota, number 2 in ml"
    )
