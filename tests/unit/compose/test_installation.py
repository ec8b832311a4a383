"""`volcanoio install` and `uninstall` on an embedded cluster; the real control plane has the same in realcluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.compose.plane import plane
from volcanoio.compose.installation import (
    DEPLOYMENT,
    KINDS,
    InstallationError,
    InstallOptions,
    Parts,
    install,
    manifests,
    purge,
    render,
    stored_objects,
    uninstall,
)
from volcanoio.kube.client import Client
from volcanoio.kube.errors import NotFound
from volcanoio.kube.requests import DELETE, DeleteOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.documents import load_all_yaml
from volcanoio.model.kinds import Kind

OPTIONS = InstallOptions()
SYSTEM = "volcano-system"
MADE = manifests(OPTIONS)
POD = {"containers": [{"name": "c", "image": "none"}]}


def test_every_object_is_in_the_namespace_that_is_asked_for() -> None:
    text = render(InstallOptions(namespace="batch"), Parts(definitions=False))
    assert SYSTEM not in text
    found = load_all_yaml(text)
    assert {one["metadata"]["namespace"] for one in found if "namespace" in one["metadata"]} == {"batch"}
    assert [one["metadata"]["name"] for one in found if one["kind"] == "Namespace"] == ["batch"]
    assert {one["subjects"][0]["namespace"] for one in found if "subjects" in one} == {"batch"}


def test_image_and_replicas_are_set_everywhere() -> None:
    made = manifests(InstallOptions(image="registry.example:5000/v:1", replicas=3))
    deployments = [one["spec"] for one in made if one["kind"] == "Deployment"]
    assert [spec["replicas"] for spec in deployments] == [3, 3, 3]
    containers = [container for spec in deployments for container in spec["template"]["spec"]["containers"]]
    assert {container["image"] for container in containers} == {"registry.example:5000/v:1"}


def test_the_definitions_come_first() -> None:
    listed = re.findall(r"^kind: (\w+)$", render(OPTIONS), re.MULTILINE)
    assert listed[:12] == [*["CustomResourceDefinition"] * 11, "Namespace"]


@pytest.mark.parametrize(("option", "value"), [("namespace", "Batch_"), ("image", "a b"), ("image", "")])
def test_an_option_that_cannot_be_used_is_refused(option: str, value: str) -> None:
    with pytest.raises(InstallationError, match=f"--{option}: "):
        InstallOptions(**{option: value})  # type: ignore[arg-type]


async def read(client: Client, one: Manifest) -> Manifest | None:
    meta = one["metadata"]
    try:
        return await client.get_raw(KINDS[one["apiVersion"], one["kind"]], meta["name"], meta.get("namespace", ""))
    except NotFound:
        return None


async def present(client: Client) -> set[str]:
    return {f"{one['kind']} {one['metadata']['name']}" for one in MADE if await read(client, one) is not None}


async def test_an_installation_can_be_repeated_and_leaves_only_the_namespace() -> None:
    said: list[str] = []
    async with plane() as client:
        await install(client, OPTIONS, said.append)
        await client.create(kinds.QUEUE, {"metadata": {"name": "mine"}, "spec": {"weight": 3}})
        assert len(await present(client)) == len(MADE)
        configuration = next(one for one in MADE if one["metadata"]["name"] == "volcano-scheduler-configmap")
        tuned = {**configuration, "data": {"volcano-scheduler.conf": "actions: allocate\n"}}
        await client.apply(kinds.CONFIG_MAP, tuned, manager="somebody", force=True)
        said.clear()
        await install(client, OPTIONS, said.append)
        (changed,) = (line for line in said if not line.endswith(" unchanged"))
        assert changed.startswith(f"configmap {SYSTEM}/volcano-scheduler-configmap kept as it is: ")
        assert "somebody" in changed
        await uninstall(client, OPTIONS, said.append)
        assert await present(client) == {f"Namespace {SYSTEM}"}
        assert (await client.get_raw(kinds.QUEUE, "mine"))["spec"]["weight"] == 3


async def test_objects_of_others_are_neither_written_over_nor_removed() -> None:
    said: list[str] = []
    deployment = next(one for one in MADE if one["kind"] == "Deployment")
    service = next(one for one in MADE if one["kind"] == "Service")
    volcanos = {**deployment, "metadata": {"name": deployment["metadata"]["name"], "namespace": SYSTEM}}
    async with plane() as client:
        await client.create(DEPLOYMENT, volcanos)
        with pytest.raises(InstallationError, match="is not volcanoio's"):
            await install(client, OPTIONS, said.append)
        assert said == []
        await uninstall(client, OPTIONS, said.append)
        assert said == [f"deployment {SYSTEM}/volcano-scheduler kept: it is not volcanoio's"]
        helms = {
            **service["metadata"],
            "labels": {**service["metadata"]["labels"], "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "batch"},
        }
        await client.create(kinds.SERVICE, {**service, "metadata": helms})
        with pytest.raises(InstallationError, match=f"`helm uninstall batch --namespace {SYSTEM}`"):
            await uninstall(client, OPTIONS, said.append)


async def test_a_purge_removes_the_kinds_and_leaves_running_pods() -> None:
    said: list[str] = []
    async with plane() as client:
        await install(client, OPTIONS, said.append)
        task = {"replicas": 1, "name": "t", "template": {"spec": POD}}
        job = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"minAvailable": 1, "tasks": [task]}}
        await client.create(kinds.JOB, job)
        owner = kinds.owner_reference(kinds.JOB, await client.get(kinds.JOB, "j", "default"))
        pod = {"metadata": {"name": "p", "namespace": "default", "ownerReferences": [owner]}, "spec": POD}
        await client.create(kinds.POD, pod)
        assert (await stored_objects(client))["jobs.batch.volcano.sh"] == 1
        await uninstall(client, OPTIONS, said.append)
        await purge(client, said.append)
        assert await stored_objects(client) == {}
        left = (await client.get_raw(kinds.POD, "p", "default"))["metadata"]
        assert "deletionTimestamp" not in left
        assert not left.get("ownerReferences")


class WithoutNamespace(Client):
    """A client of a cluster that has lost a namespace but not the objects in it; it records propagation policies."""

    def __init__(self, client: Client, lost: str) -> None:
        super().__init__(client.transport)
        self._lost = lost
        self.propagation: dict[str, str] = {}

    async def list_raw(self, kind: Kind, namespace: str = "", **options: Any) -> tuple[Manifest, ...]:
        found = await super().list_raw(kind, namespace, **options)
        return tuple(one for one in found if kind != kinds.NAMESPACE or one["metadata"]["name"] != self._lost)

    async def delete(self, kind: Kind, name: str, namespace: str = "", options: DeleteOptions = DELETE) -> Manifest:
        self.propagation[f"{namespace}/{name}"] = options.propagation
        return await super().delete(kind, name, namespace, options)


async def test_a_purge_orphans_nothing_in_a_namespace_that_is_gone() -> None:
    """Kubernetes refuses every update there, also that which would remove the finalizer of orphaning."""
    said: list[str] = []
    async with plane() as client:
        await install(client, OPTIONS, said.append)
        await client.create(kinds.NAMESPACE, {"metadata": {"name": "lost"}})
        for namespace in ("default", "lost"):
            group = {"metadata": {"name": "g", "namespace": namespace}, "spec": {"minMember": 1}}
            await client.create(kinds.POD_GROUP, group)
        blind = WithoutNamespace(client, "lost")
        await purge(blind, said.append)
        assert (blind.propagation["default/g"], blind.propagation["lost/g"]) == ("Orphan", "Background")
