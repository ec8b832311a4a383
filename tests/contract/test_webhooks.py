"""Admission webhooks: whom they are asked about, in which order, and what follows from their answers."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.hookserver import HookServer, Reviewer, allow, hook_server, patching
from tests.contract.support import Answer, Cluster, Namespace, Obj, config_map, gone, unique
from tests.contract.widgets import PLURAL, widget

GROUP = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
CONFIG_MAPS = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}
_TRIES = 500


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


def rule(*resources: str, group: str = "", operations: tuple[str, ...] = ("CREATE",), **fields: Any) -> Obj:
    found = {"operations": list(operations), "apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources)}
    return found | fields


class Configured:
    """Webhook configurations for one namespace, removed at the end."""

    def __init__(self, namespace: Namespace, hooks: HookServer) -> None:
        self.namespace = namespace
        self.hooks = hooks
        self._made: list[str] = []
        self._numbers = itertools.count(1)

    def hook(self, path: str, reviewer: Reviewer = allow, **fields: Any) -> Obj:
        """One webhook of a configuration, at a path of the server."""
        self.hooks.reviewers[path] = reviewer
        base = {
            "name": f"{path.strip('/')}.contract.volcanoio.dev",
            "clientConfig": {"url": self.hooks.url + path, "caBundle": self.hooks.ca_bundle},
            "rules": [CONFIG_MAPS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace.name}},
        }
        return base | fields

    def install(self, collection: str, *webhooks: Obj, name: str = "", active: bool = True) -> str:
        """Store a configuration and wait until the server acts on it; returns its path."""
        kind = "MutatingWebhookConfiguration" if collection == MUTATING else "ValidatingWebhookConfiguration"
        marker = f"/marker-{unique('m')}"
        body: Obj = {
            "kind": kind,
            "apiVersion": GROUP.removeprefix("/apis/"),
            "metadata": {"name": name or unique("hooks")},
        }
        probes = [self.hook(marker, rules=[rule("secrets")])] if active else []
        body["webhooks"] = [*webhooks, *probes]
        self.namespace.cluster.create(collection, body).ok()
        path = f"{collection}/{body['metadata']['name']}"
        self._made.append(path)
        if active:
            self._wait(marker)
        return path

    def _wait(self, marker: str) -> None:
        for _ in range(_TRIES):
            secret = {"metadata": {"generateName": "marker-"}}
            self.namespace.cluster.create(self.namespace.path("secrets"), secret, dryRun="All").ok()
            if self.hooks.asked(marker):
                return
        pytest.fail("the configuration has no effect")

    def close(self) -> None:
        for path in self._made:
            self.namespace.cluster.delete(path).ok()


@pytest.fixture
def configured(namespace: Namespace, hooks: HookServer) -> Iterator[Configured]:
    found = Configured(namespace, hooks)
    yield found
    found.close()
    hooks.requests.clear()


def test_a_review_says_what_is_asked(configured: Configured) -> None:
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


def test_a_patch_changes_what_is_stored(configured: Configured) -> None:
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


def test_warnings_are_told(configured: Configured) -> None:
    configured.install(
        VALIDATING, configured.hook("/warn", lambda request: {"allowed": True, "warnings": ["mind", "mind", "this"]})
    )
    namespace = configured.namespace
    answer = namespace.cluster.create(namespace.path("configmaps"), config_map("a"))
    answer.ok()
    told = {name.lower(): value for name, value in answer.headers.items()}["warning"]
    assert told in {'299 - "mind"', '299 - "this"'}  # there are two; this client keeps the last


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


def test_rules_name_resources_and_subresources(configured: Configured) -> None:
    configured.install(
        VALIDATING,
        configured.hook("/pods", rules=[rule("pods", operations=("*",))]),
        configured.hook("/below", rules=[rule("pods/*", operations=("*",))]),
        configured.hook("/status", rules=[rule("*/status", operations=("UPDATE",))]),
        configured.hook("/all", rules=[rule("*/*", operations=("*",))]),
        configured.hook("/other", rules=[rule("pods", group="apps", operations=("*",))]),
        configured.hook("/cluster", rules=[rule("pods", operations=("*",), scope="Cluster")]),
    )
    namespace = configured.namespace
    namespace.pod("p")
    namespace.bind("p", "node-1").ok()
    phase = {"status": {"phase": "Running"}}
    namespace.cluster.patch(namespace.path("pods", "p", "status"), phase).ok()
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    namespace.cluster.delete(namespace.path("pods", "p"), options).ok()

    def asked(path: str) -> list[tuple[str, str]]:
        found = [(one["operation"], one.get("subResource", "")) for one in configured.hooks.asked(path, "p")]
        return [one for one, _ in itertools.groupby(found)]  # a deletion at once is judged twice by the real server

    created, bound, updated, deleted = ("CREATE", ""), ("CREATE", "binding"), ("UPDATE", "status"), ("DELETE", "")
    assert asked("/pods") == [created, deleted]
    assert asked("/below") == [created, bound, updated, deleted]
    assert asked("/status") == [updated]
    assert asked("/all") == [created, bound, updated, deleted]
    assert asked("/other") == asked("/cluster") == []
    binding = configured.hooks.asked("/below", "p")[1]
    assert binding["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert binding["object"]["target"]["name"] == "node-1"


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


def test_scale_and_eviction(configured: Configured) -> None:
    configured.install(
        VALIDATING,
        configured.hook("/scale", rules=[rule("*/scale", group="*", operations=("*",))]),
        configured.hook("/evict", rules=[rule("pods/eviction", operations=("*",))]),
    )
    namespace = configured.namespace
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    namespace.cluster.patch(namespace.path(PLURAL, "w", "scale"), {"spec": {"replicas": 3}}).ok()
    [scale] = configured.hooks.asked("/scale", "w")
    assert scale["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (scale["operation"], scale["subResource"]) == ("UPDATE", "scale")
    assert (scale["oldObject"]["spec"]["replicas"], scale["object"]["spec"]["replicas"]) == (1, 3)
    namespace.pod("p")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    namespace.cluster.create(namespace.path("pods", "p", "eviction"), eviction).ok()
    [evicted] = configured.hooks.asked("/evict", "p")
    assert evicted["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


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


def test_a_collection_is_deleted_one_by_one(configured: Configured) -> None:
    configured.install(VALIDATING, configured.hook("/each", rules=[rule("configmaps", operations=("DELETE",))]))
    namespace = configured.namespace
    for name in ("a", "b"):
        namespace.config_map(name, {"drop": "yes"})
    namespace.cluster.delete(namespace.path("configmaps"), labelSelector="drop=yes").ok()
    asked = configured.hooks.asked("/each")
    assert sorted(one["oldObject"]["metadata"]["name"] for one in asked) == ["a", "b"]
    assert not any("name" in one for one in asked)


def test_an_update_that_changes_nothing_is_judged_too(configured: Configured) -> None:
    configured.install(VALIDATING, configured.hook("/same"))
    namespace = configured.namespace
    made = namespace.config_map("a", key="1")
    same = namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"key": "1"}}).ok()
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert [one["operation"] for one in configured.hooks.asked("/same")] == ["CREATE", "UPDATE"]


def test_the_status_of_a_custom_resource(configured: Configured) -> None:
    group = PLURAL.partition(".v1.")[2]
    rules = [rule("widgets/status", group=group, operations=("UPDATE",))]
    phase = patching({"op": "add", "path": "/status", "value": {"phase": "judged"}})
    configured.install(MUTATING, configured.hook("/widgetstatus", phase, rules=rules))
    namespace = configured.namespace
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    status = {"status": {"phase": "stated"}}
    patched = namespace.cluster.patch(namespace.path(PLURAL, "w", "status"), status).ok()
    assert patched["status"] == {"phase": "judged"}
    [request] = configured.hooks.asked("/widgetstatus", "w")
    assert (request["subResource"], request["object"]["status"]) == ("status", {"phase": "stated"})


def test_who_connects_to_a_pod(configured: Configured) -> None:
    refuse = {"allowed": False, "status": {"message": "no shells here", "code": 403}}
    configured.install(
        VALIDATING,
        configured.hook("/connect", lambda request: refuse, rules=[rule("pods/exec", operations=("CONNECT",))]),
    )
    namespace = configured.namespace
    namespace.pod("p", nodeName="node-1")
    answer = namespace.cluster.get(namespace.path("pods", "p", "exec"), command="ls", stdout=True, container="main")
    assert (answer.code, answer.body["message"].rpartition(": ")[2]) == (403, "no shells here")
    [request] = configured.hooks.asked("/connect")
    assert (request["operation"], request["name"], request["subResource"]) == ("CONNECT", "p", "exec")
    assert request["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    expected = {"kind": "PodExecOptions", "apiVersion": "v1", "stdout": True, "container": "main", "command": ["ls"]}
    assert request["object"] == expected
    assert (request["oldObject"], request["options"]) == (None, None)


def test_selectors_of_namespaces_and_objects(configured: Configured) -> None:
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    chosen = {"matchExpressions": [{"key": "pick", "operator": "In", "values": ["me"]}]}
    configured.install(
        VALIDATING,
        configured.hook("/elsewhere", namespaceSelector=elsewhere),
        configured.hook("/chosen", objectSelector=chosen),
    )
    namespace = configured.namespace
    namespace.config_map("plain")
    namespace.config_map("picked", {"pick": "me"})
    relabel = {"metadata": {"labels": {"pick": "not"}}}
    namespace.cluster.patch(namespace.path("configmaps", "picked"), relabel).ok()
    names = [(one["name"], one["operation"]) for one in configured.hooks.asked("/chosen")]
    assert names == [("picked", "CREATE"), ("picked", "UPDATE")]
    assert configured.hooks.asked("/elsewhere") == []


def test_namespaces_themselves(configured: Configured) -> None:
    label = unique("ns")
    configured.install(
        VALIDATING,
        configured.hook(
            "/namespaces",
            rules=[rule("namespaces", operations=("CREATE", "DELETE"), scope="Cluster")],
            namespaceSelector={"matchLabels": {"contract": label}},
        ),
    )
    cluster, name = configured.namespace.cluster, unique("hooked")
    cluster.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"contract": label}}}).ok()
    cluster.delete(f"/api/v1/namespaces/{name}").ok()
    seen = [(one["operation"], one["name"], one["namespace"]) for one in configured.hooks.asked("/namespaces", name)]
    assert seen[:2] == [("CREATE", name, name), ("DELETE", name, name)]
    gone(cluster, f"/api/v1/namespaces/{name}")


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


def test_match_conditions(configured: Configured) -> None:
    def when(*expressions: str) -> list[Obj]:
        return [{"name": f"c{at}", "expression": text} for at, text in enumerate(expressions)]

    configured.install(
        VALIDATING,
        configured.hook("/true", matchConditions=when("request.operation == 'CREATE'", "has(object.data.key)")),
        configured.hook("/false", matchConditions=when("object.no.where == 1", "object.data.key == 'other'")),
        configured.hook("/old", matchConditions=when("oldObject != null && oldObject.data.key == '1'")),
        configured.hook("/lost", matchConditions=when("object.no.where == 1"), failurePolicy="Ignore"),
    )
    namespace = configured.namespace
    namespace.config_map("a", key="1")
    namespace.cluster.patch(namespace.path("configmaps", "a"), {"data": {"key": "2"}}).ok()
    asked = {path: [one["operation"] for one in configured.hooks.asked(path)] for path in ("/true", "/false", "/old")}
    assert asked == {"/true": ["CREATE"], "/false": [], "/old": ["UPDATE"]}
    assert configured.hooks.asked("/lost") == []


def test_a_match_condition_without_a_value_fails_the_write(configured: Configured) -> None:
    condition = {"name": "broken", "expression": "object.metadata.absent == 'x'"}
    with failing(configured, "/fail", matchConditions=[condition]) as answer:
        why = "expression 'object.metadata.absent == 'x'' resulted in error: no such key: absent"
        assert answer.refused(403, "Forbidden")["message"] == f'configmaps "a" is forbidden: {why}'


@contextmanager
def failing(configured: Configured, path: str, **fields: Any) -> Iterator[Answer]:
    """What a create is answered while this webhook fails."""
    configured.install(VALIDATING, configured.hook(path) | fields)
    namespace = configured.namespace
    yield namespace.cluster.create(namespace.path("configmaps"), config_map("a"))


UNREACHABLE = {"url": "https://127.0.0.1:1/x"}
_CALL = 'Internal error occurred: failed calling webhook "fail.contract.volcanoio.dev": '


def test_an_unreachable_webhook_fails_the_write(configured: Configured) -> None:
    with failing(configured, "/fail", clientConfig=UNREACHABLE) as answer:
        status = answer.refused(500, "InternalError")
        reason = 'Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
        assert status["message"] == f"{_CALL}failed to call webhook: {reason}"


def test_an_unreachable_webhook_may_be_ignored(configured: Configured) -> None:
    with failing(configured, "/fail", clientConfig=UNREACHABLE, failurePolicy="Ignore") as answer:
        answer.ok()


def test_an_untrusted_certificate_fails_the_write(configured: Configured) -> None:
    with failing(configured, "/fail", clientConfig={"url": f"{configured.hooks.url}/fail"}) as answer:
        status = answer.refused(500, "InternalError")
        assert "tls: failed to verify certificate: x509:" in status["message"]


def test_a_service_without_endpoints_fails_the_write(configured: Configured) -> None:
    service = {"name": "absent", "namespace": configured.namespace.name, "path": "/x"}
    with failing(configured, "/fail", clientConfig={"service": service}) as answer:
        status = answer.refused(500, "InternalError")
        assert 'service "absent" not found' in status["message"]


def test_a_slow_webhook_fails_the_write(configured: Configured) -> None:
    with silent() as url, failing(configured, "/fail", clientConfig={"url": url}, timeoutSeconds=1) as answer:
        status = answer.refused(500, "InternalError")
        assert status["message"].startswith(f'{_CALL}failed to call webhook: Post "{url}?timeout=1s": ')
        assert "context deadline exceeded" in status["message"]


@contextmanager
def silent() -> Iterator[str]:
    """A socket that takes connections and says nothing."""

    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/slow"


BAD_ANSWERS: list[tuple[Obj, str]] = [
    ({"uid": "other"}, 'received invalid webhook response: expected response.uid="'),
    (
        {"patch": "W10="},
        "received invalid webhook response: webhook returned response.patch but not response.patchType",
    ),
    (
        {"patchType": "JSONPatch"},
        "received invalid webhook response: webhook returned response.patchType but not response.patch",
    ),
]


@pytest.mark.parametrize(("answer", "text"), BAD_ANSWERS)
def test_an_answer_that_breaks_the_protocol(configured: Configured, answer: Obj, text: str) -> None:
    configured.install(MUTATING, configured.hook("/fail", lambda request: {"allowed": True} | answer))
    namespace = configured.namespace
    refused = namespace.cluster.create(namespace.path("configmaps"), config_map("a"))
    assert refused.refused(500, "InternalError")["message"].startswith(_CALL + text)


@pytest.mark.parametrize(("code", "text"), [
    (404, "failed to call webhook: the server could not find the requested resource"),
    (500, 'failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding'),
])  # fmt: skip
def test_an_http_error(configured: Configured, code: int, text: str) -> None:
    hook = configured.hook("/fail")
    del configured.hooks.reviewers["/fail"]
    configured.hooks.raw["/fail"] = (code, b"boom")
    configured.install(VALIDATING, hook)
    namespace = configured.namespace
    refused = namespace.cluster.create(namespace.path("configmaps"), config_map("a"))
    assert refused.refused(500, "InternalError")["message"] == _CALL + text


def test_configurations_are_never_sent_through_webhooks(configured: Configured) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    hook = configured.hook("/everything", rules=[everything | {"resources": ["mutatingwebhookconfigurations"]}])
    hook["namespaceSelector"] = {}
    configured.install(VALIDATING, hook)
    path = configured.install(MUTATING, configured.hook("/none"), active=False)
    assert path
    assert configured.hooks.asked("/everything") == []


SERVICE = {"name": "a", "namespace": "b"}
WRONG: list[tuple[Obj, str]] = [
    ({"name": "short"}, "webhooks[0].name"),
    ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
    ({"sideEffects": None}, "webhooks[0].sideEffects"),
    ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
    ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
    ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
    ({"failurePolicy": "X"}, "webhooks[0].failurePolicy"),
    ({"clientConfig": {}}, "webhooks[0].clientConfig"),
    ({"clientConfig": {"url": "http://a/b"}}, "webhooks[0].clientConfig.url"),
    (
        {"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "x"}}},
        "webhooks[0].clientConfig.service.path",
    ),
    ({"rules": [{}]}, "webhooks[0].rules[0].operations"),
    ({"rules": [rule("a", scope="W")]}, "webhooks[0].rules[0].scope"),
    ({"rules": [rule("a/*", "a/b")]}, "webhooks[0].rules[0].resources[1]"),
    (
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "webhooks[0].namespaceSelector.matchExpressions[0].values",
    ),
    ({"matchConditions": [{"name": "", "expression": "true"}]}, "webhooks[0].matchConditions[0].name"),
    ({"matchConditions": [{"name": "a", "expression": "object.a"}]}, "webhooks[0].matchConditions[0].expression"),
    ({"matchConditions": [{"name": "a", "expression": "request.x"}]}, "webhooks[0].matchConditions[0].expression"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG)
def test_a_configuration_must_be_right(cluster: Cluster, fields: Obj, field: str) -> None:
    answer = cluster.create(MUTATING, _configuration(fields), dryRun="All")
    causes = answer.refused(422, "Invalid")["details"]["causes"]
    assert causes[0]["field"] == field


def test_defaults(cluster: Cluster) -> None:
    service = {"clientConfig": {"service": SERVICE}}
    [hook] = cluster.create(MUTATING, _configuration(service), dryRun="All").ok()["webhooks"]
    expected = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10, "namespaceSelector": {}}
    expected |= {"objectSelector": {}, "reinvocationPolicy": "Never"}
    assert hook.items() >= expected.items()
    assert hook["clientConfig"]["service"]["port"] == 443
    assert hook["rules"][0]["scope"] == "*"


def _configuration(fields: Obj) -> Obj:
    hook = {
        "name": "a.contract.volcanoio.dev",
        "clientConfig": {"url": "https://127.0.0.1/x"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [CONFIG_MAPS],
    }
    return {"metadata": {"name": unique("wrong")}, "webhooks": [hook | fields]}
