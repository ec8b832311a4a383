"""Which writes are tracked: what our own components write is not, until somebody else has to do with the object."""

from __future__ import annotations

from typing import Any

from tests.localcluster.apiserver.api import CONFIG_MAPS, MERGE, Api, running
from volcanoio.localcluster.apiserver.apimachinery.objects import decode, encode
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse

APPLY = "application/apply-patch+yaml"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}


async def sent(api: Api, agent: str, method: str, path: str, body: Any, kind: str = "application/json") -> Any:
    """A request as HTTP brings it, with a User-Agent."""
    headers = {"content-type": kind, "accept": "application/json", "user-agent": agent}
    answer = await api.server.handle(ApiRequest(method, path, {}, headers, encode(body)))
    assert isinstance(answer, ApiResponse)
    return decode(answer.body)


def entries(obj: Any) -> list[tuple[str, str, Any]]:
    found = obj["metadata"].get("managedFields", [])
    return [(one["manager"], one["operation"], one["fieldsV1"]) for one in found]


async def test_objects_of_our_components_are_not_tracked() -> None:
    async with running() as api:
        assert entries(await api.made(CONFIG_MAPS, CONFIG_MAP)) == []
        again = {**CONFIG_MAP, "metadata": {"name": "y"}}
        assert entries(await sent(api, "volcanoio/1.0", "POST", CONFIG_MAPS, again)) == []


async def test_it_stays_untracked_until_somebody_applies() -> None:
    async with running() as api:
        await api.made(CONFIG_MAPS, CONFIG_MAP)
        changed = await api("PATCH", f"{CONFIG_MAPS}/x", {"data": {"b": "1"}}, kind=MERGE, fieldManager="editor")
        assert entries(changed.body) == []
        config = {**CONFIG_MAP, "data": {"c": "1"}}
        applied = await api("PATCH", f"{CONFIG_MAPS}/x", config, kind=APPLY, fieldManager="me")
        assert entries(applied.body) == [
            ("me", "Apply", {"f:data": {"f:c": {}}}),
            ("before-first-apply", "Update", {"f:data": {".": {}, "f:a": {}, "f:b": {}}}),
        ]


async def test_any_named_manager_is_tracked_from_the_start() -> None:
    async with running() as api:
        made = await api("POST", CONFIG_MAPS, CONFIG_MAP, fieldManager="kubectl-create")
        assert entries(made.body) == [("kubectl-create", "Update", {"f:data": {".": {}, "f:a": {}}})]


async def test_our_components_writes_to_tracked_objects_are_ours() -> None:
    async with running() as api:
        await sent(api, "kubectl/v1.36 (linux)", "POST", CONFIG_MAPS, CONFIG_MAP)
        changed = await api("PATCH", f"{CONFIG_MAPS}/x", {"data": {"a": "2"}}, kind=MERGE)
        assert entries(changed.body) == [
            ("kubectl", "Update", {"f:data": {}}),
            ("volcanoio", "Update", {"f:data": {"f:a": {}}}),
        ]


async def test_a_long_or_unusual_user_agent() -> None:
    async with running() as api:
        made = await sent(api, "ä" * 100 + "\x01/1", "POST", CONFIG_MAPS, CONFIG_MAP)
        ((manager, _, _),) = entries(made)
        assert manager == "ä" * 64
