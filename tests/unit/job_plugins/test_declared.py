"""The `declared` policy: what `spec.policies` means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from volcanoio_policies.declared import Declared

from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.decisions import Abstain, Act, Alert, Decision
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyContext
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobAction


async def decide(event: str, policies: Any = (), task_policies: Any = (), **fields: Any) -> Decision:
    tasks = [{"name": "other", "replicas": 1}, {"name": "t", "replicas": 1, "policies": list(task_policies)}]
    job = msgspec.convert({"spec": {"tasks": tasks, "policies": list(policies)}}, Job)
    happened = LifecycleEvent(name=event, job_uid="u", version=0, task=fields.pop("task", "t"), **fields)
    return await Declared().decide(PolicyContext(event=happened, job=job, pods=(), now=0.0))


ANY = {"event": "*", "action": "RestartJob"}
SEVERAL = {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}


@pytest.mark.parametrize(
    ("event", "policies", "task_policies", "fields", "answer"),
    [
        ("PodFailed", [], [], {}, Abstain()),
        ("PodFailed", [ANY], [], {}, Act(action=JobAction.RESTART_JOB)),
        ("PodFailed", [{"event": "PodEvicted", "action": "AbortJob"}, ANY], [], {}, Act(action=JobAction.RESTART_JOB)),
        ("PodFailed", [ANY], [{"event": "PodFailed", "action": "AbortJob"}], {}, Act(action=JobAction.ABORT_JOB)),
        ("PodFailed", [ANY], [{"event": "TaskFailed", "action": "AbortJob"}], {}, Act(action=JobAction.RESTART_JOB)),
        ("Unknown", [ANY], [{**ANY, "action": "AbortJob"}], {"task": ""}, Act(action=JobAction.RESTART_JOB)),
        ("PodEvicted", [SEVERAL], [], {}, Act(action=JobAction.RESTART_JOB)),
        ("PodFailed", [{"exitCode": 3, "action": "AbortJob"}], [], {"exit_code": 3}, Act(action=JobAction.ABORT_JOB)),
        ("PodFailed", [{"exitCode": 3, "action": "AbortJob"}], [], {"exit_code": 4}, Abstain()),
        ("PodFailed", [{"exitCode": 3, "action": "AbortJob"}], [], {}, Abstain()),
        ("TaskCompleted", [ANY], [], {}, Abstain()),
        ("TaskCompleted", [{**ANY, "action": "CompleteJob"}], [], {}, Act(action=JobAction.COMPLETE_JOB)),
        ("TaskCompleted", [{**ANY, "events": ["TaskCompleted"]}], [], {}, Act(action=JobAction.RESTART_JOB)),
        ("PodPending", [ANY], [], {}, Abstain()),
        ("PodPending", [{**ANY, "timeout": "1m30s"}], [], {}, Act(action=JobAction.RESTART_JOB, after=90.0)),
        *[(event, [ANY], [], {}, Abstain()) for event in ("OutOfSync", "CommandIssued", "PodRunning")],
    ],
)  # fmt: skip
async def test_first_match_decides_task_before_job(
    event: str, policies: Any, task_policies: Any, fields: Any, answer: Any
) -> None:
    assert await decide(event, policies, task_policies, **fields) == answer


@pytest.mark.parametrize("policy", [{"event": "*", "action": "Explode"}, {**ANY, "timeout": "soon"}])
async def test_a_policy_that_is_not_valid_is_reported(policy: Manifest) -> None:
    decision = await decide("PodFailed", [policy])
    assert isinstance(decision, Alert)
    assert decision.reason == "InvalidPolicy"


def test_it_takes_no_arguments() -> None:
    with pytest.raises(ArgumentError):
        Declared({"strict": True})
