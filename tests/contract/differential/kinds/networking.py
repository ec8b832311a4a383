"""Services and what lies around them."""

from __future__ import annotations

import random
from typing import Any

from tests.contract.differential.kind import SELECTORS, Kind, Obj, chosen, obj, some

_PEERS: tuple[Obj, ...] = (
    {"podSelector": {"matchLabels": {"app": "b"}}},
    {"namespaceSelector": {}},
    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/8"]}},
    {"ipBlock": {"cidr": "nowhere"}},
    {"ipBlock": {"cidr": ""}},
    {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
    {"podSelector": SELECTORS[3]},
    {},
)
_POLICY_PORTS: tuple[Obj, ...] = (
    *({"port": 80}, {"port": "web", "protocol": "UDP"}, {"port": 0}, {"port": "Bad_Name"}, {}),
    {"protocol": "Odd", "port": 1},
    {"port": 80, "endPort": 90},
    {"port": 80, "endPort": 70},
    {"endPort": 70},
    {"port": "web", "endPort": 70},
)


def _service(name: str, rng: random.Random) -> Obj:
    spec: Obj = {"ports": [{"port": 80}], "selector": {"app": "a"}}
    spec |= rng.choice(
        (
            {},
            {"clusterIP": "None"},
            {"type": "NodePort"},
            {"type": "LoadBalancer"},
            {"type": "Odd"},
            {"sessionAffinity": "ClientIP"},
            {"type": "ExternalName", "externalName": rng.choice(("example.com", "", "Not_A_Name"))},
            {"externalIPs": [rng.choice(("1.2.3.4", "rubbish", "127.0.0.1"))]},
            {"internalTrafficPolicy": rng.choice(("Local", "Odd"))},
            {"externalTrafficPolicy": "Local"},
            {"ipFamilyPolicy": rng.choice(("SingleStack", "Odd", "PreferDualStack"))},
            {"publishNotReadyAddresses": True},
        )
    )
    if rng.random() < 0.3:
        spec["ports"] = rng.choice(
            (
                [],
                [{"port": 0}],
                [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}],
                [{"port": 80}, {"port": 81}],
                [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}],
                [{"port": 80, "protocol": "Odd"}],
                [{"port": 80, "name": "Bad_Name", "targetPort": "Bad_Name"}],
            )
        )
    return obj("v1", "Service", name, spec=spec)


def _service_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"selector": {"app": rng.choice(("a", "b", "bad value!"))}}},
            {"spec": {"ports": [{"port": rng.choice((80, 81)), "targetPort": rng.choice(("web", 8080))}]}},
            {"spec": {"sessionAffinity": rng.choice(("None", "ClientIP", "Sometimes"))}},
            {"spec": {"clusterIP": "10.0.0.1"}},
        )
    )


def _subset(rng: random.Random) -> Obj:
    address = rng.choice(({"ip": "10.1.2.3"}, {"ip": "10.1.2.3", "hostname": "a"}, {"ip": "rubbish"}, {"ip": ""}))
    port = rng.choice(({"port": 80}, {"port": 80, "name": "web"}, {"port": 0}, {"port": 80, "protocol": "Odd"}))
    return some(rng, 0.8, addresses=[address], ports=[port])


def _endpoints(name: str, rng: random.Random) -> Obj:
    return obj("v1", "Endpoints", name, subsets=rng.choice(([], [_subset(rng)])))


def _slice(name: str, rng: random.Random) -> Obj:
    return obj(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        name,
        addressType=rng.choice(("IPv4", "IPv4", "FQDN", "IPv6", "Odd")),
        **_slice_change(rng),
    )


def _slice_change(rng: random.Random) -> Obj:
    endpoint: Obj = {"addresses": rng.choice((["10.1.2.3"], ["10.1.2.4", "10.1.2.5"], ["rubbish"], []))}
    endpoint |= some(rng, 0.2, conditions={"ready": True}, hostname=chosen("a", "Bad_Name"), nodeName="n1")
    port = rng.choice(({"port": 80}, {"name": "", "port": 0}, {"name": "Bad_Name"}, {"name": "web", "protocol": "UDP"}))
    return {"endpoints": rng.choice(([endpoint], [])), "ports": rng.choice(([port], [], [port, port]))}


def _policy(name: str, rng: random.Random) -> Obj:
    spec: Obj = {"podSelector": rng.choice(({}, *SELECTORS))}
    spec |= some(rng, 0.4, ingress=[_policy_rule("from", rng)], egress=[_policy_rule("to", rng)])
    spec |= some(rng, 0.3, policyTypes=chosen(["Ingress"], ["Egress"], ["Ingress", "Egress"], ["Odd"], []))
    return obj("networking.k8s.io/v1", "NetworkPolicy", name, spec=spec)


def _policy_rule(whom: str, rng: random.Random) -> Obj:
    parts = {whom: [rng.choice(_PEERS)], "ports": [rng.choice(_POLICY_PORTS)]}
    return some(rng, 0.6, **parts)


def _policy_change(rng: random.Random) -> Obj:
    return {"spec": rng.choice(({"egress": [_policy_rule("to", rng)]}, {"podSelector": {"matchLabels": {"a": "b"}}}))}


def _backend(rng: random.Random) -> Obj:
    services: tuple[Any, ...] = (
        {"service": {"name": "web", "port": {"number": 80}}},
        {"service": {"name": "web", "port": {"name": "http"}}},
        {"service": {"name": "web", "port": {"name": "http", "number": 80}}},
        {"service": {"name": "web"}},
        {"service": {"name": "", "port": {"number": 80}}},
        {"service": {"name": "Not_A_Name", "port": {"name": "Bad_Name"}}},
        {"resource": {"kind": "Bucket", "name": "b", "apiGroup": "example.com"}},
        {},
    )
    return dict(rng.choice((services[0], services[1], *services)))


def _ingress_spec(rng: random.Random) -> Obj:
    path = {"path": rng.choice(("/", "/a", "a", "/a//b", "")), "backend": _backend(rng)}
    path |= some(rng, 0.8, pathType=chosen("Prefix", "Exact", "ImplementationSpecific", "Odd"))
    rule: Obj = some(rng, 0.6, host=chosen("a.example.com", "*.example.com", "Not_A_Name", "10.0.0.1", "a.*.com"))
    rule |= some(rng, 0.8, http={"paths": rng.choice(([path], [path], []))})
    tls = {"hosts": [rng.choice(("a.example.com", "Not_A_Name"))], "secretName": rng.choice(("s", "Not_A_Name"))}
    spec = some(rng, 0.6, defaultBackend=_backend(rng), rules=[rule])
    return spec | some(rng, 0.2, tls=[tls], ingressClassName=chosen("absent", "Not_A_Name"))


def _ingress(name: str, rng: random.Random) -> Obj:
    return obj("networking.k8s.io/v1", "Ingress", name, spec=_ingress_spec(rng))


def _ingress_class(name: str, rng: random.Random) -> Obj:
    spec: Obj = {"controller": rng.choice(("example.com/c", "example.com/c", "no domain", ""))}
    reference = {"kind": "Thing", "name": "t", **some(rng, 0.5, apiGroup="example.com", scope=chosen("Cluster", "Odd"))}
    return obj("networking.k8s.io/v1", "IngressClass", name, spec=spec | some(rng, 0.3, parameters=reference))


NETWORKING = (
    Kind("services", _service, _service_change),
    Kind("endpoints", _endpoints, lambda rng: {"subsets": [_subset(rng)]}, called="ends-{}", shared=True),
    Kind("endpointslices.v1.discovery.k8s.io", _slice, _slice_change),
    Kind("networkpolicies.v1.networking.k8s.io", _policy, _policy_change),
    Kind("ingresses.v1.networking.k8s.io", _ingress, lambda rng: {"spec": _ingress_spec(rng)}),
    Kind(
        "ingressclasses.v1.networking.k8s.io",
        _ingress_class,
        lambda rng: {"spec": {"controller": rng.choice(("example.com/c", "example.com/d"))}},
        cluster=True,
    ),
)
