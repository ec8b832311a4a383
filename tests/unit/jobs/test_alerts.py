"""Alerts of policies stored on a job: each once, with limits on their number and text."""

from __future__ import annotations

from volcanoio.engine.jobs.decide.policy_answers import MAX_ALERT_MESSAGE, MAX_ALERTS, with_alerts
from volcanoio.engine.jobs.state.job_state import JobState, PendingAlert
from volcanoio.engine.jobs.state.stored_state import StoredState
from volcanoio.framework.decisions import Alert


def raised(*reasons: str, message: str = "m") -> JobState:
    return JobState(
        pending_alerts=tuple(PendingAlert("p", Alert(reason=reason, message=message)) for reason in reasons)
    )


def test_the_oldest_go_where_there_are_many() -> None:
    first = with_alerts(StoredState(), raised(*(f"R{number}" for number in range(MAX_ALERTS))), now=1.0)
    assert len(first.alerts) == MAX_ALERTS
    second = with_alerts(first, raised("New"), now=2.0)
    assert [each.key for each in second.alerts] == [*(f"p/R{number}" for number in range(1, MAX_ALERTS)), "p/New"]


def test_one_that_is_stored_is_not_stored_again() -> None:
    ledger = with_alerts(StoredState(), raised("Over"), now=1.0)
    assert with_alerts(ledger, raised("Over"), now=2.0) is ledger


def test_of_a_long_message_the_beginning_is_stored() -> None:
    (alert,) = with_alerts(StoredState(), raised("Over", message="x" * (MAX_ALERT_MESSAGE + 1)), now=1.0).alerts
    assert alert.message == "x" * MAX_ALERT_MESSAGE
