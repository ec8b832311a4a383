"""Rules of `policies` of a Job or task."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.engine.admission.findings import Findings
from volcanoio.framework.arguments import suggestion
from volcanoio.model.batch import JobAction, JobEvent, LifecyclePolicy

EVENTS = tuple(
    sorted(
        {
            JobEvent.ANY,
            JobEvent.POD_FAILED,
            JobEvent.POD_EVICTED,
            JobEvent.POD_PENDING,
            JobEvent.UNKNOWN,
            JobEvent.TASK_COMPLETED,
            JobEvent.TASK_FAILED,
            JobEvent.JOB_UPDATED,
        }
    )
)
ACTIONS = tuple(sorted(set(JobAction) - {JobAction.SYNC_JOB}))
_ANY = 'write "*" in quotes: unquoted it is a YAML alias'


def check_policies(policies: Sequence[LifecyclePolicy], path: str, findings: Findings) -> None:
    """Every policy of a list, and what they say together."""
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        place = f"{path}[{index}]"
        named = [*policy.events, *([policy.event] if policy.event else [])]
        if named and policy.exit_code is not None:
            findings.refuse(place, "must not specify event and exitCode simultaneously", "make two policies of it")
        elif policy.exit_code is not None:
            _check_code(policy.exit_code, codes, f"{place}.exitCode", findings)
        elif named:
            for event in dict.fromkeys(named):
                _check_event(event, events, f"{place}.event", findings)
        else:
            findings.refuse(place, "either event and exitCode should be specified", f"give one of them; {_ANY}")
        _check_action(policy, place, findings)
        findings.check_duration(f"{place}.timeout", policy.timeout)
    if JobEvent.ANY in events and len(events) > 1:
        findings.refuse(
            path, "if there's * here, no other policy should be here", "remove the policies of the other events"
        )


def _check_event(event: str, seen: set[str], path: str, findings: Findings) -> None:
    if event not in EVENTS:
        findings.refuse(path, f'invalid policy event: "{event}"{suggestion(event, EVENTS)}')
    elif event in seen:
        findings.refuse(path, f"duplicate event {event}", "keep one policy an event")
    seen.add(event)


def _check_code(code: int, seen: set[int], path: str, findings: Findings) -> None:
    if code == 0:
        findings.refuse(path, "0 is not a valid error code", "use event: TaskCompleted for success")
    elif code in seen:
        findings.refuse(path, f"duplicate exitCode {code}", "keep one policy an exit code")
    seen.add(code)


def _check_action(policy: LifecyclePolicy, path: str, findings: Findings) -> None:
    if policy.action not in ACTIONS:
        findings.refuse(
            f"{path}.action", f'invalid policy action: "{policy.action}"{suggestion(policy.action, ACTIONS)}'
        )
