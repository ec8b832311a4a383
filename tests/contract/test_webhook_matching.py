"""Which writes a webhook is asked about."""

from __future__ import annotations

import itertools

from tests.contract.gadgets import GROUP as GADGETS
from tests.contract.gadgets import with_gadgets
from tests.contract.hookserver import patching
from tests.contract.support import Obj, gone, unique
from tests.contract.webhooks import MUTATING, VALIDATING, Configured, rule
from tests.contract.widgets import PLURAL, widget


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
        return [one for one, _ in itertools.groupby(found)]  # a deletion at once is reviewed twice by the real server

    created, bound, updated, deleted = ("CREATE", ""), ("CREATE", "binding"), ("UPDATE", "status"), ("DELETE", "")
    assert asked("/pods") == [created, deleted]
    assert asked("/below") == [created, bound, updated, deleted]
    assert asked("/status") == [updated]
    assert asked("/all") == [created, bound, updated, deleted]
    assert asked("/other") == asked("/cluster") == []
    binding = configured.hooks.asked("/below", "p")[1]
    assert binding["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert binding["object"]["target"]["name"] == "node-1"


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


def test_a_collection_is_deleted_one_by_one(configured: Configured) -> None:
    configured.install(VALIDATING, configured.hook("/each", rules=[rule("configmaps", operations=("DELETE",))]))
    namespace = configured.namespace
    for name in ("a", "b"):
        namespace.config_map(name, {"drop": "yes"})
    namespace.cluster.delete(namespace.path("configmaps"), labelSelector="drop=yes").ok()
    asked = configured.hooks.asked("/each")
    assert sorted(one["oldObject"]["metadata"]["name"] for one in asked) == ["a", "b"]
    assert not any("name" in one for one in asked)


def test_connect_requests_to_a_pod(configured: Configured) -> None:
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


def test_configurations_are_never_sent_through_webhooks(configured: Configured) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    hook = configured.hook("/everything", rules=[everything | {"resources": ["mutatingwebhookconfigurations"]}])
    hook["namespaceSelector"] = {}
    configured.install(VALIDATING, hook)
    path = configured.install(MUTATING, configured.hook("/none"), active=False)
    assert path
    assert configured.hooks.asked("/everything") == []


def test_another_version_of_the_same_objects(configured: Configured) -> None:
    """A rule for one version is about all of them, unless it matches exactly; the webhook sees the one it asked for."""
    namespace = configured.namespace
    with_gadgets(namespace.cluster)
    older = {"operations": ["CREATE"], "apiGroups": [GADGETS], "apiVersions": ["v1"], "resources": ["gadgets"]}
    changed = patching({"op": "add", "path": "/spec/replicas", "value": 7})
    configured.install(
        MUTATING,
        configured.hook("/equivalent", changed, rules=[older]),
        configured.hook("/exact", rules=[older], matchPolicy="Exact"),
    )
    body = {"apiVersion": f"{GADGETS}/v2", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"replicas": 1}}
    made = namespace.cluster.create(namespace.path(f"gadgets.v2.{GADGETS}"), body).ok()
    assert (made["apiVersion"], made["spec"]["replicas"]) == (f"{GADGETS}/v2", 7)
    [request] = configured.hooks.asked("/equivalent", "g")
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v1", "v2")
    assert request["object"]["apiVersion"] == f"{GADGETS}/v1"
    assert configured.hooks.asked("/exact") == []
