"""Objects of others: each is reviewed, patched, reconciled and scheduled, or refused; no component fails."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fuzz import originals
from tests.fuzz.mutations import MOST, enlarged, guaranteed, hostile, mutated, outcome, values
from tests.scenario.scheduling import harness
from tests.unit import world
from tests.unit.admission import objects
from tests.unit.jobs import driver
from volcanoio.engine.admission.queue_rights import (
    is_reviewed_child,
    reads_for_rights,
    required_rights,
    subjects,
    used_queues,
)
from volcanoio.engine.admission.request import AdmissionSettings, Operation, ReviewRequest, User
from volcanoio.engine.cron.controller import CronJobController
from volcanoio.engine.flows.controller import JobFlowController
from volcanoio.framework import effects
from volcanoio.framework.decisions import Abstain, Act, Alert, Annotate, Decision, Hold, Override
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.kube.decoding import ObjectDecoder, UndecodableError
from volcanoio.localcluster.apiserver.patches import PatchError, json_patch, strategic
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import CronJob, Job, JobAction
from volcanoio.model.core import ResourceRequirements
from volcanoio.model.flow import JobFlow, JobTemplate
from volcanoio.model.kinds import Kind
from volcanoio.model.packaged import config_path
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.policies.calls import InvalidDecisionError, validate_decision
from volcanoio.runtime.webhooks import admission_review
from volcanoio.runtime.webhooks.admission_review import ReviewError


def stored(kind: Kind, manifest: Any) -> ApiObject | None:
    """Return the object as an informer reads it; None where it cannot be decoded."""
    found = outcome(UndecodableError, ObjectDecoder(kind).one, msgspec.json.encode(manifest))
    return found if isinstance(found, ApiObject) else None


def typed_job(spec: Any) -> Job | None:
    """Return a Job of this spec if its fields have the types that the schema of its resource demands."""
    job = stored(kinds.JOB, {"metadata": {"name": "job"}, "spec": spec})
    if not isinstance(job, Job) or not all(
        isinstance(task.template.get("spec") or {}, dict) for task in job.spec.tasks
    ):
        return None
    parts = [(kinds.POD, {"spec": {}, "metadata": {"name": "a"}, **task.template}) for task in job.spec.tasks]
    claims = [volume.volume_claim for volume in job.spec.volumes if volume.volume_claim]
    parts += [(kinds.PVC, {"metadata": {"name": "a"}, "spec": claim}) for claim in claims]
    return job if all(stored(kind, part) is not None for kind, part in parts) else None


@pytest.mark.parametrize(("kind", "valid"), originals.REVIEWED.values(), ids=originals.REVIEWED)
@examples(30)
@given(data=st.data())
def test_admission(kind: Kind, valid: Manifest, data: st.DataObject) -> None:
    check_reviews(kind, valid, data.draw(hostile(valid)))


def check_reviews(kind: Kind, valid: Manifest, found: Manifest) -> None:
    for review in (objects.create(kind, found), objects.update(kind, valid, found)):
        assert review.allowed is (not review.messages)
        changes = admission_review.json_patch(found, review.object or {})
        assert json_patch.apply(deepcopy(found), changes) == review.object


@pytest.mark.parametrize(("kind", "valid"), originals.REVIEWED.values(), ids=originals.REVIEWED)
@examples(8)
@given(data=st.data())
def test_admission_of_large_objects(kind: Kind, valid: Manifest, data: st.DataObject) -> None:
    check_reviews(kind, valid, guaranteed(data.draw(enlarged(valid)), valid))


@examples(12)
@given(data=st.data(), count=st.sampled_from((200, MOST)))
def test_admission_of_large_graphs(data: st.DataObject, count: int) -> None:
    makers = {kinds.JOB: originals.waiting_tasks, kinds.JOB_FLOW: originals.waiting_flows}
    kind, graph = data.draw(st.sampled_from(tuple(makers))), data.draw(st.sampled_from(originals.GRAPHS))
    check_reviews(kind, makers[kind](1, lambda _: []), makers[kind](count, graph))


AUTHOR, CONTROLLER = User("alice", groups=("team",)), User("system:serviceaccount:volcano-system:controllers")
RIGHTS_SETTINGS = AdmissionSettings(trusted_users=(CONTROLLER.username,))
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "c", "uid": "u", "controller": True}
RESTRICTED_QUEUE = objects.queue("q")
RESTRICTED_QUEUE.metadata.labels[names.RESTRICTED] = "true"
STORED = objects.Stored(
    *(objects.queue(name) for name in ("root", "default", "open")),
    RESTRICTED_QUEUE,
    objects.queue("below", parent="q"),
    objects.queue("knot", parent="knot"),
    msgspec.convert(originals.POD_GROUP, PodGroup),
    msgspec.convert(originals.JOB_TEMPLATE, JobTemplate),
)


@pytest.mark.parametrize(("kind", "valid"), originals.REVIEWED.values(), ids=originals.REVIEWED)
@examples(20)
@given(data=st.data())
def test_rights_to_queues(kind: Kind, valid: Manifest, data: st.DataObject) -> None:
    """Each used queue has a name, and only what a trusted controller creates for an owner needs no right."""
    owned = {**valid, "metadata": {**valid["metadata"], "ownerReferences": [OWNER]}}
    drawn = data.draw(st.one_of(mutated(valid, owned), enlarged(valid, owned)))
    found = guaranteed(drawn, valid)
    for operation, old in ((Operation.CREATE, None), (Operation.UPDATE, valid), (Operation.UPDATE, found)):
        request = ReviewRequest(
            operation=operation, resource=kind.resource, name="a", namespace="ns", object=found, old=old
        )
        reads_for_rights(request)
        uses = used_queues(request, STORED)
        assert all(use.queue and isinstance(use.queue, str) for use in uses)
        for right in required_rights(uses, STORED):
            assert right[1] == "q"
            assert "may not use queue" in right.refusal(AUTHOR, "")
        assert subjects(request, AUTHOR)[0] == AUTHOR
        assert is_reviewed_child(request, AUTHOR, RIGHTS_SETTINGS) is False
        assert is_reviewed_child(request, CONTROLLER, RIGHTS_SETTINGS) in (True, False)


@examples(60)
@given(mutated(originals.REVIEW))
def test_bodies_of_reviews(body: Any) -> None:
    outcome(ReviewError, admission_review.decode, msgspec.json.encode(body))


OPERATIONS = [
    {"op": "add", "path": "/spec/tasks/-", "value": {"name": "c"}},
    {"op": "remove", "path": "/spec/queue"},
    {"op": "replace", "path": "/spec/tasks/0/replicas", "value": 5},
    {"op": "move", "from": "/spec/queue", "path": "/spec/other"},
    {"op": "copy", "from": "/spec", "path": "/spec/tasks/0/template"},
    {"op": "test", "path": "/metadata/name", "value": "a"},
]


@examples(60)
@given(operations=mutated(OPERATIONS))
def test_json_patches(operations: Any) -> None:
    outcome(PatchError, json_patch.apply, deepcopy(originals.JOB), operations)


@examples(60)
@given(
    patch=mutated(
        originals.POD, originals.POD["spec"], {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}
    )
)
def test_merge_patches(patch: Any) -> None:
    effects.apply_merge_patch(deepcopy(originals.POD), patch)
    if isinstance(patch, dict):
        outcome(PatchError, strategic.apply, deepcopy(originals.POD), patch)


MOST_PODS = 100
"""Size of a Job above which it is not run: quotas and admission limit it."""
CONFIGURATIONS = [
    config_path("scheduler", name).read_text() for name in ("volcano-scheduler.conf", "multi-tenant.conf")
]
SMALL = [harness.group("small", 1, phase="Inqueue"), harness.pod("small", "small", cpu="1")]


@pytest.mark.parametrize("conf", CONFIGURATIONS, ids=["default", "multi-tenant"])
@examples(60)
@given(data=st.data())
def test_scheduling(conf: str, data: st.DataObject) -> None:
    """Two cycles over damaged objects; a damaged node or PodGroup keeps no other pod from being bound."""
    pairs = (
        (kinds.NODE, originals.NODE), (kinds.QUEUE, originals.QUEUE), (kinds.POD_GROUP, originals.POD_GROUP),
        (kinds.POD, originals.POD),
    )  # fmt: skip
    chosen = data.draw(st.sets(st.sampled_from(range(len(pairs))), min_size=1))
    drawn = [hostile(valid) if at in chosen else st.just(valid) for at, (_, valid) in enumerate(pairs)]
    made = [(kind, data.draw(strategy)) for (kind, _), strategy in zip(pairs, drawn, strict=True)]
    found = [obj for kind, manifest in made if (obj := stored(kind, manifest)) is not None]
    cluster = harness.World(harness.node("sound"), harness.queue("q"), conf=conf)
    for obj in found:
        cluster.put(obj)
    for manifest in [harness.group("small", 1, queue="q", phase="Inqueue"), SMALL[1]]:
        cluster.put(manifest)
    cluster.run(2)
    if chosen <= {0, 2}:  # a damaged pod may fill the sound node, and a damaged queue may have it reserved
        assert "small" in cluster.binds


@examples(60)
@given(data=st.data(), ending=st.sampled_from(("Failed", "Succeeded", "Running", "nonsense")))
def test_the_job_controller(data: st.DataObject, ending: str) -> None:
    job = typed_job(data.draw(mutated(originals.JOB_SPEC)))
    if job is None or sum(task.replicas for task in job.spec.tasks) > MOST_PODS:
        return
    jobs = driver.World()
    jobs.submit(msgspec.to_builtins(job.spec))
    jobs.run_until_stable()
    for pod in list(jobs.pods())[:3]:
        jobs.phase(pod, ending, exit_code=data.draw(st.sampled_from((None, 0, 3, -1))))
    jobs.run_until_stable()
    jobs.crash()
    jobs.run_until_stable()
    jobs.pass_time(3600)


CONTROLLERS: dict[str, tuple[Callable[..., Any], Kind, Manifest]] = {
    "cron jobs": (CronJobController, kinds.CRON_JOB, originals.CRON_JOB),
    "flows": (JobFlowController, kinds.JOB_FLOW, originals.JOB_FLOW),
}


@pytest.mark.parametrize(("make", "kind", "valid"), CONTROLLERS.values(), ids=CONTROLLERS)
@examples(40)
@given(data=st.data())
def test_controllers(make: Callable[..., Any], kind: Kind, valid: Manifest, data: st.DataObject) -> None:
    found = stored(kind, data.draw(hostile(valid)))
    if isinstance(found, CronJob):
        jobs = [found.spec.job_template.spec]
    elif isinstance(found, JobFlow):
        jobs = [part.patch.job_spec for part in found.spec.flows if part.patch is not None]
    else:
        return
    if any(typed_job(spec) is None for spec in jobs):
        return
    cluster = world.World([make])
    cluster.put(kinds.JOB_TEMPLATE, originals.JOB_TEMPLATE)
    cluster.put(kind, msgspec.to_builtins(found))
    cluster.wait(3600)


@examples(4)
@given(graph=st.sampled_from(originals.GRAPHS))
def test_large_flows(graph: Callable[[int], list[str]]) -> None:
    cluster = world.World([JobFlowController])
    for number in range(100):
        cluster.put(
            kinds.JOB_TEMPLATE, originals.made("flow.volcano.sh/v1alpha1", "JobTemplate", {}, name=f"t{number}")
        )
    cluster.put(kinds.JOB_FLOW, originals.waiting_flows(100, graph))
    cluster.wait(3600)


numbers = st.one_of(
    st.floats(), st.sampled_from((0.0, -1.0, 1e300, 1e18, 2.0**63, 253402300800.0, 9e15)), st.integers(-10, 10**6)
)
texts = st.one_of(st.sampled_from(("", "a", "x" * 70_000, "\x00", "a/b", "http://x")), st.text(max_size=5))


def override(task: str, cpu: str, index: int) -> Override:
    return Override(task=task, index=index, resources={"main": ResourceRequirements(requests={"cpu": cpu})})


decisions: st.SearchStrategy[Any] = st.one_of(
    st.builds(Abstain),
    st.builds(Act, action=st.sampled_from(JobAction), after=numbers),
    st.builds(
        Hold,
        reason=texts,
        until=numbers,
        pods=st.dictionaries(texts, st.integers(-5, 2**40), max_size=2),
        wake=st.just(()),
    ),
    st.builds(
        override, st.sampled_from(("a", "b", "none")), st.sampled_from(("1", "1e99", "-1", "")), st.integers(-1, 5)
    ),
    st.builds(Annotate, annotations=st.dictionaries(texts, texts, max_size=2)),
    st.builds(Alert, reason=texts, message=texts, key=texts, webhook=st.just("")),
    values,
)


@examples(100)
@given(answers=st.lists(decisions, min_size=1, max_size=3), ending=st.sampled_from(("Failed", "Succeeded")))
def test_answers_of_policies(answers: list[Any], ending: str) -> None:
    """An answer is a valid decision, or refused with the reason; the job goes on after both."""
    valid = [
        answer
        for answer in answers
        if not isinstance(outcome(InvalidDecisionError, validate_decision, answer), Exception)
    ]

    def decide(_: PolicyContext) -> Decision:
        return valid.pop() if valid else Abstain()

    jobs = driver.World(policy=driver.Asked(decide))
    jobs.submit(originals.JOB_SPEC)
    jobs.run_until_stable()
    for pod in list(jobs.pods())[:2]:
        jobs.phase(pod, ending, exit_code=1)
    jobs.run_until_stable()
    jobs.crash()
    jobs.pass_time(10.0**9)
