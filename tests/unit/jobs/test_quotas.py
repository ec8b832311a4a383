"""A namespace's quota refuses pods: the job waits, says so, asks little, and goes on as soon as there is room."""

from __future__ import annotations

from typing import Any

from tests.unit.jobs.driver import World, spec, task
from volcanoio.engine.jobs.state import job_state
from volcanoio.framework.effects import Create
from volcanoio.model import kinds
from volcanoio.model.core import QuotaSpec, QuotaStatus, ResourceQuota

QUOTAS = kinds.RESOURCE_QUOTA.resource


class Limited(World):
    """So many pods at most."""

    most = 3

    def __init__(self) -> None:
        super().__init__()
        self.quota()

    def quota(self, used: int = 0) -> None:
        status = {"hard": {"pods": str(self.most)}, "used": {"pods": str(used)}}
        if (QUOTAS, "default/q") in self.objects:
            self.change(QUOTAS, "default/q", {"status": status})
        else:
            manifest = {"metadata": {"name": "q"}, "spec": {"hard": status["hard"]}, "status": status}
            self.put(kinds.RESOURCE_QUOTA, "default", manifest)

    def _refused(self, effect: Any) -> tuple[int, str] | None:
        if isinstance(effect, Create) and effect.resource == "pods" and len(self.pods()) >= self.most:
            return 403, f'pods "{effect.manifest["metadata"]["name"]}" is forbidden: exceeded quota: q'
        return super()._refused(effect)

    @property
    def tried(self) -> int:
        return sum(1 for effect in self.writes if isinstance(effect, Create) and effect.resource == "pods")


def waiting(*tasks: Any) -> Limited:
    world = Limited()
    world.submit(spec(*tasks, minAvailable=1))
    world.run_until_stable(limit=20_000)
    world.quota(used=3)
    world.run_until_stable()
    return world


def test_the_job_waits_with_the_reason_and_costs_no_retry() -> None:
    world = waiting(task(replicas=6))
    for _ in range(4):
        world.pass_time(30.0)
    status = world.job().status
    assert (status.state.phase, status.state.reason, status.retry_count, status.pending) == (
        "Pending", "FailedCreate", 0, 3,
    )  # fmt: skip
    assert "exceeded quota: q" in status.state.message
    assert world.names(kinds.POD_GROUP.resource)


def test_a_round_of_refusals_is_reported_once_and_then_retried_with_one_pod_of_a_task() -> None:
    world = waiting(task("a", 6), task("b", 4))
    assert [reason for _, reason, _ in world.records] == ["FailedCreate"]
    before = world.tried
    world.pass_time(1.0)
    assert world.tried == before + 2


def test_room_in_the_quota_wakes_the_job_at_once_and_pods_are_made_faster_and_faster() -> None:
    world = waiting(task(replicas=60))
    for _ in range(6):
        world.pass_time(30.0)
    before = world.tried
    world.most = 100
    world.quota(used=3)
    world.run_until_stable()
    assert len(world.pods()) == 60
    assert world.tried == before + 57
    assert world.job().status.state.reason == ""


def test_a_quota_without_room_wakes_no_job() -> None:
    world = waiting(task(replicas=6))
    before = world.tried
    for used in (4, 3, 4):
        world.quota(used=used)
        world.run_until_stable()
    assert world.tried == before


def test_big_jobs_are_made_in_batches() -> None:
    world = World()
    world.submit(spec(task(replicas=job_state.CREATE_BATCH_SIZE + 20), minAvailable=1))
    world.run_until_stable(limit=20_000)
    assert len(world.pods()) == job_state.CREATE_BATCH_SIZE + 20
    assert not world.collisions


def test_room_is_checked_by_the_pods_requests() -> None:
    def quota(used: str, **spec: Any) -> ResourceQuota:
        status = QuotaStatus(hard={"requests.cpu": "4"}, used={"requests.cpu": used})
        return ResourceQuota(spec=QuotaSpec(hard={"requests.cpu": "4"}, **spec), status=status)

    usage = {"requests.cpu": 2000, "pods": 1000}
    assert job_state.quota_has_room(quota("2"), usage)
    assert not job_state.quota_has_room(quota("2001m"), usage)
    assert job_state.quota_has_room(quota("4", scopes=("BestEffort",)), usage)
    assert job_state.quota_has_room(quota("garbled"), usage)
