"""An unmodified kubectl: a round of the everyday verbs with every version found, and each verb with one of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.contract.kubectls import Kubectl, installed
from tests.contract.support import FOREIGN, Cluster, Namespace, Obj, config_map, pod, unique
from tests.contract.widgets import widget

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not installed(), reason="no kubectl on this machine; set KUBECTL to the path of one"),
    pytest.mark.skipif(FOREIGN in os.environ, reason="needs the embedded server's log source"),
]


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


def login(name: str, namespace: Namespace, homes: Path) -> Kubectl:
    """Each binary keeps one home, so that discovery is cached as it is for a user."""
    home = homes / name
    home.mkdir(exist_ok=True)
    return Kubectl(installed()[name], namespace.cluster.kubeconfig, home, namespace.name)


@pytest.fixture(params=sorted(installed()))
def any_kubectl(request: pytest.FixtureRequest, namespace: Namespace, homes: Path) -> Kubectl:
    return login(request.param, namespace, homes)


@pytest.fixture
def kubectl(namespace: Namespace, homes: Path) -> Kubectl:
    """The newest versioned kubectl, or the one that $KUBECTL names."""
    names = sorted(installed())
    return login("KUBECTL" if "KUBECTL" in names else names[-1], namespace, homes)


def running(namespace: Namespace, name: str, **spec: Any) -> Obj:
    """A pod that looks as if a node ran it."""
    namespace.pod(name, **spec)
    namespace.bind(name, "node-1").ok()
    started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "phase": "Running",
        "podIP": "10.244.0.7",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "main", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0, "state": started}
        ],
    }
    return namespace.cluster.patch(namespace.path("pods", name, "status"), {"status": status}).ok()


def test_everyday_verbs_with_every_version(any_kubectl: Kubectl, namespace: Namespace) -> None:
    kubectl = any_kubectl
    manifest = config_map("settings", key="1")
    assert kubectl("apply", "-f", "-", manifest=manifest) == "configmap/settings created\n"
    assert kubectl("apply", "-f", "-", manifest=manifest) == "configmap/settings unchanged\n"
    manifest["data"]["key"] = "2"
    assert kubectl("apply", "-f", "-", manifest=manifest) == "configmap/settings configured\n"
    assert kubectl("create", "-f", "-", manifest=widget("gear", size=2)).endswith("/gear created\n")
    assert kubectl("get", "wdg").splitlines()[1].split()[:2] == ["gear", "2"]
    assert "How large the widget is." in kubectl("explain", "widget.spec")
    running(namespace, "web")
    assert kubectl("get", "pods").splitlines()[1].split()[:4] == ["web", "1/1", "Running", "0"]
    assert kubectl("logs", "web", "--tail=1") == "line 3\n"
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=10s")
    assert kubectl("label", "wdg/gear", "team=blue") == f"{_kind(kubectl)}/gear labeled\n"
    assert "deleted" in kubectl("delete", "wdg", "gear", "--timeout=10s")
    assert kubectl("get", "wdg", "-o", "name") == ""


def _kind(kubectl: Kubectl) -> str:
    return kubectl("get", "wdg", "-o", "name").partition("/")[0]


def test_get_in_every_form(kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    wide = kubectl("get", "pods", "-o", "wide").splitlines()
    assert wide[0].split()[-6:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert wide[1].split()[-4:] == ["10.244.0.7", "node-1", "<none>", "<none>"]
    assert kubectl("get", "pod/web", "-o", "name") == "pod/web\n"
    assert "phase: Running" in kubectl("get", "pod", "web", "-o", "yaml")
    assert json.loads(kubectl("get", "pods", "-o", "json"))["items"][0]["metadata"]["name"] == "web"
    assert kubectl("get", "pods", "-o", "jsonpath={.items[*].status.podIP}") == "10.244.0.7"
    assert kubectl("get", "pods", "--no-headers", "-o", "custom-columns=N:.metadata.name").strip() == "web"
    assert kubectl("get", "pods", "--sort-by=.metadata.name", "-l", "!none").splitlines()[1].startswith("web")
    assert kubectl("get", "pods", "--field-selector=spec.nodeName=node-1", "-A", "-o", "name").count("pod/web") >= 1
    assert kubectl("get", "all").splitlines()[1].startswith("pod/web")


def test_get_what_is_absent(kubectl: Kubectl) -> None:
    ran = kubectl.run("get", "pod", "absent")
    assert (ran.code, ran.err) == (1, 'Error from server (NotFound): pods "absent" not found\n')
    assert "No resources found" in kubectl.run("get", "pods").err
    assert 'the server doesn\'t have a resource type "nonsense"' in kubectl.run("get", "nonsense").err


def test_get_watch(kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    with kubectl.following("get", "pods", "-w") as lines:
        assert next(lines).split()[0] == "NAME"
        assert next(lines).split()[:3] == ["web", "1/1", "Running"]
        namespace.cluster.delete(namespace.path("pods", "web")).ok()
        assert next(lines).split()[:3] == ["web", "1/1", "Terminating"]


def test_describe_pod_and_node(kubectl: Kubectl, namespace: Namespace) -> None:
    stored = running(namespace, "web")
    involved = {"kind": "Pod", "namespace": namespace.name, "name": "web", "uid": stored["metadata"]["uid"]}
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": involved,
        "reason": "Started",
        "message": "Started container main",
        "type": "Normal",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    namespace.cluster.create(namespace.path("events"), event).ok()
    described = kubectl("describe", "pod", "web")
    assert "node-1" in described
    assert "Started container main" in described
    node = unique("node")
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    namespace.cluster.create("/api/v1/nodes", {"metadata": {"name": node}}).ok()
    status = {"status": {"capacity": capacity, "allocatable": capacity}}
    namespace.cluster.patch(f"/api/v1/nodes/{node}/status", status).ok()
    assert "32Gi" in kubectl("describe", "node", node)
    assert kubectl("get", "node", node).splitlines()[1].split()[:2] == [node, "Unknown"]
    namespace.cluster.delete(f"/api/v1/nodes/{node}").ok()


def test_events(kubectl: Kubectl, namespace: Namespace) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": namespace.name, "name": "web"},
        "reason": "FailedScheduling",
        "message": "no room",
        "type": "Warning",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    namespace.cluster.create(namespace.path("events"), event).ok()
    line = kubectl("get", "events").splitlines()[1]
    assert line.split()[1:] == ["Warning", "FailedScheduling", "pod/web", "no", "room"]
    assert "FailedScheduling" in kubectl("events")


def test_create_refuses_what_is_wrong(kubectl: Kubectl) -> None:
    ran = kubectl.run("create", "-f", "-", manifest=pod("p", priorityClass="high"))
    assert ran.code == 1
    assert 'unknown field "spec.priorityClass"' in ran.err
    ran = kubectl.run("create", "-f", "-", manifest=widget("w", size=0))
    assert ran.code == 1
    assert "spec.size" in ran.err
    kubectl("create", "-f", "-", manifest=config_map("a"))
    assert "already exists" in kubectl.run("create", "-f", "-", manifest=config_map("a")).err


def test_apply_to_custom_resources(kubectl: Kubectl, namespace: Namespace) -> None:
    kubectl("apply", "-f", "-", manifest=widget("gear", parts=["a", "b"]))
    assert kubectl("apply", "-f", "-", manifest=widget("gear", parts=["c"])).endswith("configured\n")
    stored = json.loads(kubectl("get", "wdg", "gear", "-o", "json"))
    assert stored["spec"] == {"size": 1, "color": "red", "parts": ["c"]}
    assert kubectl("apply", "-f", "-", manifest=widget("gear", parts=["c"])).endswith("unchanged\n")


def test_apply_to_pods_merges_by_key(kubectl: Kubectl) -> None:
    manifest = pod("p")
    kubectl("apply", "-f", "-", manifest=manifest)
    manifest["spec"]["containers"][0]["image"] = "alpine"
    assert kubectl("apply", "-f", "-", manifest=manifest) == "pod/p configured\n"
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.spec.containers[*].image}") == "alpine"


def test_dry_run_and_diff(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=config_map("a", key="1"))
    changed = config_map("a", key="2")
    assert "server dry run" in kubectl("apply", "--dry-run=server", "-f", "-", manifest=changed)
    ran = kubectl.run("diff", "-f", "-", manifest=changed)
    assert ran.code == 1
    assert '+  key: "2"' in ran.out
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.key}") == "1"
    assert "server dry run" in kubectl("delete", "cm", "a", "--dry-run=server")
    assert kubectl("get", "cm", "a", "-o", "name") == "configmap/a\n"


def test_delete(kubectl: Kubectl, namespace: Namespace) -> None:
    for name in ("a", "b", "c"):
        namespace.config_map(name, {"mine": "yes"} if name != "c" else None)
    assert kubectl("delete", "cm", "a").startswith('configmap "a" deleted')
    assert kubectl("delete", "cm", "-l", "mine=yes").count("deleted") == 1
    assert kubectl("delete", "cm", "absent", "--ignore-not-found") == ""
    running(namespace, "web")
    assert "deleted" in kubectl("delete", "pod", "web", "--wait=false")
    assert kubectl("get", "pods").splitlines()[1].split()[2] == "Terminating"
    kubectl("delete", "pod", "web", "--grace-period=0", "--force", "--timeout=10s")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("delete", "cm", "--all", "--timeout=10s")


def test_wait(kubectl: Kubectl, namespace: Namespace) -> None:
    kubectl("create", "-f", "-", manifest=widget("gear"))
    with kubectl.following("wait", "--for=jsonpath={.status.phase}=Ready", "wdg/gear", "--timeout=20s") as lines:
        status = {"status": {"phase": "Ready", "conditions": [{"type": "Done", "status": "True"}]}}
        path = f"/apis/contract.volcanoio.dev/v1/namespaces/{namespace.name}/widgets/gear"
        namespace.cluster.patch(f"{path}/status", status).ok()
        assert "condition met" in next(lines)
    assert "condition met" in kubectl("wait", "--for=condition=Done", "wdg/gear", "--timeout=10s")
    with kubectl.following("wait", "--for=delete", "wdg/gear", "--timeout=20s") as lines:
        namespace.cluster.delete(path).ok()
        assert "condition met" in next(lines, "condition met"), "older versions say nothing when it is gone already"
    ran = kubectl.run("wait", "--for=condition=Never", "ns/default", "--timeout=1s")
    assert ran.code == 1
    assert "timed out" in ran.err


def test_logs(kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    assert kubectl("logs", "web") == "line 1\nline 2\nline 3\n"
    assert kubectl("logs", "web", "-c", "main", "--tail=2") == "line 2\nline 3\n"
    assert kubectl("logs", "web", "--timestamps", "--tail=1").startswith("2026-01-01T00:00:03Z line 3")
    with kubectl.following("logs", "-f", "web") as lines:
        assert [next(lines) for _ in range(4)] == ["line 1", "line 2", "line 3", "line 4"]
    ran = kubectl.run("logs", "web", "--previous")
    assert "previous terminated container" in ran.err
    namespace.pod("waiting")
    ran = kubectl.run("logs", "waiting")
    assert ran.code == 1
    assert "waiting to start" in ran.err


def test_label_and_annotate(kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.config_map("a")
    kubectl("label", "cm", "a", "x=1", "y=2")
    kubectl("label", "cm", "a", "x-")
    kubectl("annotate", "cm", "a", "note=hello")
    assert kubectl.run("label", "cm", "a", "y=3").code == 1, "not without --overwrite"
    assert kubectl("get", "cm", "-l", "y=2,!x", "-L", "y", "--no-headers").split()[-1] == "2"
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.metadata.annotations.note}") == "hello"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("merge", '{"spec":{"size":5}}'),
        ("json", '[{"op":"replace","path":"/spec/size","value":5}]'),
    ],
)
def test_patch_kinds(kubectl: Kubectl, kind: str, change: str) -> None:
    kubectl("create", "-f", "-", manifest=widget("gear"))
    kubectl("patch", "wdg", "gear", f"--type={kind}", "-p", change)
    assert kubectl("get", "wdg", "gear", "-o", "jsonpath={.spec.size}") == "5"


def test_patch_strategic_and_status(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", manifest=pod("p"))
    change = '{"spec":{"containers":[{"name":"main","image":"alpine"}]}}'
    kubectl("patch", "pod", "p", "-p", change)
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.spec.containers[0].image}") == "alpine"
    kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}')
    assert kubectl("get", "pods").splitlines()[1].split()[2] == "Failed"
    kubectl("create", "-f", "-", manifest=widget("gear"))
    ran = kubectl.run("patch", "wdg", "gear", "--type=strategic", "-p", '{"spec":{"size":5}}')
    assert ran.code == 1


def test_replace_scale_and_edit_by_set(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", manifest=widget("gear"))
    kubectl("scale", "wdg", "gear", "--replicas=4")
    assert kubectl("get", "wdg", "gear", "-o", "jsonpath={.spec.size}") == "4"
    stored = json.loads(kubectl("get", "wdg", "gear", "-o", "json"))
    stored["spec"]["size"] = 6
    assert kubectl("replace", "-f", "-", manifest=stored).endswith("replaced\n")
    assert kubectl("get", "wdg", "gear", "-o", "jsonpath={.spec.size}") == "6"


def test_discovery(kubectl: Kubectl, cluster: Cluster) -> None:
    resources = kubectl("api-resources", "--no-headers").splitlines()
    by_name = {line.split()[0]: line.split() for line in resources}
    assert by_name["pods"] == ["pods", "po", "v1", "true", "Pod"]
    assert by_name["widgets"][1:3] == ["wdg", "contract.volcanoio.dev/v1"]
    assert "contract.volcanoio.dev/v1" in kubectl("api-versions").splitlines()
    assert json.loads(kubectl("version", "-o", "json"))["serverVersion"]["major"] == "1"
    assert "is running at" in kubectl("cluster-info")


def test_explain(kubectl: Kubectl) -> None:
    spec = kubectl("explain", "widget.spec")
    assert "How large the widget is." in spec
    assert "-required-" in spec
    containers = kubectl("explain", "pod.spec.containers")
    assert "imagePullPolicy" in containers
    assert "lastState" in kubectl("explain", "pods", "--recursive")


def test_who_may_do_what(any_kubectl: Kubectl) -> None:
    assert any_kubectl("auth", "can-i", "create", "pods").strip() == "yes"
