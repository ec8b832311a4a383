"""What of a policy's alerts is stored on a job: each once, a bounded number, and of each a bounded text."""

from __future__ import annotations

from volcanoio.engine.jobs.alerts import LONGEST, MOST, entered
from volcanoio.engine.jobs.ledger import Ledger
from volcanoio.engine.jobs.state import JobState, Pending
from volcanoio.framework.decisions import Alert


def raised(*reasons: str, message: str = "m") -> JobState:
    return JobState(alerts=tuple(Pending("p", Alert(reason=reason, message=message)) for reason in reasons))


def test_the_oldest_go_where_there_are_many() -> None:
    first = entered(Ledger(), raised(*(f"R{number}" for number in range(MOST))), now=1.0)
    assert len(first.alerts) == MOST
    second = entered(first, raised("New"), now=2.0)
    assert [each.key for each in second.alerts] == [*(f"p/R{number}" for number in range(1, MOST)), "p/New"]


def test_one_that_is_stored_is_not_stored_again() -> None:
    ledger = entered(Ledger(), raised("Over"), now=1.0)
    assert entered(ledger, raised("Over"), now=2.0) is ledger


def test_of_a_long_message_the_beginning_is_stored() -> None:
    (alert,) = entered(Ledger(), raised("Over", message="x" * (LONGEST + 1)), now=1.0).alerts
    assert alert.message == "x" * LONGEST
