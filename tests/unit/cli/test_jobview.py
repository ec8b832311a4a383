"""What `vcctl job view` says of what policies decided."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from volcanoio.cli.jobview import describe
from volcanoio.model import names
from volcanoio.model.batch import Job
from volcanoio.model.core import Event

NOW = datetime(2026, 5, 1, 12, 10, 5, tzinfo=UTC)


def test_a_view_says_why_a_job_waits_and_what_its_tasks_were_given() -> None:
    override = (
        '[{"task":"t","resources":{"main":{"requests":{"memory":"2Gi"},"limits":{"memory":"4Gi"}}},"attempts":2}]'
    )
    status = {
        "state": {"phase": "Pending", "reason": "Hold", "message": "waits for the quota"},
        "controlledResources": {names.OVERRIDES: override},
    }
    text = describe(msgspec.convert({"metadata": {"name": "j"}, "status": status}, Job), (), NOW)
    assert "Hold: waits for the quota" in text
    assert "t main: request memory=2Gi, limit memory=4Gi (attempt 2)" in text


def test_events_have_ages_as_in_kubectl_and_the_last_applied_manifest_is_left_out() -> None:
    once = Event(
        type="Normal", reason="Once", first_timestamp="2026-05-01T12:10:00Z", last_timestamp="2026-05-01T12:10:00Z"
    )
    often = Event(
        type="Warning",
        reason="Often",
        count=3,
        first_timestamp="2026-05-01T12:00:00Z",
        last_timestamp="2026-05-01T12:05:00Z",
    )
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"}
    job = msgspec.convert({"metadata": {"name": "j", "annotations": annotations}}, Job)
    text = describe(job, (once, often), NOW)
    often_line, once_line = text.splitlines()[-2:]
    assert often_line.split()[:6] == ["Warning", "Often", "5m5s", "(x3", "over", "10m)"]
    assert once_line.split()[:3] == ["Normal", "Once", "5s"]
    assert "last-applied" not in text
    assert "team=a" in text
