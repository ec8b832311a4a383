"""Webhooks behind Services, though there is no cluster network."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.hookserver import allow, hook_server
from tests.localcluster.apiserver.api import CONFIG_MAPS, config_map, running
from volcanoio.localcluster.apiserver.admission.webhooks.client import NoEndpoint, resolve
from volcanoio.localcluster.apiserver.admission.webhooks.configuration import ClientConfig, ServiceReference
from volcanoio.model.base import Manifest

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def service(**metadata: Any) -> Manifest:
    ports = [{"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"}]
    return {"metadata": {"name": "hooks", **metadata}, "spec": {"ports": ports}}


def endpoint_slice(*addresses: str, ready: bool = True) -> Manifest:
    return {
        "metadata": {"name": "hooks-1", "labels": {"kubernetes.io/service-name": "hooks"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": list(addresses), "conditions": {"ready": ready}}],
        "ports": [{"name": "https", "port": 9443}],
    }


async def resolved(*objects: tuple[str, Manifest], port: int = 443) -> str:
    """Where a webhook at the Service's /check is called, with these objects stored."""
    async with running() as api:
        for path, body in objects:
            await api.made(path, body)
        config = ClientConfig(service=ServiceReference("hooks", "default", "/check", port))
        endpoint = resolve(config, api.server.store)
        assert endpoint.shown == f"https://hooks.default.svc:{port}/check"
        assert endpoint.server_name == "hooks.default.svc"
        return endpoint.url


async def test_an_annotation_names_the_address() -> None:
    annotated = service(annotations={"volcanoio.dev/local-endpoint": "127.0.0.1:7443"})
    assert await resolved((SERVICES, annotated)) == "https://127.0.0.1:7443/check"


async def test_an_endpoint_slice_on_loopback() -> None:
    found = await resolved((SERVICES, service()), (SLICES, endpoint_slice("10.1.2.3", "127.0.0.2")))
    assert found == "https://127.0.0.2:9443/check"


async def test_endpoints_on_loopback() -> None:
    subset = {"addresses": [{"ip": "127.0.0.3"}], "ports": [{"name": "https", "port": 9444}]}
    endpoints = {"metadata": {"name": "hooks"}, "subsets": [subset]}
    assert await resolved((SERVICES, service()), (ENDPOINTS, endpoints)) == "https://127.0.0.3:9444/check"


@pytest.mark.parametrize(("objects", "port", "text"), [
    ([], 443, 'service "hooks" not found'),
    ([(SERVICES, service())], 444, 'no service port 444 found for service "hooks"'),
    ([(SERVICES, service())], 443, "there is no cluster network here"),
    ([(SERVICES, service()), (SLICES, endpoint_slice("10.1.2.3"))], 443, "no endpoints available"),
    ([(SERVICES, service()), (SLICES, endpoint_slice("127.0.0.1", ready=False))], 443, "no endpoints available"),
])  # fmt: skip
async def test_unreachable_services_are_reported(objects: list[tuple[str, Manifest]], port: int, text: str) -> None:
    with pytest.raises(NoEndpoint, match=text):
        await resolved(*objects, port=port)


async def test_a_webhook_is_called_by_the_name_of_its_service() -> None:
    """The certificate is checked for the Service, and the request names it, though the address is another."""
    with hook_server() as hooks:
        hooks.reviewers["/check"] = allow
        address = hooks.url.removeprefix("https://")
        async with running() as api:
            await api.made(SERVICES, service(annotations={"volcanoio.dev/local-endpoint": address}))
            reference = {"name": "hooks", "namespace": "default", "path": "/check"}
            rules = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
            hook = {
                "name": "a.example.com",
                "clientConfig": {"service": reference, "caBundle": hooks.ca_bundle},
                "rules": rules,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            await api.made(CONFIGURATIONS, {"metadata": {"name": "c"}, "webhooks": [hook]})
            for name in ("a", "b"):
                await api.made(CONFIG_MAPS, config_map(name))
            other = hook | {"clientConfig": {"service": reference | {"name": "others"}, "caBundle": hooks.ca_bundle}}
            await api("DELETE", f"{CONFIGURATIONS}/c")
            others = service(annotations={"volcanoio.dev/local-endpoint": address}) | {"metadata": {}}
            others["metadata"] = {"name": "others", "annotations": {"volcanoio.dev/local-endpoint": address}}
            await api.made(SERVICES, others)
            await api.made(CONFIGURATIONS, {"metadata": {"name": "d"}, "webhooks": [other]})
            refused = await api("POST", CONFIG_MAPS, config_map("e"))
            assert refused.code == 500
            assert "tls: failed to verify certificate: x509: Hostname mismatch" in refused.message
    assert [request["name"] for _, request in hooks.requests] == ["a", "b"]
