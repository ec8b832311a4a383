"""Finalizers, preconditions, owner references and collections."""

from __future__ import annotations

import pytest

from tests.localcluster.apiserver.api import (
    CONFIG_MAPS,
    MERGE,
    PODS,
    Answer,
    config_map,
    is_deleting,
    owned,
    pod,
    running,
)
from tests.localcluster.apiserver.bindings import binding

SECRETS = "/api/v1/namespaces/default/secrets"


async def test_a_deletion_is_answered_with_the_uid() -> None:
    async with running() as api:
        made = await api.made(CONFIG_MAPS, config_map("a"))
        answer = await api("DELETE", f"{CONFIG_MAPS}/a")
        assert answer.body["status"] == "Success"
        assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


async def test_finalizers_hold_an_object_until_they_are_gone() -> None:
    async with running() as api:
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api.made(CONFIG_MAPS, held)
        async with api.watch(CONFIG_MAPS, resourceVersion=str(api.server.store.revision)) as lines:
            marked = (await api("DELETE", f"{CONFIG_MAPS}/a")).body
            assert marked["metadata"]["deletionTimestamp"]
            added = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
            refused = await api("PATCH", f"{CONFIG_MAPS}/a", added, kind=MERGE)
            assert refused.code == 422
            assert "no new finalizers can be added" in refused.message
            await api("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, kind=MERGE)
            assert await lines.types_and_names(2) == [("MODIFIED", "a"), ("DELETED", "a")]
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 404


@pytest.mark.parametrize("key", ["uid", "resourceVersion"])
async def test_preconditions(key: str) -> None:
    async with running() as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        refused = await api("DELETE", f"{CONFIG_MAPS}/a", {"preconditions": {key: "other"}})
        assert (refused.code, refused.reason) == (409, "Conflict")
        assert "does not match" in refused.message


async def test_dependents_follow_their_owner() -> None:
    async with running() as api:
        owner = await api.made(CONFIG_MAPS, config_map("owner"))
        child = await api.made(SECRETS, owned({"metadata": {"name": "child"}}, owner))
        await api.made(PODS, owned(pod("grandchild"), child))
        await api("DELETE", f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Background"})
        await api.gone(f"{SECRETS}/child")
        await api.gone(f"{PODS}/grandchild")


async def test_one_of_two_owners_is_enough() -> None:
    async with running() as api:
        first = await api.made(CONFIG_MAPS, config_map("first"))
        second = await api.made(CONFIG_MAPS, config_map("second"))
        await api.made(SECRETS, owned(owned({"metadata": {"name": "child"}}, first), second))
        await api("DELETE", f"{CONFIG_MAPS}/first")

        def owners(answer: Answer) -> list[str]:
            return [one["name"] for one in answer.body["metadata"]["ownerReferences"]]

        await api.until(f"{SECRETS}/child", lambda answer: owners(answer) == ["second"])


async def test_children_without_an_owner_are_collected() -> None:
    async with running() as api:
        ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "no-such-uid"}}
        await api.made(SECRETS, owned({"metadata": {"name": "child"}}, ghost))
        await api.gone(f"{SECRETS}/child")


async def test_orphans_stay() -> None:
    async with running() as api:
        owner = await api.made(CONFIG_MAPS, config_map("owner"))
        await api.made(SECRETS, owned({"metadata": {"name": "child"}}, owner))
        await api("DELETE", f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Orphan"})
        await api.gone(f"{CONFIG_MAPS}/owner")
        assert "ownerReferences" not in (await api.got(f"{SECRETS}/child"))["metadata"]


async def test_foreground_waits_for_blocking_dependents() -> None:
    async with running() as api:
        owner = await api.made(CONFIG_MAPS, config_map("owner"))
        await api.made(PODS, owned(pod(), owner, block=True))
        await api("POST", f"{PODS}/p/binding", binding())
        marked = await api("DELETE", f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
        assert marked.body["metadata"]["finalizers"] == ["foregroundDeletion"]
        await api.until(f"{PODS}/p", is_deleting)
        assert (await api("GET", f"{CONFIG_MAPS}/owner")).code == 200
        await api("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await api.gone(f"{CONFIG_MAPS}/owner")


async def test_deletecollection_deletes_selected_objects() -> None:
    async with running() as api:
        for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {})):
            await api.made(CONFIG_MAPS, config_map(name, labels))
        assert (await api("DELETE", CONFIG_MAPS, labelSelector="x=1")).code == 200
        assert await api.names(CONFIG_MAPS) == ["c"]


async def test_bad_options_are_named() -> None:
    async with running() as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        wrong = await api("DELETE", f"{CONFIG_MAPS}/a", {"propagationPolicy": "Sideways"})
        assert wrong.code == 422
        assert '"Foreground", "Background", "Orphan"' in wrong.message
        assert (await api("DELETE", f"{CONFIG_MAPS}/a", gracePeriodSeconds="x")).code == 400
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 200
