"""Rights to queues: which queues a request names, which of them are restricted, and whose right counts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.admission.objects import SETTINGS, Stored, job, queue
from volcanoio.engine.admission.queue_rights import (
    QueueUse,
    RequiredRight,
    command_rights,
    is_reviewed_child,
    reads_for_rights,
    required_rights,
    subjects,
    used_queues,
    uses_queues,
)
from volcanoio.engine.admission.request import Operation, Read, ReviewRequest, User
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest, ObjectMeta
from volcanoio.model.core import Namespace
from volcanoio.model.flow import JobTemplate
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, Queue
from volcanoio.model.workloads import NativeGroupSpec, NativePodGroup, Workload, WorkloadReference

ALICE = User(username="alice", groups=("users",))
CONTROLLERS = User(username="system:serviceaccount:volcano-system:volcano-controllers")
TEMPLATE = JobTemplate(metadata=ObjectMeta(name="t", namespace="ns"), spec={"queue": "fast"})
GROUP = PodGroup(metadata=ObjectMeta(name="g", namespace="ns"), spec=PodGroupSpec(queue="fast"))


def restricted(name: str, parent: str = "root") -> Queue:
    made = queue(name, parent)
    return replace(made, metadata=replace(made.metadata, labels={"volcanoio.dev/restricted": "true"}))


def request(kind: Kind, new: Manifest, old: Manifest | None = None) -> ReviewRequest:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    return ReviewRequest(operation=operation, resource=kind.resource, name="x", namespace="ns", object=new, old=old)


def uses(kind: Kind, new: Manifest, old: Manifest | None = None) -> list[QueueUse]:
    return used_queues(request(kind, new, old), Stored(TEMPLATE, GROUP))


def of_team(kind: Kind, new: Manifest, old: Manifest | None = None, *stored: ApiObject) -> list[str]:
    """Return the queues that an object in a namespace uses whose annotation names the queue team."""
    home = Namespace(metadata=ObjectMeta(name="ns", annotations={"scheduling.volcano.sh/queue-name": "team"}))
    return [use.queue for use in used_queues(request(kind, new, old), Stored(home, TEMPLATE, GROUP, *stored))]


def cron(queue: str, schedule: str = "@daily") -> Manifest:
    return {"spec": {"schedule": schedule, "jobTemplate": {"spec": {"queue": queue}}}}


def flow(*flows: Manifest) -> Manifest:
    return {"spec": {"flows": list(flows)}}


def pod(**annotations: str) -> Manifest:
    keys = {"queue": "scheduling.volcano.sh/queue-name", "group": "scheduling.k8s.io/group-name"}
    given = {keys[name]: value for name, value in annotations.items()}
    return {"metadata": {"annotations": given}, "spec": {"serviceAccountName": "runner"}}


@pytest.mark.parametrize(
    ("kind", "manifest", "expected"),
    [
        (kinds.JOB, {"spec": {"queue": "fast"}}, QueueUse("spec.queue", "fast")),
        (kinds.JOB, {"spec": {}}, QueueUse("spec.queue", "default")),
        (kinds.CRON_JOB, cron("fast"), QueueUse("spec.jobTemplate.spec.queue", "fast")),
        (kinds.JOB_TEMPLATE, {"spec": {"queue": "fast"}}, QueueUse("spec.queue", "fast")),
        (kinds.JOB_FLOW, flow({"name": "t"}), QueueUse("spec.flows[0].name", "fast")),
        (
            kinds.JOB_FLOW,
            flow({"name": "t", "patch": {"jobSpec": {"queue": "other"}}}),
            QueueUse("spec.flows[0].patch.jobSpec.queue", "other"),
        ),
        (kinds.POD_GROUP, {"spec": {"queue": "fast"}}, QueueUse("spec.queue", "fast")),
        (kinds.POD, pod(queue="fast"), QueueUse("metadata.annotations[scheduling.volcano.sh/queue-name]", "fast")),
        (kinds.POD, pod(), QueueUse("metadata.annotations[scheduling.volcano.sh/queue-name]", "default")),
        (kinds.POD, pod(group="g"), QueueUse("metadata.annotations[scheduling.k8s.io/group-name]", "fast")),
    ],
)
def test_a_new_object_uses(kind: Kind, manifest: Manifest, expected: QueueUse) -> None:
    assert uses(kind, manifest) == [expected]


@pytest.mark.parametrize(
    ("kind", "manifest"),
    [
        (kinds.JOB, {"spec": {"queue": "default"}}),
        (kinds.JOB, {"spec": {}}),
        (kinds.CRON_JOB, cron("default")),
        (kinds.JOB_TEMPLATE, {"spec": {}}),
        (kinds.JOB_FLOW, flow({"name": "t", "patch": {"jobSpec": {"queue": ""}}})),
        (kinds.JOB_FLOW, flow({"name": "plain"})),
        (kinds.POD_GROUP, {"spec": {"queue": "default"}}),
        (kinds.POD, pod()),
        (kinds.POD, pod(queue="default")),
    ],
)
def test_the_default_queue_is_the_one_that_the_namespace_names(kind: Kind, manifest: Manifest) -> None:
    plain = JobTemplate(metadata=ObjectMeta(name="plain", namespace="ns"), spec={})
    assert of_team(kind, manifest, None, plain) == ["team"]
    assert Read(kinds.NAMESPACE, "ns") in reads_for_rights(request(kind, manifest))


def test_the_namespace_is_read_only_for_the_default_queue() -> None:
    for kind, manifest in ((kinds.JOB, {"spec": {"queue": "fast"}}), (kinds.POD, pod(queue="fast"))):
        assert of_team(kind, manifest) == ["fast"]
        assert reads_for_rights(request(kind, manifest)) == ()


def test_a_stored_pod_group_keeps_the_queue_default() -> None:
    """Only at its creation the namespace's queue takes the place of the default."""
    stored = replace(GROUP, metadata=ObjectMeta(name="old", namespace="ns"), spec=PodGroupSpec(queue="default"))
    assert of_team(kinds.POD, pod(group="old"), None, stored) == ["default"]
    assert of_team(kinds.POD_GROUP, {"spec": {"queue": "default"}}, {"spec": {"queue": "fast"}}) == ["default"]


def test_the_refusal_names_the_annotation_of_the_namespace() -> None:
    home = Namespace(metadata=ObjectMeta(name="ns", annotations={"scheduling.volcano.sh/queue-name": "team"}))
    (use,) = used_queues(request(kinds.JOB, {"spec": {}}), Stored(home))
    assert use.field == "spec.queue (by annotation scheduling.volcano.sh/queue-name of namespace ns)"


OWNED: Manifest = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1-2", "controller": True}
OWNERS_GROUP = PodGroup(metadata=ObjectMeta(name="podgroup-1-2", namespace="ns"), spec=PodGroupSpec(queue="fast"))


def owned_pod(**annotations: str) -> Manifest:
    made = pod(**annotations)
    made["metadata"]["ownerReferences"] = [OWNED]
    return made


def test_a_pod_joins_the_group_of_its_controller() -> None:
    asked = request(kinds.POD, owned_pod())
    assert Read(kinds.POD_GROUP, "podgroup-1-2", "ns") in reads_for_rights(asked)
    assert used_queues(asked, Stored(OWNERS_GROUP)) == [QueueUse("metadata.ownerReferences", "fast")]
    assert [use.queue for use in used_queues(asked, Stored())] == ["default"]


def test_a_pod_that_moves_the_group_of_its_controller_uses_both_queues() -> None:
    asked = request(kinds.POD, owned_pod(queue="vip"))
    assert [use.queue for use in used_queues(asked, Stored(OWNERS_GROUP))] == ["fast", "vip"]
    named = request(kinds.POD, pod(group="podgroup-1-2", queue="vip"))
    assert [use.queue for use in used_queues(named, Stored(OWNERS_GROUP))] == ["fast", "vip"]
    assert [use.queue for use in used_queues(request(kinds.POD, pod(group="g", queue="vip")), Stored(GROUP))] == [
        "fast"
    ]


def test_a_pod_that_gets_a_controller_joins_its_group() -> None:
    asked = request(kinds.POD, owned_pod(), pod())
    assert [use.queue for use in used_queues(asked, Stored(OWNERS_GROUP))] == ["fast"]


@pytest.mark.parametrize("name", ["a/b", "..", "A", "x" * 300, "%2e"])
def test_a_group_with_an_invalid_name_does_not_exist(name: str) -> None:
    """Its read would be answered by something else than 404, and fail the review."""
    asked = request(kinds.POD, pod(group=name))
    assert reads_for_rights(asked) == (Read(kinds.NAMESPACE, "ns"),)
    assert [use.queue for use in used_queues(asked, Stored())] == ["default"]
    assert reads_for_rights(request(kinds.JOB_FLOW, flow({"name": name}))) == (Read(kinds.NAMESPACE, "ns"),)


def test_a_queue_is_asked_about_once() -> None:
    uses = [QueueUse(f"spec.flows[{number}].name", "child") for number in range(1_000)]
    stored = Stored(queue("root"), restricted("team"), queue("child", "team"), queue("other", "team"))
    assert required_rights([*uses, QueueUse("x", "other")], stored) == [RequiredRight(uses[0], "team")]


def test_a_template_that_does_not_exist_yet_is_reviewed_when_it_is_created() -> None:
    assert uses(kinds.JOB_FLOW, flow({"name": "later"})) == []


@pytest.mark.parametrize(
    ("kind", "old", "new", "queues"),
    [
        (kinds.JOB, job(), job(minAvailable=0), []),
        (kinds.CRON_JOB, cron("fast"), cron("fast", "@hourly"), []),
        (kinds.CRON_JOB, cron("slow"), cron("fast"), ["fast"]),
        (kinds.JOB_TEMPLATE, {"spec": {"queue": "fast"}}, {"spec": {"queue": "fast", "maxRetry": 1}}, ["fast"]),
        (kinds.JOB_FLOW, flow({"name": "t"}), flow({"name": "t"}), []),
        (kinds.JOB_FLOW, flow(), flow({"name": "t"}), ["fast"]),
        (kinds.POD_GROUP, {"spec": {"queue": "fast"}}, {"spec": {"queue": "fast", "minMember": 2}}, []),
        (kinds.POD_GROUP, {"spec": {"queue": "slow"}}, {"spec": {"queue": "fast"}}, ["fast"]),
        (kinds.POD, pod(queue="fast"), pod(queue="fast"), []),
        (kinds.POD, pod(), pod(queue="fast"), ["fast"]),
        (kinds.QUEUE, {"spec": {}}, {"spec": {"weight": 2}}, []),
    ],
)
def test_an_update_uses_the_queues_of_changed_parts(
    kind: Kind, old: Manifest, new: Manifest, queues: list[str]
) -> None:
    assert [use.queue for use in uses(kind, new, old)] == queues


def test_a_deletion_uses_no_queue() -> None:
    asked = ReviewRequest(operation=Operation.DELETE, resource=kinds.JOB.resource, old={"spec": {"queue": "fast"}})
    assert used_queues(asked, Stored()) == []
    assert reads_for_rights(asked) == ()
    assert not uses_queues(asked)


def test_a_restriction_holds_for_the_queues_below() -> None:
    stored = Stored(queue("root"), restricted("team"), queue("child", "team"), restricted("grandchild", "child"))
    use = QueueUse("spec.queue", "grandchild")
    assert required_rights([use], stored) == [RequiredRight(use, "grandchild"), RequiredRight(use, "team")]
    assert required_rights([QueueUse("spec.queue", "root")], stored) == []
    assert required_rights([QueueUse("spec.queue", "absent")], stored) == []


def test_queues_that_are_their_own_ancestors_end_the_search() -> None:
    stored = Stored(restricted("a", "b"), restricted("b", "a"))
    assert [right.queue for right in required_rights([QueueUse("spec.queue", "a")], stored)] == ["a", "b"]


def command(kind: str, **fields: Any) -> Manifest:
    return {"action": "CloseQueue", "target": {"kind": kind, "name": "fast", "uid": "1", **fields}}


def test_a_command_to_a_queue_needs_the_right_to_update_it() -> None:
    (right,) = command_rights(request(kinds.COMMAND, command("Queue")))
    assert (right.queue, right.verb) == ("fast", "update")
    assert right.refusal(ALICE, "it has no such right") == (
        "target: user alice may not open or close queue fast (it has no such right); "
        "ask for the RBAC verb update on queues.scheduling.volcano.sh fast"
    )
    assert command_rights(request(kinds.COMMAND, command("Job"))) == []
    assert command_rights(request(kinds.COMMAND, {"target": "Queue"})) == []
    assert command_rights(request(kinds.JOB, command("Queue"))) == []


def test_a_refusal_names_field_user_queue_and_right() -> None:
    assert RequiredRight(QueueUse("spec.queue", "child"), "team").refusal(ALICE, "it has no such right") == (
        "spec.queue: user alice may not use queue child, which is below queue team, which is restricted "
        "(it has no such right); choose another queue, or ask for the RBAC verb use on "
        "queues.scheduling.volcano.sh team"
    )


def test_for_a_pod_the_right_of_its_service_account_suffices() -> None:
    assert subjects(request(kinds.JOB, job()), ALICE) == (ALICE,)
    account = User(
        username="system:serviceaccount:ns:runner",
        groups=("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
    )
    assert subjects(request(kinds.POD, pod()), ALICE) == (ALICE, account)


def owned(api_version: str, kind: Any, **more: Any) -> Manifest:
    return {"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "controller": True, **more}]}}


@pytest.mark.parametrize(
    ("kind", "manifest", "user", "expected"),
    [
        (kinds.JOB, owned("batch.volcano.sh/v1alpha1", "CronJob"), CONTROLLERS, True),
        (kinds.JOB, owned("flow.volcano.sh/v1alpha1", "JobFlow"), CONTROLLERS, True),
        (kinds.JOB, owned("v1", "ConfigMap"), CONTROLLERS, False),
        (kinds.JOB, owned("v1", ["CronJob"]), CONTROLLERS, False),
        (kinds.JOB, job(), CONTROLLERS, False),
        (kinds.JOB, owned("batch.volcano.sh/v1alpha1", "CronJob"), ALICE, False),
        (kinds.POD_GROUP, owned("apps/v1", "ReplicaSet"), CONTROLLERS, True),
        (kinds.POD, owned("batch.volcano.sh/v1alpha1", "Job"), CONTROLLERS, True),
        (kinds.CRON_JOB, owned("batch.volcano.sh/v1alpha1", "Job"), CONTROLLERS, False),
    ],
)
def test_children_that_controllers_create_were_reviewed_with_their_owner(
    kind: Kind, manifest: Manifest, user: User, expected: bool
) -> None:
    settings = replace(SETTINGS, trusted_users=(CONTROLLERS.username,))
    assert is_reviewed_child(request(kind, manifest), user, settings) is expected


def test_a_flow_of_many_templates_lists_them() -> None:
    few = flow({"name": "a"}, {"name": "b"}, {"name": "a"})
    assert reads_for_rights(request(kinds.JOB_FLOW, few)) == (
        Read(kinds.NAMESPACE, "ns"),
        Read(kinds.JOB_TEMPLATE, "a", "ns"),
        Read(kinds.JOB_TEMPLATE, "b", "ns"),
    )
    many = flow(*({"name": f"t{number}"} for number in range(9)))
    assert reads_for_rights(request(kinds.JOB_FLOW, many)) == (
        Read(kinds.NAMESPACE, "ns"),
        Read(kinds.JOB_TEMPLATE, "", "ns"),
    )


def native_pod(**annotations: str) -> Manifest:
    return {"metadata": {"annotations": annotations}, "spec": {"schedulingGroup": {"podGroupName": "g"}}}


NAMED = {"scheduling.volcano.sh/queue-name": "fast"}
IN_ANNOTATION = "metadata.annotations[scheduling.volcano.sh/queue-name]"


@pytest.mark.parametrize("kind", [kinds.NATIVE_POD_GROUP, kinds.WORKLOAD])
def test_a_native_group_uses_the_queue_that_it_comes_to_name(kind: Kind) -> None:
    named: Manifest = {"metadata": {"annotations": NAMED, "labels": NAMED}}
    in_label = QueueUse("metadata.labels[scheduling.volcano.sh/queue-name]", "fast")
    assert uses(kind, named) == [QueueUse(IN_ANNOTATION, "fast"), in_label]
    assert uses(kind, named, {"metadata": {"annotations": NAMED}}) == [in_label]
    assert uses(kind, named, named) == uses(kind, {"metadata": {}}) == []


def test_a_pod_in_a_native_group_uses_its_queue() -> None:
    group = NativePodGroup(metadata=ObjectMeta(name="g", namespace="ns", labels=NAMED))
    reference = WorkloadReference(workload_name="w", template_name="t")
    of_workload = NativePodGroup(
        metadata=ObjectMeta(name="g", namespace="ns"), spec=NativeGroupSpec(workload_ref=reference)
    )
    workload = Workload(metadata=ObjectMeta(name="w", namespace="ns", annotations={**NAMED}))
    asked = request(kinds.POD, native_pod())
    for stored in ((group,), (of_workload, workload)):
        assert used_queues(asked, Stored(*stored)) == [QueueUse("spec.schedulingGroup", "fast")]
    assert used_queues(asked, Stored(of_workload)) == [QueueUse(IN_ANNOTATION, "default")]
    assert used_queues(request(kinds.POD, native_pod(**NAMED)), Stored()) == [QueueUse(IN_ANNOTATION, "fast")]
    assert reads_for_rights(asked)[-2:] == (Read(kinds.NATIVE_POD_GROUP, "g", "ns"), Read(kinds.WORKLOAD, "", "ns"))


def test_a_pod_in_a_native_group_also_uses_the_queue_that_it_names_itself() -> None:
    group = NativePodGroup(metadata=ObjectMeta(name="g", namespace="ns", annotations={**NAMED}))
    own = native_pod(**{"scheduling.volcano.sh/queue-name": "own"})
    found = used_queues(request(kinds.POD, own), Stored(group))
    assert found == [QueueUse("spec.schedulingGroup", "fast"), QueueUse(IN_ANNOTATION, "own")]


def test_a_native_group_without_queue_uses_that_of_its_workload() -> None:
    workload = Workload(metadata=ObjectMeta(name="w", namespace="ns", annotations={**NAMED}))
    of_workload: Manifest = {"metadata": {}, "spec": {"workloadRef": {"workloadName": "w", "templateName": "t"}}}
    with_own = {**of_workload, "metadata": {"labels": {"scheduling.volcano.sh/queue-name": "own"}}}
    for old in (None, with_own):
        asked = request(kinds.NATIVE_POD_GROUP, of_workload, old)
        assert used_queues(asked, Stored(workload)) == [QueueUse("spec.workloadRef", "fast")]
        assert reads_for_rights(asked) == (Read(kinds.WORKLOAD, "w", "ns"),)
    for new, before in ((of_workload, of_workload), (with_own, with_own)):
        assert used_queues(request(kinds.NATIVE_POD_GROUP, new, before), Stored(workload)) == []


def test_no_native_group_is_read_by_a_name_that_is_none() -> None:
    odd = {"spec": {"schedulingGroup": {"podGroupName": "../g"}}}
    assert [read.kind for read in reads_for_rights(request(kinds.POD, odd))] == [kinds.NAMESPACE]
