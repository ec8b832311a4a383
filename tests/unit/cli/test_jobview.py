"""What `vcctl job view` says of what policies decided."""

from __future__ import annotations

import msgspec

from volcanoio.cli.jobview import describe
from volcanoio.model import names
from volcanoio.model.batch import Job


def test_a_view_says_why_a_job_waits_and_what_its_tasks_were_given() -> None:
    override = (
        '[{"task":"t","resources":{"main":{"requests":{"memory":"2Gi"},"limits":{"memory":"4Gi"}}},"attempts":2}]'
    )
    status = {
        "state": {"phase": "Pending", "reason": "Hold", "message": "waits for the quota"},
        "controlledResources": {names.OVERRIDES: override},
    }
    text = describe(msgspec.convert({"metadata": {"name": "j"}, "status": status}, Job), ())
    assert "Hold: waits for the quota" in text
    assert "t main: request memory=2Gi, limit memory=4Gi (attempt 2)" in text
