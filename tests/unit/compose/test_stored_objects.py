"""Objects that a cluster stored under Volcano's definitions, with Volcano's field names, are valid under ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.unit.compose.older_definitions import older
from tests.unit.compose.plane import plane
from volcanoio.compose.definitions import compare, crd_manifests
from volcanoio.compose.installation import DEFINITION, InstallOptions, Parts, install
from volcanoio.kube.client import Client
from volcanoio.kube.requests import PatchOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.documents import load_all_yaml
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

WRITTEN = Path(__file__).with_name("volcano_objects.yaml")


def examples() -> Iterator[Manifest]:
    """Yield every example of our kinds, in a namespace that there is."""
    for path in sorted(config_path("examples").rglob("*.yaml")):
        for one in read_manifests(path):
            if ".volcano.sh/" in one["apiVersion"]:
                namespaced = "namespace" in one["metadata"]
                yield {**one, "metadata": {**one["metadata"], **({"namespace": "default"} if namespaced else {})}}


def fields(manifest: Manifest) -> Manifest:
    """Everything that its author wrote or that a definition's defaults added."""
    meta = manifest["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if key in meta}
    return {**manifest, "metadata": kept}


async def store(client: Client, manifest: Manifest) -> Manifest:
    """Create an object with its status, and return it as stored."""
    kind = kinds.named(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    namespace = manifest["metadata"].get("namespace", "default") if kind.namespaced else ""
    stored = await client.create(kind, manifest, namespace=namespace)
    if "status" in manifest and kind.status_subresource:
        patch = {"status": manifest["status"]}
        options = PatchOptions(subresource="status")
        stored = await client.patch(kind, stored["metadata"]["name"], patch, namespace, options)
    return stored


async def test_stored_objects_are_read_and_written_unchanged() -> None:
    ours = crd_manifests()
    async with plane() as client:
        for definition in ours:
            await client.create(DEFINITION, older(definition))
        written = load_all_yaml(WRITTEN.read_text())
        stored = [await store(client, one) for one in (*written, *examples())]
        for before, after in zip(written, stored, strict=False):
            assert after.get("status") == before.get("status")
        said: list[str] = []
        await install(client, InstallOptions(), said.append, Parts(components=False))
        assert all(" replaced" in line for line in said), said
        for before in stored:
            kind = kinds.named(before["apiVersion"], before["kind"])
            assert kind is not None
            name, namespace = before["metadata"]["name"], before["metadata"].get("namespace", "")
            after = await client.get_raw(kind, name, namespace)
            assert fields(after) == fields(before)
            decoded = kind.manifest(kind.decode(msgspec.json.encode(after)))
            assert kind.decode(msgspec.json.encode(decoded)) == kind.decode(msgspec.json.encode(after))
            touched = await client.patch(kind, name, {"metadata": {"labels": {"touched": "yes"}}}, namespace)
            assert all(touched[field] == before[field] for field in ("spec", "action") if field in before)


async def test_an_object_that_newer_rules_refuse_can_still_be_changed_elsewhere() -> None:
    ours = {one["metadata"]["name"]: one for one in crd_manifests()}["queues.scheduling.volcano.sh"]
    async with plane() as client:
        await client.create(DEFINITION, older(ours))
        await client.create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {"weight": 70000}})
        assert compare(await client.get_raw(DEFINITION, ours["metadata"]["name"]), ours).lost == ()
        await client.apply(DEFINITION, ours, manager="test", force=True)
        changed = await client.patch(kinds.QUEUE, "q", {"spec": {"priority": 3}})
        assert changed["spec"]["weight"] == 70000
