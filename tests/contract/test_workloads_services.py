"""Services: what they are given, and the endpoints of their pods."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from tests.contract.kubelet import now, until
from tests.contract.support import Namespace, Obj, unique

SLICES = "endpointslices.v1.discovery.k8s.io"
NETWORK = ipaddress.IPv4Network("10.96.0.0/12")


def service(namespace: Namespace, name: str = "svc", **spec: Any) -> Obj:
    """A Service of pods labelled app=web."""
    base = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    return namespace.cluster.create(namespace.path("services"), {"metadata": {"name": name}, "spec": base | spec}).ok()


def refused(namespace: Namespace, **spec: Any) -> list[tuple[str, str]]:
    """What is wrong with a Service."""
    body = {"metadata": {"name": "bad"}, "spec": {"ports": [{"port": 80}], **spec}}
    status = namespace.cluster.create(namespace.path("services"), body).refused(422, "Invalid")
    return [(cause["field"], cause["message"]) for cause in status["details"]["causes"]]


def test_a_service_is_given_an_address(namespace: Namespace) -> None:
    made = service(namespace)
    spec = made["spec"]
    assert ipaddress.IPv4Address(spec["clusterIP"]) in NETWORK
    assert spec == {
        "clusterIP": spec["clusterIP"], "clusterIPs": [spec["clusterIP"]], "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "selector": {"app": "web"}, "sessionAffinity": "None",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "type": "ClusterIP",
    }  # fmt: skip
    assert made["status"] == {"loadBalancer": {}}
    taken = spec["clusterIP"]
    assert refused(namespace, clusterIP=taken) == [
        (
            "spec.clusterIPs",
            f'Invalid value: ["{taken}"]: failed to allocate IP {taken}: provided IP is already allocated',
        )
    ]
    replaced = {**made, "spec": {"ports": [{"port": 81}]}}
    again = namespace.cluster.replace(namespace.path("services", "svc"), replaced).ok()
    assert again["spec"]["clusterIP"] == taken
    other = {"spec": {"clusterIP": "10.96.77.7", "clusterIPs": ["10.96.77.7"]}}
    answer = namespace.cluster.patch(namespace.path("services", "svc"), other).refused(422, "Invalid")
    assert "may not change once set" in answer["message"]
    namespace.cluster.delete(namespace.path("services", "svc")).ok()
    assert service(namespace, clusterIP=taken)["spec"]["clusterIP"] == taken


def test_headless_and_external_services_are_given_none(namespace: Namespace) -> None:
    headless = service(namespace, clusterIP="None")["spec"]
    assert (headless["clusterIP"], headless["clusterIPs"]) == ("None", ["None"])
    external = {"type": "ExternalName", "externalName": "example.org"}
    body = {"metadata": {"name": "external"}, "spec": external}
    made = namespace.cluster.create(namespace.path("services"), body).ok()
    assert made["spec"] == {**external, "sessionAffinity": "None"}


TCP, UDP = {"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"}


@pytest.mark.parametrize("asked", [{}, {"nodePort": 30053}])
def test_ports_of_one_number_share_a_node_port(namespace: Namespace, asked: dict[str, int]) -> None:
    first, second = service(namespace, type="NodePort", ports=[TCP, UDP | asked])["spec"]["ports"]
    assert first["nodePort"] == second["nodePort"]
    assert first["nodePort"] == asked.get("nodePort", first["nodePort"])


def test_ports_of_other_numbers_share_none(namespace: Namespace) -> None:
    ports = [TCP | {"nodePort": 30054}, UDP | {"port": 54, "nodePort": 30054}]
    assert refused(namespace, type="NodePort", ports=ports) == [
        ("spec.ports[1].nodePort", "Invalid value: 30054: provided port is already allocated")
    ]


def test_an_update_gives_every_port_its_own(namespace: Namespace) -> None:
    service(namespace, type="NodePort", ports=[TCP])
    path = namespace.path("services", "svc")
    ports = namespace.cluster.patch(path, {"spec": {"ports": [TCP, UDP]}}).ok()["spec"]["ports"]
    assert ports[0]["nodePort"] != ports[1]["nodePort"]
    same = [{**port, "protocol": "TCP", "port": at + 1, "nodePort": 30055} for at, port in enumerate(ports)]
    answer = namespace.cluster.patch(path, {"spec": {"ports": same}})
    assert (answer.code, answer.body["message"]) == (500, "duplicate nodePort: {TCP 30055}")


def test_node_ports_are_given_kept_and_returned(namespace: Namespace) -> None:
    spec = service(namespace, type="NodePort")["spec"]
    number = spec["ports"][0]["nodePort"]
    assert 30000 <= number < 32768
    assert spec["externalTrafficPolicy"] == "Cluster"
    assert refused(namespace, type="NodePort", ports=[{"port": 1, "nodePort": number}]) == [
        ("spec.ports[0].nodePort", f"Invalid value: {number}: provided port is already allocated")
    ]
    assert refused(namespace, type="NodePort", ports=[{"port": 1, "nodePort": 80}])[0][1].endswith(
        "The range of valid ports is 30000-32767"
    )
    path = namespace.path("services", "svc")
    plain = namespace.cluster.patch(path, {"spec": {"type": "ClusterIP"}}).ok()["spec"]
    assert "nodePort" not in plain["ports"][0]
    assert "externalTrafficPolicy" not in plain


def test_errors_contain_the_field(namespace: Namespace) -> None:
    assert refused(namespace, ports=[]) == [("spec.ports", "Required value")]
    assert refused(namespace, ports=[{"port": 1}, {"port": 2}]) == [
        ("spec.ports[0].name", "Required value"), ("spec.ports[1].name", "Required value"),
    ]  # fmt: skip
    assert refused(namespace, clusterIP="1.2.3.4")[0][1].endswith("does not match the current range")
    assert refused(namespace, type="Nonsense") == [
        (
            "spec.type",
            'Unsupported value: "Nonsense": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
        )
    ]


def pod(namespace: Namespace, name: str, node: str, address: str, *, ready: bool = True, **spec: Any) -> Obj:
    """A pod labelled app=web that runs on the node."""
    ports = [{"name": "web", "containerPort": 8080}]
    containers = [{"name": "main", "image": "one", "ports": ports}]
    body = {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": containers, "nodeName": node, **spec},
    }
    namespace.cluster.create(namespace.path("pods"), body).ok()
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": now()}]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
    return namespace.cluster.patch(namespace.path("pods", name, "status"), {"status": status}).ok()


def test_endpoints_follow_the_pods(namespace: Namespace) -> None:
    namespace.pod("absent")  # waits for the service account
    node = unique("wl-node")
    namespace.cluster.create("/api/v1/nodes", {"metadata": {"name": node}}).ok()
    try:
        _endpoints(namespace, node)
    finally:
        for one in namespace.cluster.get(namespace.path("pods")).ok()["items"]:
            name = one["metadata"]["name"]
            namespace.cluster.delete(namespace.path("pods", name), {"gracePeriodSeconds": 0})
        namespace.cluster.delete(f"/api/v1/nodes/{node}").ok()


def _endpoints(namespace: Namespace, node: str) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "plain", "port": 81}]
    made = service(namespace, clusterIP="None", ports=ports)
    first = pod(namespace, "a", node, "10.9.0.1", hostname="host-a", subdomain="svc")
    pod(namespace, "b", node, "10.9.0.2", ready=False)
    pod(namespace, "c", node, "10.9.0.3")
    done = until(namespace, "endpoints", "svc", lambda one: len(addresses(one, "addresses")) == 2)
    assert done["metadata"]["labels"] == {
        "endpoints.kubernetes.io/managed-by": "endpoint-controller", "service.kubernetes.io/headless": "",
    }  # fmt: skip
    (subset,) = done["subsets"]
    target = {"kind": "Pod", "name": "a", "namespace": namespace.name, "uid": first["metadata"]["uid"]}
    assert subset["addresses"][0] == {"ip": "10.9.0.1", "nodeName": node, "hostname": "host-a", "targetRef": target}
    assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.9.0.2"]
    assert sorted(subset["ports"], key=lambda one: str(one["name"])) == [
        {"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "plain", "port": 81, "protocol": "TCP"},
    ]  # fmt: skip
    one = the_slice(namespace, 3)
    assert one["metadata"]["labels"] == {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": "svc", "service.kubernetes.io/headless": "",
    }  # fmt: skip
    assert one["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert one["addressType"] == "IPv4"
    endpoints = sorted(one["endpoints"], key=lambda entry: str(entry["addresses"]))
    assert endpoints[0] == {
        "addresses": ["10.9.0.1"], "conditions": {"ready": True, "serving": True, "terminating": False},
        "hostname": "host-a", "nodeName": node, "targetRef": target,
    }  # fmt: skip
    assert endpoints[1]["conditions"] == {"ready": False, "serving": False, "terminating": False}
    namespace.cluster.delete(namespace.path("pods", "c"), {"gracePeriodSeconds": 0}).ok()
    the_slice(namespace, 2)
    namespace.cluster.delete(namespace.path("services", "svc")).ok()
    for kind in ("endpoints", SLICES):
        query = {"timeoutSeconds": 20}
        listed = namespace.cluster.get(namespace.path(kind)).ok()
        version = listed["metadata"]["resourceVersion"]
        if listed["items"]:
            with namespace.cluster.watch(namespace.path(kind), resourceVersion=version, **query) as events:  # type: ignore[arg-type]  # a number
                assert any(event["type"] == "DELETED" for event in events)


def addresses(one: Obj, field: str) -> list[Obj]:
    """All addresses of an Endpoints object."""
    return [address for subset in one.get("subsets") or () for address in subset.get(field) or ()]


def the_slice(namespace: Namespace, number: int) -> Obj:
    """The only slice, once it has so many endpoints."""
    with namespace.cluster.watch(namespace.path(SLICES), timeoutSeconds=20) as events:
        for event in events:
            one: Obj = event["object"]
            if len(one.get("endpoints") or ()) == number:
                return one
    raise AssertionError(number)


def test_a_trial_of_a_service_without_a_name(namespace: Namespace) -> None:
    refused = namespace.cluster.create(namespace.path("services"), {}, dryRun="All").refused(422, "Invalid")
    assert {cause["field"] for cause in refused["details"]["causes"]} == {"metadata.name", "spec.ports"}
