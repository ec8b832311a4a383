"""resource.k8s.io: what claims, templates, classes and slices may contain, and how an allocation is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.support import STRATEGIC, TABLE, Cluster, Namespace, Obj, gone, unique

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"


def claims(namespace: Namespace, name: str = "", subresource: str = "") -> str:
    """The path of the claims of a namespace, of one of them, or of its status."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace.name}/resourceclaims"
    return "/".join(part for part in (path, name, subresource) if part)


def consumer(namespace: Namespace, name: str) -> Obj:
    """A new pod, as a consumer of claims."""
    made = namespace.pod(name, schedulerName="none")
    return {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}


def asking(**exactly: Any) -> Obj:
    """The spec of a claim with one request."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}]}}


def allocation(**more: Any) -> Obj:
    """The allocation of one device."""
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0", **more}
    return {"devices": {"results": [result]}}


def slice_of(*devices: Obj, **more: Any) -> Obj:
    """A slice of one node."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n1", "devices": list(devices), **more}
    return {"metadata": {"name": unique("slice")}, "spec": {key: value for key, value in spec.items() if value}}


def consuming(*counters: str) -> Obj:
    """What a device consumes of a counter set."""
    return {"counterSet": "s", "counters": {name: {"value": "1"} for name in counters}}


def conditional(*conditions: str) -> Obj:
    """A device with binding conditions."""
    return {"name": "g", "bindingConditions": list(conditions), "bindingFailureConditions": ["failed"]}


def terms(*expressions: Obj) -> Obj:
    """A node selector of one term."""
    return {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}


@pytest.fixture
def claim(namespace: Namespace) -> Iterator[Obj]:
    """A claim named c, whose finalizer is removed at the end."""
    body = {"metadata": {"name": "c"}, "spec": asking()}
    yield namespace.cluster.create(claims(namespace), body).ok()
    status = {"status": {"reservedFor": None, "allocation": None}}
    namespace.cluster.patch(claims(namespace, "c", "status"), status)
    namespace.cluster.patch(claims(namespace, "c"), {"metadata": {"finalizers": None}})


def test_requests_are_completed(claim: Obj) -> None:
    exactly = claim["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert claim["status"] == {}
    assert "generation" not in claim["metadata"]


@pytest.mark.parametrize(
    ("spec", "field", "part"),
    [
        ({"devices": {"requests": [{"name": "a"}]}}, "spec.devices.requests[0]", "exactly one of `exactly`"),
        (asking(deviceClassName="G U"), "spec.devices.requests[0].exactly.deviceClassName", "RFC 1123"),
        (asking(count=-1), "spec.devices.requests[0].exactly.count", "must be greater than zero"),
        (asking(allocationMode="All", count=2), "spec.devices.requests[0].exactly.count", "must not be specified"),
        (asking(allocationMode="Some"), "spec.devices.requests[0].exactly.allocationMode", "Unsupported value"),
        (
            asking(selectors=[{"cel": {"expression": "device.nope"}}]),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression",
            "undefined field 'nope'",
        ),
        (
            asking(selectors=[{"cel": {"expression": "device.driver"}}]),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression",
            "must evaluate to bool or the unknown type, not string",
        ),
        (
            asking(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            "spec.devices.requests[0].exactly.tolerations[0].value",
            "must be empty for operator `Exists`",
        ),
        (
            {"devices": {**asking()["devices"], "constraints": [{"requests": ["b"], "matchAttribute": "a.com/b"}]}},
            "spec.devices.constraints[0].requests[0]",
            "must be the name of a request in the claim",
        ),
        (
            {"devices": {**asking()["devices"], "constraints": [{"matchAttribute": "b"}]}},
            "spec.devices.constraints[0].matchAttribute",
            "must be a domain and a name separated by a slash",
        ),
        (
            {"devices": {**asking()["devices"], "config": [{"requests": ["gpu"]}]}},
            "spec.devices.config[0].opaque",
            "Required value",
        ),
        (asking(adminAccess=True), "spec.devices.requests[0].adminAccess", "label on the containing namespace"),
    ],
)
def test_claims_that_are_not_valid(namespace: Namespace, spec: Obj, field: str, part: str) -> None:
    body = {"metadata": {"name": "bad"}, "spec": spec}
    _is_invalid(namespace.cluster.create(claims(namespace), body).refused(422, "Invalid"), field, part)


def _is_invalid(status: Obj, field: str, part: str) -> None:
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert field in causes, causes
    assert part in causes[field]


def test_selectors_may_use_kubernetes_functions(namespace: Namespace) -> None:
    texts = [
        f'device.attributes["{DRIVER}"].model == "a100" && device.driver.startsWith("gpu")',
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
        f'device.attributes["{DRIVER}"].version.isGreaterThan(semver("1.2.0"))',
        f'cel.bind(all, device.attributes["{DRIVER}"], has(all.numa) && all.numa in [0, 1])',
    ]
    body = {"metadata": {"name": "c"}, "spec": asking(selectors=[{"cel": {"expression": text}} for text in texts])}
    namespace.cluster.create(claims(namespace), body).ok()


def test_the_spec_of_a_claim_never_changes(namespace: Namespace, claim: Obj) -> None:
    patch = {"spec": asking(count=2)}
    status = namespace.cluster.patch(claims(namespace, "c"), patch).refused(422, "Invalid")
    _is_invalid(status, "spec", "field is immutable")
    namespace.cluster.patch(claims(namespace, "c"), {"metadata": {"labels": {"a": "b"}}}).ok()


def test_a_claim_is_allocated_and_reserved_in_one_patch(namespace: Namespace, claim: Obj) -> None:
    """As the scheduler does: a strategic merge patch of the status adds to the consumers."""
    cluster, path = namespace.cluster, claims(namespace, "c", "status")
    pod, other = consumer(namespace, "p"), consumer(namespace, "q")
    both = {"status": {"allocation": allocation(), "reservedFor": [pod]}}
    first = cluster.patch(path, both, STRATEGIC).ok()
    assert first["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert "finalizers" not in first["metadata"]
    again = cluster.patch(path, {"status": {"allocation": allocation(), "reservedFor": [other]}}, STRATEGIC).ok()
    assert sorted(one["name"] for one in again["status"]["reservedFor"]) == ["p", "q"]
    without = {"status": {"reservedFor": [{"$patch": "delete", "uid": pod["uid"]}]}}
    assert [one["name"] for one in cluster.patch(path, without, STRATEGIC).ok()["status"]["reservedFor"]] == ["q"]


def test_an_allocation_is_not_changed_and_not_removed_while_it_is_reserved(namespace: Namespace, claim: Obj) -> None:
    cluster, path = namespace.cluster, claims(namespace, "c", "status")
    pod = consumer(namespace, "p")
    cluster.patch(path, {"status": {"allocation": allocation(), "reservedFor": [pod]}}, STRATEGIC).ok()
    other = {"status": {"allocation": allocation(device="gpu-1")}}
    _is_invalid(cluster.patch(path, other, STRATEGIC).refused(422, "Invalid"), "status.allocation", "immutable")
    status = cluster.patch(path, {"status": {"allocation": None}}).refused(422, "Invalid")
    _is_invalid(status, "status.reservedFor", "may not be specified when `allocated` is not set")
    freed = cluster.patch(path, {"status": {"allocation": None, "reservedFor": None}}).ok()
    assert freed["status"] == {}


def test_a_claim_that_is_not_allocated_is_not_reserved(namespace: Namespace, claim: Obj) -> None:
    path = claims(namespace, "c", "status")
    pod = consumer(namespace, "p")
    status = namespace.cluster.patch(path, {"status": {"reservedFor": [pod]}}, STRATEGIC).refused(422, "Invalid")
    _is_invalid(status, "status.reservedFor", "may not be specified when `allocated` is not set")


def test_a_claim_that_is_being_deleted_gets_no_new_consumers(namespace: Namespace, claim: Obj) -> None:
    cluster = namespace.cluster
    protect = {"metadata": {"finalizers": [FINALIZER]}}
    cluster.patch(claims(namespace, "c"), protect, STRATEGIC).ok()
    pod, other = consumer(namespace, "p"), consumer(namespace, "q")
    path = claims(namespace, "c", "status")
    cluster.patch(path, {"status": {"allocation": allocation(), "reservedFor": [pod]}}).ok()
    cluster.delete(claims(namespace, "c")).ok()
    late = cluster.patch(path, {"status": {"reservedFor": [other]}}, STRATEGIC).refused(422, "Invalid")
    _is_invalid(late, "status.reservedFor", "new entries may not be added")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"request": "other"}, "status.allocation.devices.results[0].request"),
        ({"driver": ""}, "status.allocation.devices.results[0].driver"),
        ({"shareID": "no"}, "status.allocation.devices.results[0].shareID"),
    ],
)
def test_allocations_that_are_not_valid(namespace: Namespace, claim: Obj, more: Obj, field: str) -> None:
    patch = {"status": {"allocation": allocation(**more)}}
    status = namespace.cluster.patch(claims(namespace, "c", "status"), patch).refused(422, "Invalid")
    assert field in [cause["field"] for cause in status["details"]["causes"]]


def test_claims_are_listed_with_their_state(namespace: Namespace, claim: Obj) -> None:
    cluster, path = namespace.cluster, claims(namespace)
    assert _cells(cluster, path) == [["c", "pending"]]
    patch = {"status": {"allocation": allocation(), "reservedFor": [consumer(namespace, "p")]}}
    cluster.patch(claims(namespace, "c", "status"), patch).ok()
    assert _cells(cluster, path) == [["c", "allocated,reserved"]]


def _cells(cluster: Cluster, path: str) -> list[list[Any]]:
    table = cluster.request("GET", path, headers={"Accept": TABLE}).ok()
    return [row["cells"][:-1] for row in table["rows"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (slice_of({"name": "G"}), "spec.devices[0].name"),
        (slice_of({"name": "g"}, {"name": "g"}), "spec.devices[1]"),
        (slice_of({"name": "g", "attributes": {"a": {"int": 1, "bool": True}}}), "spec.devices[0].attributes[a]"),
        (slice_of({"name": "g", "attributes": {"a": {"version": "1"}}}), "spec.devices[0].attributes[a].version"),
        (slice_of({"name": "g"}, nodeName="", allNodes=None), "spec"),
        (slice_of({"name": "g"}, allNodes=True), "spec"),
        (slice_of({"name": "g"}, driver="a b"), "spec.driver"),
        (slice_of({"name": "g", "taints": [{"key": "k"}]}), "spec.devices[0].taints[0].effect"),
        (
            slice_of({"name": "g", "taints": [{"key": "k", "effect": "PreferNoSchedule"}]}),
            "spec.devices[0].taints[0].effect",
        ),
        (
            slice_of({"name": "g", "consumesCounters": [consuming("c"), consuming("c")]}),
            "spec.devices[0].consumesCounters[1]",
        ),
        (
            slice_of(
                sharedCounters=[{"name": "s", "counters": consuming(*(f"c{at}" for at in range(33)))["counters"]}]
            ),
            "spec.sharedCounters[0].counters",
        ),
        (slice_of({"name": "g", "bindingConditions": ["a"]}), "spec.devices[0].bindingFailureConditions"),
        (slice_of({"name": "g", "bindingFailureConditions": ["a"]}), "spec.devices[0].bindingConditions"),
        (slice_of(conditional("a", "b c")), "spec.devices[0].bindingConditions[1]"),
        (slice_of(conditional("a", "a")), "spec.devices[0].bindingConditions[1]"),
        (slice_of(conditional(*"abcde")), "spec.devices[0].bindingConditions"),
        (slice_of(conditional("failed")), "spec.devices[0].bindingFailureConditions[0]"),
        (
            slice_of({"name": "g", "capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}}),
            "spec.devices[0].capacity[m].requestPolicy",
        ),
        (
            slice_of({"name": "g"}, nodeName=None, nodeSelector=terms({"key": "rack", "operator": "In"})),
            "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values",
        ),
    ],
)
def test_slices_that_are_not_valid(cluster: Cluster, body: Obj, field: str) -> None:
    status = cluster.create(SLICES, body).refused(422, "Invalid")
    assert field in [cause["field"] for cause in status["details"]["causes"]], status["details"]["causes"]


def test_slices_are_selected_by_node_and_driver(cluster: Cluster) -> None:
    made = cluster.create(SLICES, slice_of({"name": "g", "taints": [{"key": "k", "effect": "None"}]})).ok()
    name = made["metadata"]["name"]
    try:
        assert made["metadata"]["generation"] == 1
        assert made["spec"]["devices"][0]["taints"][0]["timeAdded"]
        for selector, found in ((f"spec.nodeName=n1,spec.driver={DRIVER}", True), ("spec.nodeName=n2", False)):
            listed = cluster.get(SLICES, fieldSelector=selector).ok()["items"]
            assert (name in [one["metadata"]["name"] for one in listed]) is found
        status = cluster.patch(f"{SLICES}/{name}", {"spec": {"driver": "other.example.com"}}).refused(422, "Invalid")
        _is_invalid(status, "spec.driver", "field is immutable")
        (row,) = [cells for cells in _cells(cluster, SLICES) if cells[0] == name]
        assert row == [name, "n1", DRIVER, "n1"]
    finally:
        cluster.delete(f"{SLICES}/{name}")


def test_a_class_selects_by_valid_expressions(cluster: Cluster) -> None:
    name = unique("class")
    body = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": 'device.driver == "x"'}}]}}
    cluster.create(CLASSES, body).ok()
    try:
        patch = {"spec": {"selectors": [{"cel": {"expression": "1 +"}}]}}
        status = cluster.patch(f"{CLASSES}/{name}", patch).refused(422, "Invalid")
        _is_invalid(status, "spec.selectors[0].cel.expression", "compilation failed")
    finally:
        cluster.delete(f"{CLASSES}/{name}")


def test_the_spec_of_a_template_never_changes(namespace: Namespace) -> None:
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace.name}/resourceclaimtemplates"
    body = {"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": asking()}}
    made = namespace.cluster.create(path, body).ok()
    assert made["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    patch = {"spec": {"metadata": {"labels": {"a": "c"}}}}
    _is_invalid(namespace.cluster.patch(f"{path}/t", patch).refused(422, "Invalid"), "spec", "field is immutable")


def test_a_pod_gets_a_claim_of_its_template_and_frees_it_as_it_ends(namespace: Namespace) -> None:
    cluster = namespace.cluster
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace.name}/resourceclaimtemplates"
    cluster.create(
        path, {"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": asking()}}
    ).ok()
    entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
    pod = namespace.pod("p", resourceClaims=[entry], schedulerName="none")
    with cluster.watch(namespace.path("pods"), fieldSelector="metadata.name=p") as events:
        statuses = (event["object"]["status"].get("resourceClaimStatuses") for event in events)
        (named,) = next(one for one in statuses if one)
    assert named["name"] == "gpu"
    made = cluster.get(claims(namespace, named["resourceClaimName"])).ok()
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert made["metadata"]["name"].startswith("p-gpu-")
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
    reserved = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    one = claims(namespace, made["metadata"]["name"])
    cluster.patch(one, {"metadata": {"finalizers": [FINALIZER]}}, STRATEGIC).ok()
    cluster.patch(f"{one}/status", {"status": {"allocation": allocation(), "reservedFor": [reserved]}}, STRATEGIC).ok()
    cluster.patch(namespace.path("pods", "p", "status"), {"status": {"phase": "Succeeded"}}).ok()
    gone(cluster, one)


def test_a_named_claim_is_deallocated_as_its_last_pod_ends(namespace: Namespace, claim: Obj) -> None:
    cluster = namespace.cluster
    uids = {}
    for name in ("p", "q"):
        entry = {"name": "gpu", "resourceClaimName": "c"}
        uids[name] = namespace.pod(name, resourceClaims=[entry], schedulerName="none")["metadata"]["uid"]
    consumers = [{"resource": "pods", "name": name, "uid": uid} for name, uid in uids.items()]
    cluster.patch(claims(namespace, "c"), {"metadata": {"finalizers": [FINALIZER]}}, STRATEGIC).ok()
    status = {"status": {"allocation": allocation(), "reservedFor": consumers}}
    cluster.patch(claims(namespace, "c", "status"), status, STRATEGIC).ok()
    with cluster.watch(claims(namespace), fieldSelector="metadata.name=c") as events:
        seen = (event["object"] for event in events)
        cluster.patch(namespace.path("pods", "p", "status"), {"status": {"phase": "Succeeded"}}).ok()
        left = next(one for one in seen if len(one["status"].get("reservedFor", ())) == 1)
        assert left["status"]["reservedFor"][0]["name"] == "q"
        assert left["status"]["allocation"]
        cluster.patch(namespace.path("pods", "q", "status"), {"status": {"phase": "Failed"}}).ok()
        freed = next(one for one in seen if not one["status"] and not one["metadata"].get("finalizers"))
        assert freed["metadata"]["name"] == "c"


@pytest.mark.parametrize("resource", ["gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "example.com/a b"])
def test_a_class_backs_only_extended_resources(cluster: Cluster, resource: str) -> None:
    body = {"metadata": {"name": unique("class")}, "spec": {"extendedResourceName": resource}}
    status = cluster.create(CLASSES, body).refused(422, "Invalid")
    _is_invalid(status, "spec.extendedResourceName", "must be a valid extended resource name")


def test_the_status_of_a_pod_names_the_claim_for_its_extended_resources(namespace: Namespace) -> None:
    resources = {"limits": {"example.com/gpu": "1"}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    namespace.pod("p", schedulerName="none", containers=[container])
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    named = {"resourceClaimName": "p-extended-resources-x", "requestMappings": [mapping]}
    patch = {"status": {"extendedResourceClaimStatus": named}}
    stored = namespace.cluster.patch(namespace.path("pods", "p", "status"), patch).ok()
    assert stored["status"]["extendedResourceClaimStatus"] == named


def test_admin_access_needs_a_label_of_the_namespace_also_in_templates(namespace: Namespace) -> None:
    path = claims(namespace).removesuffix("s") + "templates"
    body = {"metadata": {"name": "t"}, "spec": {"spec": asking(adminAccess=True)}}
    status = namespace.cluster.create(path, body).refused(422, "Invalid")
    _is_invalid(status, "spec.devices.requests[0].adminAccess", "label on the containing namespace")
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    namespace.cluster.patch(f"/api/v1/namespaces/{namespace.name}", labels).ok()
    namespace.cluster.create(path, body).ok()
    namespace.cluster.create(claims(namespace), {"metadata": {"name": "c"}, "spec": asking(adminAccess=True)}).ok()
