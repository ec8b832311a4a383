"""What kubectl reads: one test per verb and version, on objects that look as if a cluster ran them."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.contract.kubectls import USED, Kubectl, running
from tests.contract.support import FOREIGN, Cluster, Namespace, Obj, config_map, unique
from tests.contract.widgets import WIDGETS, widget

pytestmark = USED
simulated_logs = pytest.mark.skipif(FOREIGN in os.environ, reason="a real cluster of ours has no kubelet to ask")


def made_event(namespace: Namespace, about: Obj, **fields: Any) -> None:
    """An event about a pod."""
    meta = about["metadata"]
    involved = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": namespace.name,
        "name": meta["name"],
        "uid": meta["uid"],
    }
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1}
    said = {"reason": "Started", "message": "Started container main", "type": "Normal"}
    body = {"metadata": {"name": "e"}, "involvedObject": involved, "source": {"component": "kubelet"}, **times, **said}
    namespace.cluster.create(namespace.path("events"), body | fields).ok()


def test_get_prints_a_table(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    header, row = (line.split() for line in any_kubectl("get", "pods").splitlines())
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:4] == ["web", "1/1", "Running", "0"]


def test_get_wide(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    header, row = (line.split() for line in any_kubectl("get", "pods", "-o", "wide").splitlines())
    assert header[-6:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert row[-4:] == ["10.244.0.7", "node-1", "<none>", "<none>"]


FORMS = {
    "name": "configmap/a\n",
    "jsonpath={.data.key}": "1",
    "go-template={{.data.key}}": "1",
    "custom-columns=NAME:.metadata.name,KEY:.data.key": "NAME   KEY\na      1\n",
}


def test_get_a_chosen_part(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.config_map("a", key="1")
    for form, shown in FORMS.items():
        assert any_kubectl("get", "cm", "a", "-o", form) == shown


def test_get_whole_objects(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.config_map("a", key="1")
    assert '  key: "1"\n' in any_kubectl("get", "cm", "a", "-o", "yaml")
    listed = json.loads(any_kubectl("get", "cm", "-o", "json", "--field-selector=metadata.name=a"))
    assert [one["data"] for one in listed["items"]] == [{"key": "1"}]


def test_get_sorted_and_selected(any_kubectl: Kubectl, namespace: Namespace) -> None:
    for name, order in (("a", "2"), ("b", "1")):
        namespace.config_map(name, {"mine": "yes"}, order=order)
    lines = any_kubectl("get", "cm", "--sort-by=.data.order", "-l", "mine", "-L", "mine", "--no-headers").splitlines()
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [("b", "yes"), ("a", "yes")]


def test_get_several_kinds(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    assert any_kubectl("get", "all").splitlines()[1].startswith("pod/web")
    namespace.config_map("a")
    assert any_kubectl("get", "pod/web", "cm/a", "-o", "name") == "pod/web\nconfigmap/a\n"


def test_get_missing_objects(any_kubectl: Kubectl) -> None:
    ran = any_kubectl.run("get", "pod", "absent")
    assert (ran.code, ran.err) == (1, 'Error from server (NotFound): pods "absent" not found\n')
    assert "No resources found" in any_kubectl.run("get", "pods").err
    assert 'the server doesn\'t have a resource type "nonsense"' in any_kubectl.run("get", "nonsense").err


def test_get_watch(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    with any_kubectl.following("get", "pods", "-w") as lines:
        assert next(lines).split()[0] == "NAME"
        assert next(lines).split()[:3] == ["web", "1/1", "Running"]
        namespace.cluster.delete(namespace.path("pods", "web")).ok()
        assert next(lines).split()[:3] == ["web", "1/1", "Terminating"]


def test_get_watched_events(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.config_map("a", {"mine": "yes"})
    # Of a list: the watch of one object starts at whatever is there by then, maybe after its end.
    with any_kubectl.following("get", "cm", "-l", "mine", "--output-watch-events", "--watch") as lines:
        assert next(lines).split() == ["EVENT", "NAME", "DATA", "AGE"]
        assert next(lines).split()[:2] == ["ADDED", "a"]
        namespace.cluster.delete(namespace.path("configmaps", "a")).ok()
        assert next(lines).split()[:2] == ["DELETED", "a"]


def test_get_raw(any_kubectl: Kubectl) -> None:
    assert any_kubectl("get", "--raw", "/readyz") == "ok"
    assert json.loads(any_kubectl("get", "--raw", "/api/v1"))["groupVersion"] == "v1"


def test_describe(any_kubectl: Kubectl, namespace: Namespace) -> None:
    made_event(namespace, running(namespace, "web"))
    described = any_kubectl("describe", "pod", "web")
    assert "node-1" in described
    assert "Started container main" in described


def test_describe_a_node(kubectl: Kubectl, cluster: Cluster) -> None:
    node = unique("node")
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    cluster.create("/api/v1/nodes", {"metadata": {"name": node}}).ok()
    cluster.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": capacity, "allocatable": capacity}}).ok()
    assert "32Gi" in kubectl("describe", "node", node)
    assert kubectl("get", "node", node).splitlines()[1].split()[:2] == [node, "Unknown"]
    cluster.delete(f"/api/v1/nodes/{node}").ok()


def test_events(any_kubectl: Kubectl, namespace: Namespace) -> None:
    made_event(namespace, namespace.pod("web"), reason="FailedScheduling", message="no room", type="Warning")
    line = any_kubectl("get", "events").splitlines()[1]
    assert line.split()[1:] == ["Warning", "FailedScheduling", "pod/web", "no", "room"]
    assert "FailedScheduling" in any_kubectl("events", "--for", "pod/web")
    assert "FailedScheduling" in any_kubectl("get", "events.events.k8s.io")


def test_explain(any_kubectl: Kubectl) -> None:
    spec = any_kubectl("explain", "widget.spec")
    assert "How large the widget is." in spec
    assert "-required-" in spec
    assert "imagePullPolicy" in any_kubectl("explain", "pod.spec.containers")


def test_explain_recursively(kubectl: Kubectl) -> None:
    tree = kubectl("explain", "pods", "--recursive")
    assert {"lastState", "<IntOrString>", "<Quantity>"} <= set(tree.split())


def test_api_resources(any_kubectl: Kubectl) -> None:
    rows = [line.split() for line in any_kubectl("api-resources", "--no-headers").splitlines()]
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["widgets", "wdg", "contract.volcanoio.dev/v1", "true", "Widget"] in rows
    assert "pods" in any_kubectl("api-resources", "--categories=all", "-o", "name").split()


def test_api_versions(any_kubectl: Kubectl) -> None:
    assert {"v1", "apps/v1", "events.k8s.io/v1", "contract.volcanoio.dev/v1"} <= set(
        any_kubectl("api-versions").split()
    )


def test_version(any_kubectl: Kubectl) -> None:
    assert json.loads(any_kubectl("version", "-o", "json"))["serverVersion"]["major"] == "1"


def test_cluster_info(any_kubectl: Kubectl) -> None:
    assert "is running at" in any_kubectl("cluster-info")


def test_auth(any_kubectl: Kubectl) -> None:
    assert any_kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert "*.*" in any_kubectl("auth", "can-i", "--list")


def test_auth_whoami(any_kubectl: Kubectl) -> None:
    if any_kubectl.minor < 28:
        assert "not enabled in the cluster" in any_kubectl.run("auth", "whoami").err, "it asks for a beta version"
        return
    assert "system:masters" in any_kubectl("auth", "whoami")


def test_wait_for_a_condition(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    assert "condition met" in any_kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")


def test_wait_for_a_value_and_the_end(any_kubectl: Kubectl, namespace: Namespace) -> None:
    any_kubectl("create", "-f", "-", manifest=widget("gear"))
    path = f"/apis/contract.volcanoio.dev/v1/namespaces/{namespace.name}/widgets/gear"
    with any_kubectl.following(
        "wait", "--for=jsonpath={.status.phase}=Ready", f"{WIDGETS}/gear", "--timeout=60s"
    ) as lines:
        namespace.cluster.patch(f"{path}/status", {"status": {"phase": "Ready"}}).ok()
        assert "condition met" in next(lines)
    with any_kubectl.following("wait", "--for=delete", f"{WIDGETS}/gear", "--timeout=60s") as lines:
        namespace.cluster.delete(path).ok()
        assert "condition met" in next(lines, "condition met"), "older versions say nothing when it is gone already"


def test_wait_for_the_beginning(any_kubectl: Kubectl, namespace: Namespace) -> None:
    if any_kubectl.minor < 31:
        pytest.skip("--for=create is of 1.31")
    with any_kubectl.following("wait", "--for=create", "cm/late", "--timeout=60s") as lines:
        namespace.config_map("late")
        assert "condition met" in next(lines)


def test_wait_times_out(kubectl: Kubectl) -> None:
    ran = kubectl.run("wait", "--for=condition=Never", "ns/default", "--timeout=1s")
    assert ran.code == 1
    assert "timed out" in ran.err


@simulated_logs
def test_logs(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    assert any_kubectl("logs", "web") == "line 1\nline 2\nline 3\n"
    assert any_kubectl("logs", "web", "-c", "main", "--tail=1", "--timestamps") == "2026-01-01T00:00:03Z line 3\n"


@simulated_logs
def test_logs_that_go_on(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    with any_kubectl.following("logs", "-f", "web") as lines:
        assert [next(lines) for _ in range(4)] == ["line 1", "line 2", "line 3", "line 4"]


@simulated_logs
def test_logs_that_cannot_be_shown(kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.cluster.patch(namespace.path("pods", running(namespace, "web")["metadata"]["name"]), {})
    labelled = {"metadata": {"labels": {"app": "web"}}}
    namespace.cluster.patch(namespace.path("pods", "web"), labelled).ok()
    assert kubectl("logs", "-l", "app=web", "--tail=1") == "line 3\n"
    assert kubectl("logs", "web", "--since-time=2026-01-01T00:00:03Z") == "line 3\n"
    assert "previous terminated container" in kubectl.run("logs", "web", "--previous").err
    namespace.pod("waiting")
    ran = kubectl.run("logs", "waiting")
    assert ran.code == 1
    assert "waiting to start" in ran.err


@pytest.mark.skipif(FOREIGN in os.environ, reason="a real cluster of ours has no metrics-server")
def test_top(any_kubectl: Kubectl, namespace: Namespace, cluster: Cluster) -> None:
    node = unique("node")
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    cluster.create("/api/v1/nodes", {"metadata": {"name": node}}).ok()
    ready = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.patch(f"/api/v1/nodes/{node}/status", {"status": ready}).ok()
    running(namespace, "web", node)
    assert any_kubectl("top", "pods", "--no-headers").split()[0] == "web"
    assert any_kubectl("top", "node", node, "--no-headers").split()[0] == node
    cluster.delete(f"/api/v1/nodes/{node}").ok()


def test_diff(any_kubectl: Kubectl) -> None:
    any_kubectl("apply", "-f", "-", manifest=config_map("a", key="1"))
    ran = any_kubectl.run("diff", "-f", "-", manifest=config_map("a", key="2"))
    assert ran.code == 1
    assert '+  key: "2"' in ran.out
