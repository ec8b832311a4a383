"""Admission webhooks: their requests, their order, and the effect of their responses."""

from __future__ import annotations

import pytest

from tests.contract.hookserver import Reviewer, patching
from tests.contract.support import Obj, config_map, unique
from tests.contract.webhooks import MUTATING, VALIDATING, Configured, rule
from tests.contract.widgets import PLURAL, widget


def test_a_review_describes_the_request(configured: Configured) -> None:
    configured.install(VALIDATING, configured.hook("/review"))
    namespace = configured.namespace
    body = config_map("a", {"x": "y"}, key="1")
    made = namespace.cluster.create(namespace.path("configmaps"), body, fieldManager="me").ok()
    [request] = configured.hooks.asked("/review", "a")
    what = {"group": "", "version": "v1"}
    assert request["kind"] == request["requestKind"] == what | {"kind": "ConfigMap"}
    assert request["resource"] == request["requestResource"] == what | {"resource": "configmaps"}
    assert (request["name"], request["namespace"], request["operation"]) == ("a", namespace.name, "CREATE")
    assert request["dryRun"] is False
    assert request["oldObject"] is None
    assert request["object"]["data"] == {"key": "1"}
    assert request["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert request["userInfo"]["username"]
    assert "system:authenticated" in request["userInfo"]["groups"]
    assert "subResource" not in request
    namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"key": "2"}}).ok()
    update = configured.hooks.asked("/review", "a")[-1]
    assert (update["operation"], update["options"]["kind"]) == ("UPDATE", "UpdateOptions")
    assert (update["oldObject"]["data"], update["object"]["data"]) == ({"key": "1"}, {"key": "2"})


def test_a_patch_changes_the_stored_object(configured: Configured) -> None:
    patch = patching(
        {"op": "add", "path": "/data/added", "value": "yes"},
        {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}},
    )
    configured.install(MUTATING, configured.hook("/patch", patch))
    namespace = configured.namespace
    made = namespace.config_map("a", key="1")
    assert made["data"] == {"key": "1", "added": "yes"}
    assert made["metadata"]["labels"] == {"by": "hook"}
    namespace.cluster.delete(namespace.path("configmaps", "a")).ok()


def test_a_generated_name_is_not_known_to_mutating_webhooks(configured: Configured) -> None:
    configured.install(MUTATING, configured.hook("/unnamed"))
    configured.install(VALIDATING, configured.hook("/named"))
    namespace = configured.namespace
    body = {"metadata": {"generateName": "some-"}}
    made = namespace.cluster.create(namespace.path("configmaps"), body).ok()
    [mutating], [validating] = configured.hooks.asked("/unnamed"), configured.hooks.asked("/named")
    assert "name" not in mutating
    assert "uid" not in mutating["object"]["metadata"]
    assert mutating["object"]["metadata"]["namespace"] == namespace.name
    assert validating["object"]["metadata"]["name"] == made["metadata"]["name"]


REFUSALS: list[tuple[Obj | None, int, str | None, str]] = [
    ({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "Forbidden", "denied the request: no"),
    ({"message": "no"}, 400, None, "denied the request: no"),
    ({"code": 200, "status": "Success", "message": "no"}, 400, None, "denied the request: no"),
    ({"reason": "Because", "code": 422}, 422, "Because", "denied the request: Because"),
    (None, 400, None, "denied the request without explanation"),
]


@pytest.mark.parametrize(("status", "code", "reason", "text"), REFUSALS)
@pytest.mark.parametrize("collection", [MUTATING, VALIDATING])
def test_a_refusal(
    configured: Configured, collection: str, status: Obj | None, code: int, reason: str | None, text: str
) -> None:
    answer = {"allowed": False} | ({"status": status} if status else {})
    configured.install(collection, configured.hook("/refuse", lambda request: answer))
    namespace = configured.namespace
    refused = namespace.cluster.create(namespace.path("configmaps"), config_map("a"))
    assert (refused.code, refused.body.get("reason"), refused.body["status"]) == (code, reason, "Failure")
    assert refused.body["message"] == f'admission webhook "refuse.contract.volcanoio.dev" {text}'
    assert refused.body["code"] == code
    namespace.cluster.get(namespace.path("configmaps", "a")).refused(404, "NotFound")


def test_warnings_are_reported(configured: Configured) -> None:
    configured.install(
        VALIDATING, configured.hook("/warn", lambda request: {"allowed": True, "warnings": ["note", "note", "this"]})
    )
    namespace = configured.namespace
    answer = namespace.cluster.create(namespace.path("configmaps"), config_map("a"))
    answer.ok()
    assert answer.headers["warning"] == '299 - "note", 299 - "this"'


def test_mutating_webhooks_are_asked_in_the_order_of_names(configured: Configured) -> None:
    def appending(letter: str) -> Reviewer:
        def review(request: Obj) -> Obj:
            found = (request["object"]["metadata"].get("annotations") or {}).get("seen", "")
            operation = {"op": "add", "path": "/metadata/annotations", "value": {"seen": found + letter}}
            return patching(operation)(request)

        return review

    first, second = unique("order"), unique("order")
    configured.install(MUTATING, configured.hook("/c", appending("c")), name=max(first, second))
    configured.install(
        MUTATING, configured.hook("/b", appending("b")), configured.hook("/a", appending("a")), name=min(first, second)
    )
    made = configured.namespace.config_map("a")
    assert made["metadata"]["annotations"]["seen"] == "bac"


def test_reinvocation(configured: Configured) -> None:
    """A webhook that asked for it sees what those after it changed; others, and the last, do not."""
    labelled = patching({"op": "add", "path": "/data/late", "value": "yes"})
    configured.install(
        MUTATING,
        configured.hook("/again", reinvocationPolicy="IfNeeded"),
        configured.hook("/once", reinvocationPolicy="Never"),
        configured.hook("/late", labelled, reinvocationPolicy="IfNeeded"),
    )
    configured.namespace.config_map("a", key="1")
    seen = [request["object"]["data"] for request in configured.hooks.asked("/again")]
    assert seen == [{"key": "1"}, {"key": "1", "late": "yes"}]
    assert len(configured.hooks.asked("/once")) == len(configured.hooks.asked("/late")) == 1


def test_a_deletion_shows_the_old_object(configured: Configured) -> None:
    configured.install(VALIDATING, configured.hook("/gone", rules=[rule("configmaps", operations=("DELETE",))]))
    namespace = configured.namespace
    namespace.config_map("a", key="1")
    namespace.cluster.delete(namespace.path("configmaps", "a")).ok()
    [request] = configured.hooks.asked("/gone", "a")
    assert (request["operation"], request["object"]) == ("DELETE", None)
    assert request["oldObject"]["data"] == {"key": "1"}
    assert request["options"]["kind"] == "DeleteOptions"


def test_a_deletion_may_be_refused(configured: Configured) -> None:
    refuse = configured.hook(
        "/keep", lambda request: {"allowed": False}, rules=[rule("configmaps", operations=("DELETE",))]
    )
    path = configured.install(VALIDATING, refuse)
    namespace = configured.namespace
    namespace.config_map("a")
    assert namespace.cluster.delete(namespace.path("configmaps", "a")).code == 400
    namespace.cluster.get(namespace.path("configmaps", "a")).ok()
    assert path


def test_an_apply_goes_through_webhooks(configured: Configured) -> None:
    added = patching({"op": "add", "path": "/data/added", "value": "yes"})
    configured.install(MUTATING, configured.hook("/apply", added))
    namespace = configured.namespace
    path = namespace.path("configmaps", "a")
    for value, operation in (("1", "CREATE"), ("2", "UPDATE")):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": value}}
        applied = namespace.cluster.patch(path, body, "application/apply-patch+yaml", fieldManager="me").ok()
        assert applied["data"] == {"key": value, "added": "yes"}
        request = configured.hooks.asked("/apply", "a")[-1]
        assert (request["operation"], request["object"]["data"]["key"]) == (operation, value)


def test_an_update_that_changes_nothing_is_validated_too(configured: Configured) -> None:
    configured.install(VALIDATING, configured.hook("/same"))
    namespace = configured.namespace
    made = namespace.config_map("a", key="1")
    same = namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"key": "1"}}).ok()
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert [one["operation"] for one in configured.hooks.asked("/same")] == ["CREATE", "UPDATE"]


def test_the_status_of_a_custom_resource(configured: Configured) -> None:
    group = PLURAL.partition(".v1.")[2]
    rules = [rule("widgets/status", group=group, operations=("UPDATE",))]
    phase = patching({"op": "add", "path": "/status", "value": {"phase": "reviewed"}})
    configured.install(MUTATING, configured.hook("/widgetstatus", phase, rules=rules))
    namespace = configured.namespace
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    status = {"status": {"phase": "stated"}}
    patched = namespace.cluster.patch(namespace.path(PLURAL, "w", "status"), status).ok()
    assert patched["status"] == {"phase": "reviewed"}
    [request] = configured.hooks.asked("/widgetstatus", "w")
    assert (request["subResource"], request["object"]["status"]) == ("status", {"phase": "stated"})


def test_dry_run(configured: Configured) -> None:
    configured.install(VALIDATING, configured.hook("/dry", sideEffects="NoneOnDryRun"))
    namespace = configured.namespace
    namespace.cluster.create(namespace.path("configmaps"), config_map("a"), dryRun="All").ok()
    [request] = configured.hooks.asked("/dry", "a")
    assert request["dryRun"] is True
    assert request["options"]["dryRun"] == ["All"]


def test_a_custom_resource(configured: Configured) -> None:
    group = PLURAL.partition(".v1.")[2]
    configured.install(
        MUTATING,
        configured.hook(
            "/widget",
            patching({"op": "replace", "path": "/spec/size", "value": 7}),
            rules=[rule("widgets", group=group)],
        ),
    )
    namespace = configured.namespace
    made = namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    assert made["spec"] == {"size": 7, "color": "red"}
    [request] = configured.hooks.asked("/widget", "w")
    assert request["object"]["spec"] == {"size": 1, "color": "red"}


def test_a_change_that_breaks_rules_is_refused(configured: Configured) -> None:
    group = PLURAL.partition(".v1.")[2]
    breaking = patching({"op": "replace", "path": "/spec/size", "value": 0})
    configured.install(MUTATING, configured.hook("/break", breaking, rules=[rule("widgets", group=group)]))
    namespace = configured.namespace
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).refused(422, "Invalid")
