"""Create, read, update and list: what every kind has in common."""

from __future__ import annotations

import pytest

from tests.localcluster.apiserver.api import (
    CONFIG_MAPS,
    MERGE,
    NAMESPACES,
    PODS,
    SetClock,
    config_map,
    is_deleting,
    pod,
    running,
)
from volcanoio.localcluster.apiserver.apimachinery.errors import MAX_REQUEST_BYTES


async def test_a_new_object_gets_the_fields_of_the_server() -> None:
    async with running(clock=SetClock()) as api:
        sent = config_map("a", x="1")
        sent["metadata"] |= {"uid": "mine", "deletionTimestamp": "2000-01-01T00:00:00Z"}
        meta = (await api.made(CONFIG_MAPS, sent))["metadata"]
        assert meta["creationTimestamp"] == "2030-01-01T00:00:00Z"
        assert meta["namespace"] == "default"
        assert len(meta["uid"]) == 36
        assert meta["uid"][14] == "4"
        assert int(meta["resourceVersion"]) > 0
        assert "deletionTimestamp" not in meta


async def test_generated_names_are_free_and_short() -> None:
    async with running() as api:
        made = [await api.made(CONFIG_MAPS, {"metadata": {"generateName": "x" * 60}}) for _ in range(20)]
        names = {one["metadata"]["name"] for one in made}
        assert len(names) == 20
        assert {len(name) for name in names} == {63}


async def test_refusals_carry_kubernetes_reasons() -> None:
    async with running() as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        again = await api("POST", CONFIG_MAPS, config_map("a"))
        assert (again.code, again.reason, again.message) == (
            409,
            "AlreadyExists",
            'configmaps "a" already exists',
        )
        missing = await api("GET", f"{CONFIG_MAPS}/b")
        assert (missing.code, missing.reason) == (404, "NotFound")
        assert missing.body["details"] == {"name": "b", "kind": "configmaps"}
        assert (await api("GET", "/apis/nowhere/v1/things")).code == 404
        assert (await api("POST", f"{CONFIG_MAPS}/a", config_map("a"))).reason == "MethodNotAllowed"
        nowhere = await api("POST", "/api/v1/namespaces/nowhere/configmaps", config_map("a"))
        assert nowhere.message == 'namespaces "nowhere" not found'
        elsewhere = config_map("c")
        elsewhere["metadata"]["namespace"] = "kube-system"
        assert (await api("POST", CONFIG_MAPS, elsewhere)).code == 400
        wrong_kind = await api("POST", CONFIG_MAPS, {"kind": "Secret", "metadata": {"name": "x"}})
        assert wrong_kind.message.startswith('Secret in version "v1" cannot be handled as a ConfigMap: ')
        bad_name = await api("POST", CONFIG_MAPS, config_map("Bad_Name"))
        assert bad_name.reason == "Invalid"
        assert bad_name.body["details"]["causes"][0]["field"] == "metadata.name"
        assert (await api("POST", CONFIG_MAPS, b"{")).reason == "BadRequest"
        assert (await api("POST", CONFIG_MAPS, config_map("x"), kind="text/plain")).reason == "UnsupportedMediaType"
        large = await api("POST", CONFIG_MAPS, config_map("x", big="x" * MAX_REQUEST_BYTES))
        assert large.code == 413
        assert "limit is 3145728" in large.message


async def test_yaml_bodies_are_read_and_times_stay_texts() -> None:
    async with running() as api:
        answer = await api(
            "POST", CONFIG_MAPS, b"metadata: {name: 'y'}\ndata: {when: '2020-01-01'}\n", kind="application/yaml"
        )
        assert answer.code == 201
        assert answer.body["data"] == {"when": "2020-01-01"}


async def test_unknown_fields_of_builtin_kinds() -> None:
    async with running() as api:
        wrong = pod(priorityClass="high")
        strict = await api("POST", PODS, wrong, fieldValidation="Strict")
        assert strict.code == 400
        assert 'strict decoding error: unknown field "spec.priorityClass"' in strict.message
        assert 'did you mean "priorityClassName"?' in strict.message
        warned = await api("POST", PODS, wrong)
        assert warned.code == 201
        assert "priorityClassName" in warned.warning
        assert "priorityClass" not in warned.body["spec"]
        assert (await api("POST", PODS, pod("q", priorityClass="x"), fieldValidation="Ignore")).warning == ""
        typed = await api("POST", PODS, pod("r", containers="none"))
        assert typed.code == 400
        assert "spec.containers: expected a list" in typed.message


async def test_updates_are_optimistic_and_idle_ones_change_nothing() -> None:
    async with running() as api:
        first = await api.made(CONFIG_MAPS, config_map("a", x="1"))
        same = await api("PUT", f"{CONFIG_MAPS}/a", first)
        assert same.body == first
        second = await api("PUT", f"{CONFIG_MAPS}/a", {**first, "data": {"x": "2"}})
        assert int(second.body["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
        stale = await api("PUT", f"{CONFIG_MAPS}/a", {**first, "data": {"x": "3"}})
        assert (stale.code, stale.reason) == (409, "Conflict")
        assert "the object has been modified" in stale.message
        assert stale.body["details"]["name"] == "a"
        forced = {"metadata": {"name": "a"}, "data": {"x": "4"}}
        assert (await api("PUT", f"{CONFIG_MAPS}/a", forced)).body["metadata"]["uid"] == first["metadata"]["uid"]
        patch = {"metadata": {"resourceVersion": "1"}, "data": {"x": "5"}}
        assert (await api("PATCH", f"{CONFIG_MAPS}/a", patch, kind=MERGE)).code == 409
        other_name = await api("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}})
        assert other_name.code == 400


async def test_dry_run_stores_nothing() -> None:
    async with running() as api:
        assert (await api("POST", CONFIG_MAPS, config_map("a"), dryRun="All")).code == 201
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 404
        await api.made(CONFIG_MAPS, config_map("a"))
        await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "1"}}, kind=MERGE, dryRun="All")
        assert "data" not in await api.got(f"{CONFIG_MAPS}/a") or (await api.got(f"{CONFIG_MAPS}/a"))["data"] == {}
        assert (await api("DELETE", f"{CONFIG_MAPS}/a", {"dryRun": ["All"]})).code == 200
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 200


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=front", ["a"]),
        ("tier!=front", ["b", "c"]),
        ("tier in (front, back)", ["a", "b"]),
        ("tier notin (front)", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier=front,x=1", []),
    ],
)
async def test_label_selectors(selector: str, expected: list[str]) -> None:
    async with running() as api:
        for name, labels in (("a", {"tier": "front"}), ("b", {"tier": "back"}), ("c", {})):
            await api.made(CONFIG_MAPS, config_map(name, labels))
        assert await api.names(CONFIG_MAPS, labelSelector=selector) == expected


async def test_field_selectors() -> None:
    async with running() as api:
        await api.made(PODS, pod("a", schedulerName="volcano"))
        await api.made(PODS, pod("b"))
        assert await api.names(PODS, fieldSelector="spec.schedulerName=volcano") == ["a"]
        assert await api.names(PODS, fieldSelector="spec.schedulerName!=volcano,status.phase=Pending") == ["b"]
        assert await api.names(PODS, fieldSelector="metadata.name=b") == ["b"]
        assert await api.names("/api/v1/pods", fieldSelector="metadata.namespace=default,spec.nodeName=") == ["a", "b"]
        unknown = await api("GET", PODS, fieldSelector="spec.color=red")
        assert unknown.code == 400
        assert "spec.nodeName" in unknown.message
        assert (await api("GET", PODS, labelSelector="a b")).code == 400


async def test_pages_are_one_snapshot() -> None:
    async with running() as api:
        for number in range(5):
            await api.made(CONFIG_MAPS, config_map(f"c{number}"))
        first = (await api("GET", CONFIG_MAPS, limit="2")).body
        assert first["metadata"]["remainingItemCount"] == 3
        await api("DELETE", f"{CONFIG_MAPS}/c3")
        await api.made(CONFIG_MAPS, config_map("c2b"))
        token = first["metadata"]["continue"]
        second = (await api("GET", CONFIG_MAPS, limit="10", **{"continue": token})).body
        names = [one["metadata"]["name"] for page in (first, second) for one in page["items"]]
        assert names == ["c0", "c1", "c2", "c3", "c4"]
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        assert (await api("GET", CONFIG_MAPS, **{"continue": "junk"})).code == 400


async def test_metadata_alone() -> None:
    async with running() as api:
        await api.made(CONFIG_MAPS, config_map("a", x="1"))
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        listed = await api("GET", CONFIG_MAPS, accept=accept)
        assert listed.body["kind"] == "PartialObjectMetadataList"
        assert set(listed.body["items"][0]) == {"kind", "apiVersion", "metadata"}
        assert (await api("GET", CONFIG_MAPS, accept="application/vnd.kubernetes.protobuf")).code == 406


async def test_namespaces_come_with_label_and_account_and_go_with_their_content() -> None:
    async with running() as api:
        assert await api.names(NAMESPACES) == sorted(
            ["default", "kube-node-lease", "kube-public", "kube-system", "volcano-system"]
        )
        made = await api.made(NAMESPACES, {"metadata": {"name": "team"}})
        assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
        await api.made(f"{NAMESPACES}/team/configmaps", config_map("a"))
        await api.made(f"{NAMESPACES}/team/pods", pod(nodeName="n1"))
        await api.until(f"{NAMESPACES}/team/serviceaccounts", lambda answer: bool(answer.body["items"]))
        deleted = await api("DELETE", f"{NAMESPACES}/team")
        assert deleted.body["status"]["phase"] == "Terminating"
        late = await api("POST", f"{NAMESPACES}/team/configmaps", config_map("b"))
        assert (late.code, late.reason) == (403, "Forbidden")
        assert late.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
        await api.until(f"{NAMESPACES}/team/pods/p", is_deleting)
        assert (await api("GET", f"{NAMESPACES}/team")).code == 200
        await api("DELETE", f"{NAMESPACES}/team/pods/p", {"gracePeriodSeconds": 0})
        await api.gone(f"{NAMESPACES}/team")
        assert (await api("DELETE", f"{NAMESPACES}/default")).reason == "Forbidden"


async def test_events_are_forgotten_after_an_hour() -> None:
    clock = SetClock()
    async with running(clock=clock) as api:
        events = "/api/v1/namespaces/default/events"
        subject = {"kind": "Pod", "name": "p", "namespace": "default"}
        await api.made(events, {"metadata": {"name": "old"}, "involvedObject": subject})
        clock.advance(minutes=50)
        await api.made(events, {"metadata": {"name": "new"}, "involvedObject": subject})
        clock.advance(minutes=20)
        api.server.expiry.sweep()
        assert await api.names(events, fieldSelector="involvedObject.name=p") == ["new"]


async def test_an_event_is_kept_for_an_hour_from_its_creation() -> None:
    clock = SetClock()
    async with running(clock=clock) as api:
        events = "/api/v1/namespaces/default/events"
        subject = {"kind": "Pod", "name": "p", "namespace": "default"}
        past = {"lastTimestamp": "2026-01-01T00:00:00Z"}
        await api.made(events, {"metadata": {"name": "past"}, "involvedObject": subject, **past})
        clock.advance(minutes=59)
        api.server.expiry.sweep()
        assert await api.names(events) == ["past"]
        clock.advance(minutes=2)
        api.server.expiry.sweep()
        assert await api.names(events) == []
