"""The Python client of Kubernetes, as its users use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kubernetes_asyncio import client, config, watch

from tests.contract.support import Cluster, Namespace, connections_closed


@asynccontextmanager
async def core(cluster: Cluster) -> AsyncIterator[client.CoreV1Api]:
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        yield client.CoreV1Api(api)
    await connections_closed()


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


async def test_an_object_from_its_creation_to_its_end(namespace: Namespace) -> None:
    async with core(namespace.cluster) as api:
        created = await api.create_namespaced_config_map(namespace.name, config_map("a", key="1"))
        patched = await api.patch_namespaced_config_map("a", namespace.name, {"data": {"key": "2"}})
        assert patched.data == {"key": "2"}
        with pytest.raises(client.ApiException) as refused:
            await api.replace_namespaced_config_map("a", namespace.name, created)
        assert refused.value.status == 409
        listed = await api.list_namespaced_config_map(namespace.name, field_selector="metadata.name=a")
        assert [one.data for one in listed.items] == [{"key": "2"}]
        options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=created.metadata.uid))
        status = await api.delete_namespaced_config_map("a", namespace.name, body=options)
        assert status.status == "Success"
        with pytest.raises(client.ApiException) as refused:
            await api.read_namespaced_config_map("a", namespace.name)
        assert refused.value.status == 404


async def test_a_watch(namespace: Namespace) -> None:
    async with core(namespace.cluster) as api:
        listed = await api.list_namespaced_config_map(namespace.name)
        namespace.config_map("a")
        namespace.config_map("b")
        seen = []
        async with watch.Watch() as watching:
            version = listed.metadata.resource_version
            async for event in watching.stream(
                api.list_namespaced_config_map, namespace.name, resource_version=version
            ):
                seen.append((event["type"], event["object"].metadata.name))
                if len(seen) == 2:
                    break
        assert seen == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_binding(namespace: Namespace) -> None:
    namespace.pod("p")
    async with core(namespace.cluster) as api:
        target = client.V1ObjectReference(kind="Node", api_version="v1", name="node-1")
        binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p"), target=target)
        # Its model of the answer is a Binding, the answer a Status: it must be told not to read it.
        await api.create_namespaced_pod_binding("p", namespace.name, binding, _preload_content=False)
        bound = await api.read_namespaced_pod("p", namespace.name)
        assert bound.spec.node_name == "node-1"
