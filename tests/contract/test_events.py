"""Events are the same objects under core v1 and events.k8s.io/v1, with other names for some fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.appliers import apply
from tests.contract.support import STRATEGIC, TABLE, Namespace, Obj

NEW = "events.v1.events.k8s.io"


def event(namespace: Namespace, name: str, **fields: Any) -> Obj:
    about = {"kind": "Pod", "namespace": namespace.name, "name": "web"}
    base = {"regarding": about, "reason": "Started", "action": "Starting", "note": "it runs", "type": "Normal"}
    reporter = {"reportingController": "example.com/agent", "reportingInstance": "agent-1"}
    return {"metadata": {"name": name}, "eventTime": "2026-01-01T00:00:00.000000Z", **base, **reporter, **fields}


def old_event(namespace: Namespace, name: str) -> Obj:
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z", "count": 3}
    about = {"kind": "Pod", "namespace": namespace.name, "name": "web"}
    said = {"reason": "Started", "message": "it runs", "type": "Normal", "source": {"component": "kubelet"}}
    return {"metadata": {"name": name}, "involvedObject": about, **said, **times}


def test_a_new_event_is_read_under_both_names(namespace: Namespace) -> None:
    made = namespace.cluster.create(namespace.path(NEW), event(namespace, "a")).ok()
    assert (made["apiVersion"], made["note"], made["regarding"]["name"]) == ("events.k8s.io/v1", "it runs", "web")
    old = namespace.cluster.get(namespace.path("events", "a")).ok()
    assert (old["apiVersion"], old["message"], old["involvedObject"]["name"]) == ("v1", "it runs", "web")
    assert old["reportingComponent"] == "example.com/agent"
    assert old["metadata"]["uid"] == made["metadata"]["uid"]


def test_an_old_event_is_read_under_both_names(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path("events"), old_event(namespace, "a")).ok()
    new = namespace.cluster.get(namespace.path(NEW, "a")).ok()
    assert (new["note"], new["deprecatedCount"], new["deprecatedSource"]) == ("it runs", 3, {"component": "kubelet"})
    assert new["deprecatedLastTimestamp"] == "2026-01-01T00:01:00Z"
    listed = namespace.cluster.get(namespace.path(NEW)).ok()
    assert (listed["apiVersion"], listed["kind"]) == ("events.k8s.io/v1", "EventList")
    assert [one["note"] for one in listed["items"]] == ["it runs"]


def test_a_series_grows_by_a_patch(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(NEW), event(namespace, "a")).ok()
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    patched = namespace.cluster.patch(namespace.path(NEW, "a"), series, STRATEGIC).ok()
    assert patched["series"]["count"] == 2
    assert namespace.cluster.get(namespace.path("events", "a")).ok()["series"]["count"] == 2


def test_other_fields_of_an_event_are_immutable(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(NEW), event(namespace, "a")).ok()
    refused = namespace.cluster.patch(namespace.path(NEW, "a"), {"note": "it stopped"}, STRATEGIC)
    assert "field is immutable" in refused.refused(422, "Invalid")["message"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"type": "Odd"}, "type"),
        ({"reportingController": ""}, "reportingController"),
        ({"deprecatedCount": 1}, "count"),
    ],
)
def test_an_event_has_to_be_complete(namespace: Namespace, change: Obj, field: str) -> None:
    status = namespace.cluster.create(namespace.path(NEW), event(namespace, "a", **change)).refused(422, "Invalid")
    assert field in [cause["field"] for cause in status["details"]["causes"]]


def test_refusals_name_the_group(namespace: Namespace) -> None:
    status = namespace.cluster.get(namespace.path(NEW, "absent")).refused(404, "NotFound")
    assert status["message"] == 'events.events.k8s.io "absent" not found'
    assert status["details"]["group"] == "events.k8s.io"
    strict = event(namespace, "a", message="it runs")
    refused = namespace.cluster.create(namespace.path(NEW), strict, fieldValidation="Strict").refused(400, "BadRequest")
    assert 'unknown field "message"' in refused["message"]


def test_events_are_selected_by_their_object(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(NEW), event(namespace, "a")).ok()
    for selector, count in (("regarding.name=web", 1), ("regarding.name=db", 0), ("reason!=Started", 0)):
        assert len(namespace.cluster.get(namespace.path(NEW), fieldSelector=selector).ok()["items"]) == count
    namespace.cluster.get(namespace.path(NEW), fieldSelector="involvedObject.name=web").refused(400, "BadRequest")


def test_a_watch_shows_writes_of_the_other_group(namespace: Namespace) -> None:
    with namespace.cluster.watch(namespace.path(NEW)) as changes:
        namespace.cluster.create(namespace.path("events"), old_event(namespace, "a")).ok()
        change = next(changes)
        assert (change["type"], change["object"]["note"]) == ("ADDED", "it runs")
        assert change["object"]["apiVersion"] == "events.k8s.io/v1"
        namespace.cluster.delete(namespace.path(NEW, "a")).ok()
        assert next(changes)["type"] == "DELETED"


def test_events_are_printed(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(NEW), event(namespace, "a")).ok()
    table = namespace.cluster.get(namespace.path(NEW), accept=TABLE).ok()
    assert table["kind"] == "Table"
    assert "Started" in table["rows"][0]["cells"]


def test_duplicate_fields_of_an_event_cause_a_warning(namespace: Namespace) -> None:
    body = json.dumps(event(namespace, "a") | {"apiVersion": "events.k8s.io/v1", "kind": "Event"})
    twice = body.replace('"reason": "Started"', '"reason": "Started", "reason": "Started"').encode()
    made = namespace.cluster.request("POST", namespace.path(NEW), twice, content_type="application/json")
    assert made.code == 201, made.body
    assert 'duplicate field \\"reason\\"' in {name.lower(): text for name, text in made.headers.items()}["warning"]


def test_a_new_event_may_be_named_by_the_server(namespace: Namespace) -> None:
    body = event(namespace, "") | {"metadata": {"generateName": "gen-"}}
    assert namespace.cluster.create(namespace.path(NEW), body).ok()["metadata"]["name"].startswith("gen-")
    refused = namespace.cluster.create(namespace.path(NEW), body | {"type": "Odd"}).refused(422, "Invalid")
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["type"]
    assert refused["details"]["name"].startswith("gen-")


def test_options_of_an_apply_are_looked_at_before_the_event(namespace: Namespace) -> None:
    body = event(namespace, "a", type="Odd") | {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    refused = apply(namespace.cluster, namespace.path(NEW, "a"), body, fieldValidation="Wrong").refused(422, "Invalid")
    assert refused["details"]["kind"] == "PatchOptions"
    forced = apply(namespace.cluster, namespace.path(NEW, "a"), body, force="true").refused(422, "Invalid")
    assert [cause["field"] for cause in forced["details"]["causes"]] == ["type"]


def test_events_have_no_dependents_to_wait_for(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path("events"), old_event(namespace, "a")).ok()
    gone = namespace.cluster.delete(namespace.path("events", "a"), {"propagationPolicy": "Foreground"}).ok()
    assert gone["status"] == "Success"


def test_a_patch_of_a_missing_object_is_not_decoded(namespace: Namespace) -> None:
    namespace.cluster.patch(namespace.path(NEW, "a"), b"", STRATEGIC).refused(404, "NotFound")


def test_another_reporter_is_refused_under_its_newer_name(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(NEW), event(namespace, "a")).ok()
    change = {"reportingController": "example.com/other"}
    refused = namespace.cluster.patch(namespace.path(NEW, "a"), change, STRATEGIC).refused(422, "Invalid")
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["reportingController"]
