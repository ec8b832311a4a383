"""A controller that is broken on purpose is caught: else the random lives prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.lifecycle_machine import Lifecycle
from volcanoio.engine.jobs.decide import execution, planning, reconciliation
from volcanoio.engine.jobs.state.reconcile_context import ReconcileContext
from volcanoio.engine.jobs.state.transitions import ReconcileMode
from volcanoio.engine.jobs.status import killed_pods, phases
from volcanoio.engine.queues.controller import QueueController
from volcanoio.kube import effect_executor

Break = Callable[[pytest.MonkeyPatch], None]


def retries_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(phases, "is_exhausted", lambda job, status: False)
    patch.setattr(reconciliation, "is_exhausted", lambda job, status: False)
    patch.setattr(killed_pods, "is_exhausted", lambda job, status: False)


def leaves_podgroups(patch: pytest.MonkeyPatch) -> None:
    def stop(observed: ReconcileContext) -> reconciliation.DueWrites:
        after = original(observed)
        stages = (tuple(each for each in stage if "podgroups" not in each.resource) for stage in after.stages)
        return msgspec.structs.replace(after, stages=tuple(stage for stage in stages if stage))

    original = reconciliation.stop_writes
    patch.setitem(planning._RECONCILERS, ReconcileMode.STOP, stop)


def counts_wrongly(patch: pytest.MonkeyPatch) -> None:
    def with_counts(job: Any, counts: Any, ledger: Any) -> Any:
        return original(job, msgspec.structs.replace(counts, failed=0), ledger)

    original = phases.with_counts
    patch.setattr(phases, "with_counts", with_counts)


def forgets_commands(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execution, "pending_commands", lambda reduction: [])


def ignore_pod_failures(patch: pytest.MonkeyPatch) -> None:
    def published(self: Any, step: Any, effect: Any, error: Any, dropped: Any) -> None:
        del self, step, effect, error, dropped

    patch.setattr(effect_executor.EffectExecutor, "publish_failure", published)


def causes_get_lost(patch: pytest.MonkeyPatch) -> None:
    def submit(self: Any, controller: str, key: str, stages: Any, cause: int = 0) -> None:
        del cause
        original(self, controller, key, stages, 0)

    original = effect_executor.EffectExecutor.submit
    patch.setattr(effect_executor.EffectExecutor, "submit", submit)


def raises_now_and_then(patch: pytest.MonkeyPatch) -> None:
    def reduce(self: Any, state: Any, event: Any, view: Any) -> Any:
        if state.queue is not None and not state.empty:
            raise ValueError("broken")
        return original(self, state, event, view)

    original = QueueController.reduce
    patch.setattr(QueueController, "reduce", reduce)


BROKEN: dict[Break, str] = {
    retries_without_end: "retry",
    leaves_podgroups: r"PodGroup .* is still there",
    counts_wrongly: "counts 0 failed pods",
    forgets_commands: "was not consumed",
    ignore_pod_failures: "does not come to rest",
    causes_get_lost: "has no cause",
    raises_now_and_then: "a reducer raised",
}
"""What is broken, and what the alarm says."""


@pytest.mark.parametrize(("broken", "reported"), BROKEN.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_broken_controllers_are_detected(broken: Break, reported: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError, match=reported):
        run_state_machine_as_test(
            seed(1)(Lifecycle),
            settings=settings(
                max_examples=100,
                stateful_step_count=40,
                database=None,
                deadline=None,
                print_blob=False,
                derandomize=False,
                phases=[Phase.generate],
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
