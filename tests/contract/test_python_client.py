"""The Python client of Kubernetes, as its users use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.dynamic import DynamicClient

from tests.contract.support import Cluster, Namespace, connections_closed
from tests.contract.widgets import GROUP, widget


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[client.ApiClient]:
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        yield api
    await connections_closed()


@asynccontextmanager
async def core(cluster: Cluster) -> AsyncIterator[client.CoreV1Api]:
    async with connected(cluster) as api:
        yield client.CoreV1Api(api)


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
        # Its model of the answer is a Binding, the response a Status: decoding is disabled.
        await api.create_namespaced_pod_binding("p", namespace.name, binding, _preload_content=False)
        bound = await api.read_namespaced_pod("p", namespace.name)
        assert bound.spec.node_name == "node-1"


async def test_patches_of_each_kind(namespace: Namespace) -> None:
    namespace.pod("p")
    async with core(namespace.cluster) as api:
        image = {"spec": {"containers": [{"name": "main", "image": "alpine"}]}}
        strategic = await api.patch_namespaced_pod("p", namespace.name, image)
        assert [(one.name, one.image) for one in strategic.spec.containers] == [("main", "alpine")]
        operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}]
        assert (await api.patch_namespaced_pod("p", namespace.name, operations)).metadata.labels == {"a": "1"}
        status = {"status": {"phase": "Running"}}
        assert (await api.patch_namespaced_pod_status("p", namespace.name, status)).status.phase == "Running"


async def test_an_eviction(namespace: Namespace) -> None:
    namespace.pod("p")
    async with core(namespace.cluster) as api:
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace=namespace.name))
        await api.create_namespaced_pod_eviction("p", namespace.name, eviction, _preload_content=False)
        with pytest.raises(client.ApiException) as refused:
            await api.read_namespaced_pod("p", namespace.name)
        assert refused.value.status == 404


async def test_pages_and_the_deletion_of_many(namespace: Namespace) -> None:
    for number in range(5):
        namespace.config_map(f"a{number}", {"mine": "yes"})
    async with core(namespace.cluster) as api:
        page = await api.list_namespaced_config_map(namespace.name, label_selector="mine", limit=2)
        names = [one.metadata.name for one in page.items]
        while page.metadata._continue:
            page = await api.list_namespaced_config_map(
                namespace.name, label_selector="mine", limit=2, _continue=page.metadata._continue
            )
            names += [one.metadata.name for one in page.items]
        assert names == [f"a{number}" for number in range(5)]
        await api.delete_collection_namespaced_config_map(namespace.name, label_selector="mine")
        assert (await api.list_namespaced_config_map(namespace.name, label_selector="mine")).items == []


async def test_a_watch_that_ends_in_time(namespace: Namespace) -> None:
    namespace.config_map("a")
    async with core(namespace.cluster) as api, watch.Watch() as watching:
        stream = watching.stream(
            api.list_namespaced_config_map, namespace.name, timeout_seconds=1, allow_watch_bookmarks=True
        )
        seen = {event["type"] async for event in stream}
    assert "ADDED" in seen
    assert seen <= {"ADDED", "BOOKMARK"}


async def test_a_watch_from_an_expired_version(namespace: Namespace) -> None:
    namespace.config_map("a")
    for number in range(600):  # more than a server of the tests remembers
        namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"n": str(number)}}).ok()
    async with core(namespace.cluster) as api, watch.Watch() as watching:
        with pytest.raises(client.ApiException) as refused:
            async for _ in watching.stream(api.list_namespaced_config_map, namespace.name, resource_version="1"):
                pass
    assert refused.value.status == 410


async def test_custom_objects(namespace: Namespace) -> None:
    async with connected(namespace.cluster) as api:
        objects: Any = client.CustomObjectsApi(api)  # its annotations leave out what its generator accepts
        place = {"group": GROUP, "version": "v1", "namespace": namespace.name, "plural": "widgets"}
        created = await objects.create_namespaced_custom_object(body=widget("gear", size=2), **place)
        assert created["spec"]["size"] == 2
        status = {"status": {"phase": "Ready"}}
        patched = await objects.patch_namespaced_custom_object_status(
            name="gear", body=status, _content_type="application/merge-patch+json", **place
        )
        assert patched["status"] == status["status"]
        scale = await objects.get_namespaced_custom_object_scale(name="gear", **place)
        assert scale["spec"]["replicas"] == 2
        await objects.delete_namespaced_custom_object(name="gear", **place)


async def test_a_job_and_a_lease(namespace: Namespace) -> None:
    async with connected(namespace.cluster) as api:
        pod = client.V1PodSpec(restart_policy="Never", containers=[client.V1Container(name="main", image="busybox")])
        spec = client.V1JobSpec(suspend=True, template=client.V1PodTemplateSpec(spec=pod))
        job = client.V1Job(metadata=client.V1ObjectMeta(name="a"), spec=spec)
        created = await client.BatchV1Api(api).create_namespaced_job(namespace.name, job)
        assert created.spec.template.spec.restart_policy == "Never"
        leases = client.CoordinationV1Api(api)
        held = client.V1LeaseSpec(holder_identity="me", renew_time=datetime.now(UTC), lease_duration_seconds=15)
        lease = client.V1Lease(metadata=client.V1ObjectMeta(name="a"), spec=held)
        taken = await leases.create_namespaced_lease(namespace.name, lease)
        taken.spec.holder_identity = "you"
        await leases.replace_namespaced_lease("a", namespace.name, taken)
        with pytest.raises(client.ApiException) as refused:
            await leases.replace_namespaced_lease("a", namespace.name, taken)
        assert refused.value.status == 409


async def test_by_the_dynamic_client(namespace: Namespace) -> None:
    async with connected(namespace.cluster) as api:
        dynamic = await DynamicClient(api)
        maps = await dynamic.resources.get(api_version="v1", kind="ConfigMap")
        await maps.create(namespace=namespace.name, body={"kind": "ConfigMap", "metadata": {"name": "a"}})
        assert (await maps.get(namespace=namespace.name, name="a")).metadata.name == "a"
        widgets = await dynamic.resources.get(api_version=f"{GROUP}/v1", kind="Widget")
        made = await widgets.create(namespace=namespace.name, body=widget("gear"))
        assert made.spec.size == 1
