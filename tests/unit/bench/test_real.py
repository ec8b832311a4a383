"""The rows of `bench.real`, and how it counts writes from an audit log; its runs need a real control plane."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import real
from bench.realplane.audit import AuditLog, reads, writes_per_pod
from bench.realplane.rows import Row


def entry(user: str, verb: str, resource: str, code: int, subresource: str = "") -> str:
    reference = {"resource": resource, **({"subresource": subresource} if subresource else {})}
    return json.dumps(
        {"verb": verb, "user": {"username": user}, "objectRef": reference, "responseStatus": {"code": code}}
    )


def test_writes_are_counted_by_user_verb_and_resource(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    assert any(flag == f"--audit-policy-file={tmp_path}/audit-policy.yaml" for flag in log.flags())
    recorded = tmp_path / "audit.log"
    recorded.write_text(entry("scheduler", "create", "pods", 201, "binding") + "\n")
    position = log.position()
    lines = [
        entry("scheduler", "create", "pods", 201, "binding"),
        entry("scheduler", "create", "pods", 409, "binding"),
        entry("scheduler", "watch", "pods", 200),
        entry("controllers", "patch", "jobs", 200, "status"),
        entry("controllers", "patch", "jobs", 200, "status"),
    ]
    with recorded.open("a") as log_file:
        log_file.write("\n".join(lines) + '\n{"verb": "cre')
    requests = list(log.since(position))
    assert writes_per_pod(requests, "scheduler", 2) == {"create pods/binding": 0.5, "create pods/binding (409)": 0.5}
    assert writes_per_pod(requests, "controllers", 1) == {"patch jobs/status": 2}
    assert reads(requests, "scheduler") == {"watch pods": 1}


@pytest.mark.parametrize("text", ["20x50@100", "6x500@1000", "1x1000@100:nogang", "20x1@100:one-by-one"])
def test_rows_are_read_as_they_are_written(text: str) -> None:
    assert str(Row.parse(text)) == text


def test_a_row_without_gangs_needs_one_pod_of_each_job() -> None:
    (manifest,) = Row.parse("1x10:nogang").manifests()
    assert manifest["spec"]["minAvailable"] == 1


def test_a_row_that_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        real.main(["--rows", "20 by 50"])
    assert "write JOBSxPODS" in capsys.readouterr().err
