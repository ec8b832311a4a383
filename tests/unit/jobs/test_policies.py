"""What policies decide, carried out: the gate, overrides, alerts, ticks; also when we are killed anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.jobs.driver import Asked, World, spec, task
from volcanoio.engine.jobs.state import job_state
from volcanoio.framework.decisions import Abstain, Alert, Annotate, Decision, Hold, Override, Wake
from volcanoio.framework.effects import Ask, Notify
from volcanoio.framework.events import Notified, PoliciesLoaded
from volcanoio.framework.lifecycle import PolicyContext, PolicyEvent, PolicyRegistry, PolicySubscription
from volcanoio.framework.overrides import LEARNED_SUFFIX, stored_overrides
from volcanoio.model import kinds, names
from volcanoio.model.batch import JobAction
from volcanoio.model.core import Pod, ResourceRequirements

GROUPS, MAPS = kinds.POD_GROUP.resource, kinds.CONFIG_MAP.resource
BIGGER = {"c": ResourceRequirements(requests={"memory": "2Gi"}, limits={"memory": "2Gi"})}


class PolicyWorld(World):
    """A world whose policy subscribes to some lifecycle events."""

    def __init__(self, answer: Callable[[PolicyContext], Decision], *events: str, every: float = 0.0) -> None:
        self.roster = PolicyRegistry(everywhere={"p": PolicySubscription(frozenset(events), every)})
        self.notices: list[Notify] = []
        super().__init__(policy=Asked(answer))

    def boot(self) -> None:
        super().boot()
        self.inbox.appendleft(PoliciesLoaded(roster=self.roster, at=self.now))

    crash = boot

    def _take(self, dispatch: Any) -> None:
        self.notices += [effect for stage in dispatch.stages for effect in stage if isinstance(effect, Notify)]
        stages = tuple(tuple(each for each in stage if not isinstance(each, Notify)) for stage in dispatch.stages)
        super()._take(
            type(dispatch)(**{**{f: getattr(dispatch, f) for f in dispatch.__struct_fields__}, "stages": stages})
        )

    def hear(self, notice: Notify, *, delivered: bool = True) -> None:
        self.inbox.append(
            Notified(
                controller="job-controller", key="default/job", notice=notice.notice, delivered=delivered,
                problem="" if delivered else "it answered 500", at=self.now,
            )
        )  # fmt: skip


def on_due(answer: Callable[[PolicyContext], Decision]) -> PolicyWorld:
    def decide(context: PolicyContext) -> Decision:
        return answer(context) if context.event.name == PolicyEvent.PODS_DUE else Abstain()

    return PolicyWorld(decide, PolicyEvent.PODS_DUE)


def test_pods_due_is_raised_only_for_policies_that_list_it() -> None:
    world = World()
    world.submit(spec())
    world.run_until_stable()
    assert world.asked == []
    assert len(world.pods()) == 2


def test_a_hold_keeps_podgroup_and_pods_back_and_shows_why() -> None:
    held = [True]
    world = on_due(lambda c: Hold(reason="no room", until=c.now + 30) if held[0] else Abstain())
    world.submit(spec())
    world.run_until_stable()
    assert world.names(GROUPS) == []
    assert world.pods() == {}
    assert (world.job().status.state.reason, world.job().status.state.message) == ("Hold", "no room")
    assert len(world.asked) == 1
    held[0] = False
    world.pass_time(29)
    assert len(world.asked) == 1
    world.pass_time(2)
    assert len(world.pods()) == 2
    assert world.job().status.state.reason == ""


def test_a_new_process_keeps_the_reason_of_a_held_job_until_the_answer() -> None:
    held = [True]
    world = on_due(lambda c: Hold(reason="no room", until=c.now + 30) if held[0] else Abstain())
    world.submit(spec())
    world.run_until_stable()
    world.crash()
    questions: list[Ask] = []
    world.held = questions
    world.writes.clear()
    world.run_until_stable()
    assert len(questions) == 1
    assert world.writes == []
    held[0], world.held = False, None
    world._answer(questions[0])
    world.run_until_stable()
    assert world.job().status.state.reason == ""
    assert len(world.pods()) == 2


def test_an_outdated_answer_permits_no_pods() -> None:
    world = on_due(lambda c: Abstain())
    questions: list[Ask] = []
    world.held = questions
    world.submit(spec(task(replicas=2), minAvailable=1))
    world.run_until_stable()
    world.change(kinds.JOB.resource, "default/job", {"spec": spec(task(replicas=3), minAvailable=1)})
    world.run_until_stable()
    before, updated = questions
    world._answer(updated, Abstain())
    world.run_until_stable()
    now = questions[2]
    world._answer(before, Abstain())
    world.run_until_stable()
    assert world.names(GROUPS) == []
    world._answer(now, Abstain())
    world.run_until_stable()
    assert len(world.names(GROUPS)) == 1


def test_a_hold_that_is_over_already_is_not_asked_about_without_end() -> None:
    world = on_due(lambda c: Hold(reason="no room", until=c.now))
    world.submit(spec())
    world.run_until_stable()
    assert len(world.asked) == 1
    world.pass_time(1)
    assert len(world.asked) == 2


def test_pods_permitted_together_are_created_in_batches_after_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_state, "CREATE_BATCH_SIZE", 3)
    due: list[dict[str, int]] = []

    def answer(context: PolicyContext) -> Decision:
        due.append({task: len(indexes) for task, indexes in context.event.due.items()})
        return Abstain()

    world = on_due(answer)
    world.submit(spec(task(replicas=8)))
    world.run_until_stable()
    assert len(world.pods()) == 8
    assert due == [{"t": 8}, {"t": 8}]  # before the PodGroup, and before the pods
    world.remove("pods", "default/job-t-7")  # of the last batch: it was made, so that the answer is used up
    world.run_until_stable()
    assert due[2:] == [{"t": 1}]
    assert len(world.pods()) == 8


def test_a_partial_hold_applies_to_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_state, "CREATE_BATCH_SIZE", 2)
    world = on_due(lambda c: Hold(reason="half", until=c.now + 9, pods={"t": 5 - len(c.pods)}))
    world.submit(spec(task(replicas=8), minAvailable=1))
    world.run_until_stable()
    assert sorted(world.pods()) == [f"job-t-{index}" for index in range(5)]
    assert len(world.asked) == 2
    assert world.job().status.state.message == "half"
    world.pass_time(10)
    assert len(world.asked) == 3
    assert len(world.pods()) == 5


def test_a_process_killed_between_batches_asks_again_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_state, "CREATE_BATCH_SIZE", 2)
    world = on_due(lambda _: Abstain())
    world.submit(spec(task(replicas=7)))
    while len(world.pods()) < 4:
        world.admit()
        assert world.step()
    assert len(world.pods()) == 4
    world.crash()
    world.run_until_stable()
    assert len(world.pods()) == 7


def test_some_pods_are_let_through_lowest_indexes_first() -> None:
    world = on_due(
        lambda c: Hold(reason="half", until=c.now + 9, pods={"t": 3 - len(c.pods)}) if len(c.pods) < 4 else Abstain()
    )
    world.submit(spec(task(replicas=5), minAvailable=1))
    world.run_until_stable()
    assert list(world.pods()) == ["job-t-0", "job-t-1", "job-t-2"]
    assert world.job().status.state.message == "half"


def test_a_command_is_taken_while_pods_are_held_back() -> None:
    world = on_due(lambda c: Hold(reason="no room", until=c.now + 30))
    world.submit(spec())
    world.run_until_stable()
    world.command("AbortJob")
    world.run_until_stable()
    assert world.job().status.state.phase == "Aborted"


def test_the_wake_conditions_of_a_hold_are_in_its_timer() -> None:
    wake = (Wake("pods", "default"),)
    world = on_due(lambda c: Hold(reason="no room", until=c.now + 30, wake=wake))
    started: list[Any] = []
    take = world._local

    def local(key: str, effect: Any) -> None:
        if getattr(effect, "name", "") == "gate":
            started.append(effect)
        take(key, effect)

    world._local = local  # type: ignore[method-assign]  # looks at what goes by
    world.submit(spec())
    world.run_until_stable()
    assert [effect.wake for effect in started] == [wake]
    world.fire("gate")
    assert [effect.wake for effect in started] == [wake, wake]
    assert len(world.asked) == 2


def test_an_annotation_is_on_the_pods() -> None:
    def answer(context: PolicyContext) -> Decision:
        has = names.COOLDOWN_TIME in context.job.metadata.annotations
        return Abstain() if has else Annotate(annotations={names.COOLDOWN_TIME: "5m"})

    world = on_due(answer)
    world.submit(spec())
    world.run_until_stable()
    assert all(pod.metadata.annotations[names.COOLDOWN_TIME] == "5m" for pod in world.pods().values())


def grow(context: PolicyContext) -> Decision:
    if context.event.name != "PodFailed":
        return Abstain()
    return Override(task="t", resources=BIGGER, action=JobAction.RESTART_POD, keep=True, reason="grows")


def failing() -> World:
    world = World(policy=Asked(grow))
    world.submit(spec(task("t"), task("other", replicas=1)))
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Running")
    world.run_until_stable()
    world.phase("job-t-0", "Failed", 137)
    return world


def memory(pod: Pod) -> str:
    return str(pod.spec.containers[0].resources.limits.get("memory", ""))


def check_grown(world: World) -> None:
    job = world.job()
    (override,) = stored_overrides(job)
    assert (override.task, override.attempts, override.resources) == ("t", 1, BIGGER)
    assert job.status.retry_count == 0
    assert {name: memory(pod) for name, pod in world.pods().items()} == {
        "job-other-0": "", "job-t-0": "2Gi", "job-t-1": "",
    }  # fmt: skip
    group = next(each for (kind, _), each in world.objects.items() if kind == GROUPS)
    assert group["spec"]["minResources"]["memory"] == "4Gi"
    kept = world.objects[MAPS, f"default/job{LEARNED_SUFFIX}"]
    assert list(kept["data"]) == ["t"]


def test_an_override_grows_that_task_costs_no_retry_and_is_kept() -> None:
    world = failing()
    world.run_until_stable()
    check_grown(world)
    assert ("Normal", "Override", "grows") in world.records


def test_an_override_is_applied_once_wherever_we_are_killed() -> None:
    steps = 0
    done = False
    while not done:
        world = failing()
        for _ in range(steps):
            done = not world.step()
        world.crash()
        world.run_until_stable()
        check_grown(world)
        steps += 1
    assert steps > 5


def test_an_older_learned_map_is_brought_up_to_date() -> None:
    world = failing()
    world.put(kinds.CONFIG_MAP, "default", {"metadata": {"name": f"job{LEARNED_SUFFIX}"}, "data": {"x": "{}"}})
    world.run_until_stable()
    for _ in range(3):
        world.pass_time(5)
    assert set(world.objects[MAPS, f"default/job{LEARNED_SUFFIX}"]["data"]) == {"t", "x"}


def test_a_learned_map_that_somebody_deleted_is_made_again_with_the_next_override() -> None:
    world = failing()
    world.run_until_stable()
    world.remove(MAPS, f"default/job{LEARNED_SUFFIX}")
    bigger = {"c": ResourceRequirements(requests={"memory": "4Gi"}, limits={"memory": "4Gi"})}
    world.policy = Asked(lambda _: Override(task="t", resources=bigger, action=JobAction.RESTART_POD, keep=True))
    world.phase("job-t-1", "Failed", exit_code=137)
    world.run_until_stable()
    for _ in range(3):
        world.pass_time(5)
    assert "4Gi" in world.objects[MAPS, f"default/job{LEARNED_SUFFIX}"]["data"]["t"]


def test_an_override_of_one_pod_is_that_pods_alone() -> None:
    def answer(context: PolicyContext) -> Decision:
        return Override(task="t", resources=BIGGER, index=1)

    world = on_due(answer)
    world.submit(spec())
    world.run_until_stable()
    assert {name: memory(pod) for name, pod in world.pods().items()} == {"job-t-0": "", "job-t-1": "2Gi"}
    group = next(each for (kind, _), each in world.objects.items() if kind == GROUPS)
    assert group["spec"]["minResources"]["memory"] == "2Gi"


def ending(webhook: str = "") -> PolicyWorld:
    def answer(context: PolicyContext) -> Decision:
        if context.event.name != PolicyEvent.JOB_ENDED:
            return Abstain()
        return Alert(reason="Over", message=f"it is {context.job.status.state.phase}", webhook=webhook)

    world = PolicyWorld(answer, PolicyEvent.JOB_ENDED)
    world.submit(spec())
    world.run_until_stable()
    for pod in world.pods():
        world.phase(pod, "Failed", 1)
    return world


def test_an_alert_is_sent_once_wherever_the_process_is_killed() -> None:
    steps, done = 0, False
    while not done:
        world = ending()
        for _ in range(steps):
            done = not world.step()
        before = world.records.count(("Warning", "Over", "it is Failed"))
        world.crash()
        world.run_until_stable()
        assert before <= world.records.count(("Warning", "Over", "it is Failed")) <= 1
        assert names.ALERTS in world.job().status.controlled_resources
        steps += 1


def test_a_webhook_is_retried_until_accepted_also_after_a_restart() -> None:
    world = ending("http://hook/")
    world.run_until_stable()
    assert [notice.url for notice in world.notices] == ["http://hook/"]
    assert world.notices[0].body["job"]["name"] == "job"
    world.crash()
    world.run_until_stable()
    assert len(world.notices) == 2
    assert world.notices[0].body["id"] == world.notices[1].body["id"]
    world.hear(world.notices[-1])
    world.run_until_stable()
    world.crash()
    world.run_until_stable()
    assert len(world.notices) == 2


def test_a_webhook_that_never_answers_is_reported_on_the_job() -> None:
    world = ending("http://hook/")
    world.run_until_stable()
    world.hear(world.notices[0], delivered=False)
    world.run_until_stable()
    assert any(reason == "AlertUndelivered" and "it answered 500" in text for _, reason, text in world.records)
    assert len(world.notices) == 1


def test_ticks_come_every_so_often_until_the_job_ends() -> None:
    world = PolicyWorld(lambda _: Abstain(), PolicyEvent.TICK, every=10.0)
    world.submit(spec())
    world.run_until_stable()
    for _ in range(5):
        world.pass_time(10)
    assert world.asked.count("Tick") == 5
    for pod in world.pods():
        world.phase(pod, "Succeeded")
    world.run_until_stable()
    for _ in range(3):
        world.pass_time(10)
    assert world.asked.count("Tick") == 5


def test_a_tick_is_not_lost_to_simultaneous_events() -> None:
    world = PolicyWorld(lambda _: Abstain(), PolicyEvent.TICK, every=10.0)
    world.submit(spec())
    world.run_until_stable()
    world.now += 10  # its timer has not fired yet
    world.phase(next(iter(world.pods())), "Failed")
    world.run_until_stable()
    asked = world.asked.count("Tick")
    world.pass_time(10)
    assert (asked, world.asked.count("Tick")) == (1, 2)


def test_a_finished_job_cannot_be_held() -> None:
    def answer(context: PolicyContext) -> Decision:
        return Hold(reason="x", until=context.now + 9) if context.event.name == PolicyEvent.JOB_ENDED else Abstain()

    world = PolicyWorld(answer, PolicyEvent.JOB_ENDED)
    world.submit(spec(task(replicas=1)))
    for phase in ("Running", "Succeeded"):
        world.run_until_stable().phase("job-t-0", phase)
    world.run_until_stable()
    assert world.asked == ["TaskCompleted job-t-0", "JobEnded"]
    assert (world.job().status.state.reason, world.names(GROUPS)) == ("", [])


@pytest.mark.parametrize("answer", [Hold(reason="wait", until=0.0), Abstain()])
def test_a_question_of_an_older_version_is_forgotten(answer: Decision) -> None:
    world = on_due(lambda _: answer)
    world.held = []
    world.submit(spec())
    world.run_until_stable()
    world.command("AbortJob")
    world.run_until_stable()
    world.answer(answer)
    world.run_until_stable()
    assert world.pods() == {}
