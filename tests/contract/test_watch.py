"""Watches: order, where they start, selectors, bookmarks and ends."""

from __future__ import annotations

import pytest

from tests.contract.support import TABLE, Cluster, Namespace, Obj, config_map, unique

INITIAL_END = "k8s.io/initial-events-end"
HISTORY = 600
"""More changes than the embedded server under test remembers."""


def version(namespace: Namespace) -> str:
    listed = namespace.cluster.get(namespace.path("configmaps")).ok()
    return str(listed["metadata"]["resourceVersion"])


def brief(event: Obj) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def test_changes_come_in_order_and_once(namespace: Namespace) -> None:
    start = version(namespace)
    path = namespace.path("configmaps", "a")
    namespace.config_map("a", key="1")
    with namespace.cluster.watch(namespace.path("configmaps"), resourceVersion=start) as events:
        namespace.cluster.patch(path, {"data": {"key": "2"}}).ok()
        namespace.cluster.patch(path, {"data": {"key": "2"}}).ok()
        namespace.cluster.delete(path).ok()
        namespace.config_map("z")
        seen = [next(events) for _ in range(4)]
    assert [brief(event) for event in seen] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "z")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions)), "strictly growing"
    assert seen[2]["object"]["data"] == {"key": "2"}, "a deletion carries the last state"


def test_a_watch_resumes_where_another_ended(namespace: Namespace) -> None:
    namespace.config_map("a")
    middle = namespace.config_map("b")["metadata"]["resourceVersion"]
    namespace.config_map("c")
    with namespace.cluster.watch(namespace.path("configmaps"), resourceVersion=middle) as events:
        assert brief(next(events)) == ("ADDED", "c")


def test_an_object_enters_and_leaves_a_selection(namespace: Namespace) -> None:
    start = version(namespace)
    namespace.config_map("a", {"on": "no"})
    path = namespace.path("configmaps", "a")
    with namespace.cluster.watch(namespace.path("configmaps"), resourceVersion=start, labelSelector="on=yes") as events:
        for value in ("yes", "still", "yes"):
            namespace.cluster.patch(path, {"metadata": {"labels": {"on": value}}}).ok()
        namespace.cluster.delete(path).ok()
        seen = [brief(next(events))[0] for _ in range(4)]
    assert seen == ["ADDED", "DELETED", "ADDED", "DELETED"]


def test_a_pod_enters_a_field_selection_when_it_is_bound(namespace: Namespace) -> None:
    start = version(namespace)
    query = {"resourceVersion": start, "fieldSelector": "spec.nodeName=some-node"}
    with namespace.cluster.watch(namespace.path("pods"), **query) as events:
        namespace.pod("p")
        namespace.bind("p", "some-node").ok()
        assert brief(next(events)) == ("ADDED", "p")


def test_one_object_by_name(namespace: Namespace) -> None:
    start = version(namespace)
    query = {"resourceVersion": start, "fieldSelector": "metadata.name=b"}
    with namespace.cluster.watch(namespace.path("configmaps"), **query) as events:
        for name in ("a", "b"):
            namespace.config_map(name)
        assert brief(next(events)) == ("ADDED", "b")


def test_without_a_version_a_watch_starts_with_existing_objects(namespace: Namespace) -> None:
    namespace.config_map("a", {"mine": "yes"})
    with namespace.cluster.watch(namespace.path("configmaps"), labelSelector="mine") as events:
        assert brief(next(events)) == ("ADDED", "a")
        namespace.config_map("b", {"mine": "yes"})
        assert brief(next(events)) == ("ADDED", "b")


def test_a_watch_list_ends_its_beginning_with_a_bookmark(namespace: Namespace) -> None:
    namespace.config_map("a", {"mine": "yes"})
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": "mine",
    }
    with namespace.cluster.watch(namespace.path("configmaps"), **query) as events:
        assert brief(next(events)) == ("ADDED", "a")
        bookmark = next(events)
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "ConfigMap"
        assert bookmark["object"]["metadata"]["annotations"][INITIAL_END] == "true"
        later = namespace.config_map("b", {"mine": "yes"})["metadata"]["resourceVersion"]
        assert int(later) > int(bookmark["object"]["metadata"]["resourceVersion"])
        assert brief(next(events)) == ("ADDED", "b")


def test_a_watch_ends_at_its_time(namespace: Namespace) -> None:
    start = version(namespace)
    with namespace.cluster.watch(namespace.path("configmaps"), resourceVersion=start, timeoutSeconds=1) as events:
        assert [event for event in events if event["type"] != "BOOKMARK"] == []


def test_table_rows_can_be_watched(namespace: Namespace) -> None:
    start = version(namespace)
    namespace.pod("p")
    with namespace.cluster.watch(namespace.path("pods"), accept=TABLE, resourceVersion=start) as events:
        event = next(events)
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert event["object"]["rows"][0]["cells"][0] == "p"


def test_history_that_is_gone_is_410(cluster: Cluster, namespace: Namespace) -> None:
    start = version(namespace)
    path = namespace.path("configmaps")
    namespace.config_map("counter", value="0")
    for value in range(1, HISTORY + 1):
        cluster.patch(f"{path}/counter", {"data": {"value": str(value)}}).ok()
    with cluster.watch(path, resourceVersion=start) as events:
        first = next(events)
    if first["type"] != "ERROR":
        pytest.skip(f"this server remembers more than {HISTORY} changes")
    assert (first["object"]["kind"], first["object"]["code"]) == ("Status", 410)
    assert first["object"]["reason"] in {"Expired", "Gone"}


def test_a_version_of_the_future_is_refused(namespace: Namespace) -> None:
    far = int(version(namespace)) + 1_000_000
    answer = namespace.cluster.get(namespace.path("configmaps"), resourceVersion=far)
    status = answer.refused(504, "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize("text", ["abc", "-1", "1.5"])
def test_a_malformed_version_is_refused(namespace: Namespace, text: str) -> None:
    said = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
    path = namespace.path("configmaps")
    with namespace.cluster.watch(path, resourceVersion=text) as events:
        status = next(events)["object"]
    assert (status["code"], status["message"], "reason" in status) == (500, said, False)
    listed = namespace.cluster.get(path, resourceVersion=text).refused(400, "BadRequest")
    assert listed["message"] == f"invalid resource version: {said}"
    one = namespace.cluster.get(f"{path}/absent", resourceVersion=text)
    assert (one.code, one.body["message"]) == (500, said)


def test_watching_all_namespaces(cluster: Cluster, namespace: Namespace) -> None:
    start = version(namespace)
    name = unique("everywhere")
    with cluster.watch("/api/v1/configmaps", resourceVersion=start, fieldSelector=f"metadata.name={name}") as events:
        cluster.create(namespace.path("configmaps"), config_map(name)).ok()
        assert next(events)["object"]["metadata"]["namespace"] == namespace.name
