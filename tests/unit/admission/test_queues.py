"""Queues and PodGroups: one row a rule, object in, messages out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tests.unit.admission.objects import QUEUES, SETTINGS, create, delete, queue, update
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest, ObjectMeta, OwnerReference, StatusCondition
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue
from volcanoio.model.workloads import QUEUE_PHASE, NativeGroupStatus, NativePodGroup, place_message


def manifest(name: str = "q", annotations: Manifest | None = None, **spec: Any) -> Manifest:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {"weight": 1, **spec}}


def as_manifest(obj: Queue) -> Manifest:
    return deepcopy(kinds.QUEUE.manifest(obj))


def test_defaults_of_a_queue() -> None:
    review = create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {}})
    assert review.object is not None
    assert review.object["spec"] == {"reclaimable": True, "weight": 1}


def test_a_new_queue_of_weight_0_gets_weight_1_and_a_stored_one_cannot_lose_its_weight() -> None:
    review = create(kinds.QUEUE, manifest(weight=0))
    assert review.object is not None
    assert (review.messages, review.object["spec"]["weight"]) == ((), 1)
    (message,) = update(kinds.QUEUE, manifest(), manifest(weight=0)).messages
    assert message.startswith("spec.weight: queue weight must be a positive integer between 1 and 2147483647, not 0")


@pytest.mark.parametrize("state", ["Open", "Closed", "Closing", "Unknown"])
def test_a_queue_may_be_created_with_any_state_as_a_copy_of_one_has(state: str) -> None:
    """The server drops it: the state of a new queue is the controller's to set."""
    assert create(kinds.QUEUE, {**manifest(), "status": {"state": state}}).messages == ()


def test_a_hierarchy_begins_at_the_root() -> None:
    annotations = {"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "2/3"}
    review = create(kinds.QUEUE, manifest(annotations=annotations))
    assert review.object is not None
    assert review.object["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/a/b",
        "volcano.sh/hierarchy-weights": "1/2/3",
    }


HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
TREE = (
    queue("root"),
    queue("a", capability={"cpu": "10", "memory": "10Gi"}, deserved={"cpu": "8"}, guarantee={"cpu": "4"}),
    queue("b", parent="a", capability={"cpu": "6"}, deserved={"cpu": "4"}, guarantee={"cpu": "2"}),
    queue("c", parent="b"),
    queue("d", parent="c"),
    queue("busy", pods=3),
    queue("elder", annotations={HIERARCHY: "root/x/y", WEIGHTS: "1/1/1"}),
)

RULES: dict[str, tuple[Manifest, str]] = {
    "weight too large": (manifest(weight=2**31), "spec.weight: queue weight must be a positive integer between 1 and"),
    "negative weight": (manifest(weight=-1), "spec.weight: queue weight must be a positive integer"),
    "unknown state": (
        {**manifest(), "status": {"state": "Opened"}},
        'status.state: queue state must be in [Open Closed], not "Opened"; did you mean "Open"?',
    ),
    "no quantity": (
        manifest(capability={"cpu": "four"}),
        "spec.capability.cpu: 'four' is not a quantity; write a number with an optional suffix, such as 500m, 2 or 4Gi",
    ),
    "negative quantity": (manifest(deserved={"cpu": "-1"}), "spec.deserved.cpu: -1 is negative; give 0 or more"),
    "half a device": (
        manifest(capability={"nvidia.com/gpu": "500m"}),
        "spec.capability.nvidia.com/gpu: 500m is not a whole number, as nvidia.com/gpu must be; give a whole number",
    ),
    "guarantee that is not deserved": (
        manifest(guarantee={"resource": {"cpu": "2"}}),
        "spec.deserved.cpu: deserved[cpu] must be >= guarantee[cpu]=2; set it to 2 or more",
    ),
    "guarantee over deserved": (
        manifest(guarantee={"resource": {"cpu": "2000m"}}, deserved={"cpu": "1"}),
        "spec.deserved.cpu: deserved[cpu]=1 must be >= guarantee[cpu]=2; raise deserved or lower guarantee",
    ),
    "deserved over capability": (
        manifest(deserved={"memory": "2Gi"}, capability={"memory": "1Gi"}),
        "spec.deserved.memory: deserved[memory]=2Gi must be <= capability[memory]=1Gi; lower deserved or raise ",
    ),
    "hierarchy and weights of other length": (
        manifest(annotations={HIERARCHY: "root/a", WEIGHTS: "1"}),
        f"metadata.annotations[{HIERARCHY}]: {HIERARCHY} must have the same length with {WEIGHTS}; ",
    ),
    "hierarchy with no number": (
        manifest(annotations={HIERARCHY: "root/a", WEIGHTS: "1/x"}),
        (
            f'metadata.annotations[{WEIGHTS}]: x in the 1/x is invalid number: strconv.ParseFloat: parsing "x": '
            "invalid syntax; write such as 1/2/0.5"
        ),
    ),
    "hierarchy with weight 0": (
        manifest(annotations={HIERARCHY: "root/a", WEIGHTS: "1/0"}),
        f"metadata.annotations[{WEIGHTS}]: 0 in the 1/0 must be larger than 0; ",
    ),
    "hierarchy above another's": (
        manifest(annotations={HIERARCHY: "root/x", WEIGHTS: "1/1"}),
        f"metadata.annotations[{HIERARCHY}]: root/x is not allowed to be in the sub path of root/x/y of queue elder; ",
    ),
    "itself as parent": (
        manifest(parent="q"),
        "spec.parent: queue q cannot use itself as parent; choose another queue",
    ),
    "absent parent": (
        manifest(parent="elde"),
        (
            'spec.parent: failed to get parent queue elde of queue q: queue.scheduling.volcano.sh "elde" not found; '
            'did you mean "elder"?; create the parent first'
        ),
    ),
    "parent with pods": (
        manifest(parent="busy"),
        "spec.parent: queue busy cannot be the parent queue of queue q because it has allocated Pods: 3; ",
    ),
    "capability over an ancestor's": (
        manifest(parent="c", capability={"memory": "11Gi"}),
        (
            "spec.capability.memory: queue q capability[memory]=11Gi exceeds its ancestor's capability=10Gi; "
            "lower it, or raise that of queue a"
        ),
    ),
    "children deserve more than the parent": (
        manifest(parent="a", deserved={"cpu": "5"}),
        (
            "spec.deserved.cpu: parent queue a validation failed: sum of children's deserved (cpu 9) exceeds parent's "
            "deserved limit (cpu 8); lower the children's deserved or raise that of a"
        ),
    ),
    "children are guaranteed more than the parent": (
        manifest(parent="a", deserved={"cpu": "3"}, guarantee={"resource": {"cpu": "3"}}),
        (
            "spec.guarantee.resource.cpu: parent queue a validation failed: sum of children's guarantee (cpu 5) "
            "exceeds parent's guarantee limit (cpu 4); "
        ),
    ),
    "deserved under a parent that names none": (
        manifest(parent="c", deserved={"cpu": "1"}),
        (
            "spec.deserved.cpu: parent queue c validation failed: sum of children's deserved (cpu 1) exceeds parent's "
            "deserved limit (cpu 0); "
        ),
    ),
    "wrong type": (manifest(weight="heavy"), "spec.weight: Expected `int`, got `str`; see kubectl explain queue"),
}


@pytest.mark.parametrize(("given", "message"), RULES.values(), ids=RULES)
def test_a_bad_queue_is_refused_with_field_rule_and_next_step(given: Manifest, message: str) -> None:
    review = create(kinds.QUEUE, given, *TREE)
    assert not review.allowed
    assert [line for line in review.messages if line.startswith(message)], review.messages


GOOD: dict[str, Manifest] = {
    "plain": manifest(),
    "heaviest": manifest(weight=2**31 - 1),
    "below the root": manifest(parent="root"),
    "below a queue": manifest(parent="a", deserved={"cpu": "4"}, capability={"cpu": "10"}),
    "deserved below the root, which names none": manifest(parent="root", deserved={"cpu": "1000"}),
    "all three": manifest(capability={"cpu": "4"}, deserved={"cpu": "2"}, guarantee={"resource": {"cpu": "2000m"}}),
    "millicores": manifest(capability={"cpu": "500m", "nvidia.com/gpu": "2"}),
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD)
def test_a_good_queue_is_allowed(given: Manifest) -> None:
    assert create(kinds.QUEUE, given, *TREE).messages == ()


def test_the_tree_has_a_depth() -> None:
    shallow = msgspec.structs.replace(SETTINGS, max_queue_depth=4)
    (message,) = create(kinds.QUEUE, manifest(parent="d"), *TREE, settings=shallow).messages
    assert message.startswith("spec.parent: queue q exceeds the maximum allowed depth of 4; ")
    assert create(kinds.QUEUE, manifest(parent="d"), *TREE).allowed


@pytest.mark.parametrize("state", ["", "Open", "Closed", "Closing", "Unknown"])
def test_a_queue_in_any_state_may_be_changed(state: str) -> None:
    """Also while it is closing, which Volcano refuses."""
    old = as_manifest(queue("q", state=state))
    new = deepcopy(old)
    new["spec"]["weight"] = 3
    assert update(kinds.QUEUE, old, new, *TREE).messages == ()


def test_a_queue_cannot_come_below_itself() -> None:
    old = next(obj for obj in TREE if obj.metadata.name == "b")
    new = as_manifest(old)
    new["spec"]["parent"] = "d"
    messages = update(kinds.QUEUE, as_manifest(old), new, *TREE).messages
    assert "spec.parent: queue b would be below itself; choose a parent outside its own branch" in messages


def test_a_parent_cannot_have_less_than_its_children() -> None:
    old = next(obj for obj in TREE if obj.metadata.name == "a")
    new = as_manifest(old)
    new["spec"]["capability"]["cpu"] = "5"
    new["spec"]["deserved"]["cpu"] = "5"
    (message,) = update(kinds.QUEUE, as_manifest(old), new, *TREE).messages
    assert message == (
        "spec.capability.cpu: queue a capability[cpu]=5 is smaller than its descendants' max capability=6; "
        "raise it, or lower that of queue b first"
    )


def test_a_change_outside_the_branch_does_not_validate_it() -> None:
    """A branch that was unsound before does not keep its queues from other changes."""
    broken = (queue("root"), queue("p"), queue("k", parent="p", deserved={"cpu": "9"}))
    old = as_manifest(broken[2])
    new = deepcopy(old)
    new["metadata"]["annotations"] = {"volcano.sh/closed-by-parent": "true"}
    assert update(kinds.QUEUE, old, new, *broken).allowed


def test_the_roots_amounts_stay_unless_protection_is_off() -> None:
    old = as_manifest(queue("root"))
    new = deepcopy(old)
    new["spec"]["capability"] = {"cpu": "1"}
    (message,) = update(kinds.QUEUE, old, new, *TREE).messages
    assert message.startswith(
        "spec.capability: root queue's resource attributes (capability, deserved, guarantee) cannot be modified; "
    )
    off = msgspec.structs.replace(SETTINGS, root_queue_protection=False)
    assert update(kinds.QUEUE, old, new, *TREE, settings=off).allowed


DELETIONS: dict[str, tuple[str, tuple[ApiObject, ...], str]] = {
    "root": ("root", QUEUES, "metadata.name: `root` queue can not be deleted; "),
    "default": ("default", QUEUES, "metadata.name: `default` queue can not be deleted; "),
    "children": (
        "a",
        TREE,
        "metadata.name: queue a can not be deleted because it has 1 child queues: b; delete or move them first",
    ),
}


@pytest.mark.parametrize(("name", "stored", "message"), DELETIONS.values(), ids=DELETIONS)
def test_queues_that_must_stay(name: str, stored: tuple[ApiObject, ...], message: str) -> None:
    review = delete(kinds.QUEUE, name, *stored)
    assert not review.allowed
    assert review.messages[0].startswith(message)


def test_a_queue_with_pods_stays_if_that_is_asked_for() -> None:
    assert delete(kinds.QUEUE, "busy", *TREE).allowed
    checking = msgspec.structs.replace(SETTINGS, queue_allocated_pods_check=True)
    (message,) = delete(kinds.QUEUE, "busy", *TREE, settings=checking).messages
    assert "because it has allocated Pods: 3" in message


def left(name: str, queue: str, phase: str, *, job: str = "", namespace: str = "ns") -> PodGroup:
    """A PodGroup in a queue, a Job's when it is given."""
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name=job, uid="u", controller=True)
    meta = ObjectMeta(name=name, namespace=namespace, owner_references=(owner,) if job else ())
    return PodGroup(metadata=meta, spec=PodGroupSpec(queue=queue), status=PodGroupStatus(phase=phase))


def native_left(name: str, queue: str, phase: str) -> NativePodGroup:
    """Return a native group as the scheduler has it in a queue, "" for one of another scheduler."""
    counted = StatusCondition(type=QUEUE_PHASE, status="True", reason=phase, message=place_message(queue, "volcano"))
    status = NativeGroupStatus(conditions=(counted,) if queue else ())
    return NativePodGroup(metadata=ObjectMeta(name=name, namespace="ns"), status=status)


def test_deleting_a_queue_warns_of_its_remaining_jobs() -> None:
    groups = (
        left("train-1", "q", "Pending", job="train"),
        left("serve-2", "q", "Inqueue", job="serve"),
        left("g", "q", "Running", namespace="team"),
        left("odd", "q", "Unknown"),
        left("new", "q", ""),
        left("done", "q", "Completed", job="done"),
        left("elsewhere", "default", "Pending"),
        native_left("native", "q", "Inqueue"),
        native_left("theirs", "", ""),
    )
    review = delete(kinds.QUEUE, "q", queue("q"), *groups)
    assert review.allowed
    assert review.warnings == (
        (
            "metadata.name: queue q still has 4 waiting (Job ns/serve, Job ns/train, PodGroup ns/new, "
            "PodGroup.scheduling.k8s.io ns/native) and 2 running "
            "(PodGroup ns/odd, PodGroup team/g); what waits stays pending until a queue of that name exists again"
        ),
    )


def test_deleting_a_queue_names_a_few_of_many_that_are_left() -> None:
    waiting = [left(f"g{number}", "q", "Pending") for number in range(9)]
    (warning,) = delete(kinds.QUEUE, "q", queue("q"), *waiting).warnings
    named = ", ".join(f"PodGroup ns/g{number}" for number in range(5))
    assert warning.startswith(f"metadata.name: queue q still has 9 waiting ({named} and 4 more); what waits stays")


@pytest.mark.parametrize("stored", [(queue("q"),), (queue("q"), left("done", "q", "Completed"))])
def test_deleting_an_empty_queue_causes_no_warning(stored: tuple[ApiObject, ...]) -> None:
    assert delete(kinds.QUEUE, "q", *stored).warnings == ()


def pod_group(queue: str, namespace: str = "ns", **spec: Any) -> Manifest:
    return {"metadata": {"name": "g", "namespace": namespace}, "spec": {"queue": queue, **spec}}


def test_a_pod_group_gets_the_queue_of_its_namespace() -> None:
    review = create(kinds.POD_GROUP, pod_group("default", namespace="team"))
    assert review.allowed
    assert review.object is not None
    assert review.object["spec"]["queue"] == "child"
    other = create(kinds.POD_GROUP, pod_group("fresh", namespace="team"))
    assert other.object is not None
    assert other.object["spec"]["queue"] == "fresh"


POD_GROUPS: dict[str, tuple[Manifest, str]] = {
    "unknown queue": (
        pod_group("absent"),
        'spec.queue: unable to find queue: queue.scheduling.volcano.sh "absent" not found; ',
    ),
    "closed queue": (pod_group("closed"), "spec.queue: can only submit PodGroup to queue with state `Open`, queue"),
    "negative minMember": (pod_group("default", minMember=-1), "spec.minMember: minMember must be >= 0; "),
    "negative minTaskMember": (pod_group("default", minTaskMember={"a": -1}), "spec.minTaskMember.a: must be >= 0; "),
    "two highest tiers": (
        pod_group("default", networkTopology={"highestTierAllowed": 1, "highestTierName": "x"}),
        "spec.networkTopology: must not specify 'highestTierAllowed' and 'highestTierName'",
    ),
    "two highest tiers of a part": (
        pod_group(
            "default",
            subGroupPolicy=[{"name": "a", "networkTopology": {"highestTierAllowed": 1, "highestTierName": "x"}}],
        ),
        "spec.subGroupPolicy[0].networkTopology: in subGroupPolicy 'a': must not specify 'highestTierAllowed'",
    ),
}


@pytest.mark.parametrize(("given", "message"), POD_GROUPS.values(), ids=POD_GROUPS)
def test_a_bad_pod_group_is_refused(given: Manifest, message: str) -> None:
    review = create(kinds.POD_GROUP, given)
    assert not review.allowed
    assert [line for line in review.messages if line.startswith(message)], review.messages


@pytest.mark.parametrize("name", ["", "default", "fresh", "parent", "root"])
def test_pod_groups_of_others_may_use_any_open_queue(name: str) -> None:
    assert create(kinds.POD_GROUP, pod_group(name)).allowed
