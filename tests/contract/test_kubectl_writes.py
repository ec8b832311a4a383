"""What kubectl writes: one test per verb and version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.kubectls import USED, Kubectl, running
from tests.contract.support import Cluster, Namespace, Obj, config_map, pod, unique
from tests.contract.widgets import GROUP, PLURAL, WIDGETS, widget

pytestmark = USED


def idle(kind: str, name: str) -> Obj:
    """A workload of no pods."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


SINGULAR = f"widget.{GROUP}"
DEPLOYMENTS = "deployments.v1.apps"


def stored(namespace: Namespace, plural: str, name: str) -> Obj:
    """An object as the server has it: a kubectl that reads it would prove nothing more."""
    return namespace.cluster.get(namespace.path(plural, name)).ok()


def names(namespace: Namespace, plural: str) -> list[str]:
    """The names of a kind's objects."""
    return [one["metadata"]["name"] for one in namespace.cluster.get(namespace.path(plural)).ok()["items"]]


def image(namespace: Namespace) -> str:
    """The image of the Deployment `web`."""
    found: str = stored(namespace, DEPLOYMENTS, "web")["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


def test_create(any_kubectl: Kubectl) -> None:
    both = yaml.safe_dump_all([config_map("a"), widget("gear")])
    assert any_kubectl("create", "-f", "-", manifest=both) == f"configmap/a created\n{SINGULAR}/gear created\n"
    assert "already exists" in any_kubectl.run("create", "-f", "-", manifest=config_map("a")).err


def test_create_refuses_invalid_objects(kubectl: Kubectl) -> None:
    ran = kubectl.run("create", "-f", "-", manifest=pod("p", priorityClass="high"))
    assert ran.code == 1
    assert 'unknown field "spec.priorityClass"' in ran.err
    ran = kubectl.run("create", "-f", "-", manifest=widget("w", size=0))
    assert ran.code == 1
    assert "spec.size" in ran.err


def test_create_from_a_generated_name(kubectl: Kubectl) -> None:
    manifest = config_map("")
    manifest["metadata"] = {"generateName": "a-"}
    assert kubectl("create", "-f", "-", "-o", "name", manifest=manifest).startswith("configmap/a-")


def test_apply(any_kubectl: Kubectl, namespace: Namespace) -> None:
    manifest = config_map("a", {"x": "1"}, key="1")
    assert any_kubectl("apply", "-f", "-", manifest=manifest) == "configmap/a created\n"
    assert any_kubectl("apply", "-f", "-", manifest=manifest) == "configmap/a unchanged\n"
    changed = config_map("a", {"x": "1"}, other="2")
    assert any_kubectl("apply", "-f", "-", manifest=changed) == "configmap/a configured\n"
    assert stored(namespace, "configmaps", "a")["data"] == {"other": "2"}


def test_apply_to_custom_resources(kubectl: Kubectl, namespace: Namespace) -> None:
    kubectl("apply", "-f", "-", manifest=widget("gear", parts=["a", "b"]))
    assert kubectl("apply", "-f", "-", manifest=widget("gear", parts=["c"])).endswith("configured\n")
    assert stored(namespace, PLURAL, "gear")["spec"] == {"size": 1, "color": "red", "parts": ["c"]}


def test_apply_merges_lists_by_key(any_kubectl: Kubectl, namespace: Namespace) -> None:
    manifest = pod("p")
    any_kubectl("apply", "-f", "-", manifest=manifest)
    manifest["spec"]["containers"][0]["image"] = "alpine"
    assert any_kubectl("apply", "-f", "-", manifest=manifest) == "pod/p configured\n"
    assert [one["image"] for one in stored(namespace, "pods", "p")["spec"]["containers"]] == ["alpine"]


def test_apply_server_side(any_kubectl: Kubectl, namespace: Namespace) -> None:
    applied = ("apply", "--server-side", "-f", "-")
    assert any_kubectl(*applied, manifest=config_map("a", key="1")) == "configmap/a serverside-applied\n"
    any_kubectl("patch", "cm", "a", "-p", '{"data":{"key":"2"}}', "--field-manager=somebody")
    ran = any_kubectl.run(*applied, manifest=config_map("a", key="3"))
    assert ran.code == 1
    assert 'conflict with "somebody"' in ran.err
    any_kubectl(*applied, "--force-conflicts", manifest=config_map("a", key="3"))
    now = stored(namespace, "configmaps", "a")
    assert now["data"] == {"key": "3"}
    assert "somebody" not in [one["manager"] for one in now["metadata"]["managedFields"]]


def test_apply_server_side_to_custom_resources(kubectl: Kubectl, namespace: Namespace) -> None:
    kubectl("apply", "-f", "-", manifest=widget("gear", parts=["a"]))
    applied = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    assert kubectl(*applied, manifest=widget("gear", parts=["b"])).endswith("serverside-applied\n")
    assert stored(namespace, PLURAL, "gear")["spec"]["parts"] == ["b"]


def test_apply_and_prune(kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.config_map("keep")
    both = yaml.safe_dump_all([config_map("a", {"app": "x"}), config_map("b", {"app": "x"})])
    pruned = ("apply", "--prune", "-l", "app=x", "--prune-allowlist=core/v1/ConfigMap", "-f", "-")
    kubectl(*pruned, manifest=both)
    assert "configmap/b pruned" in kubectl(*pruned, manifest=config_map("a", {"app": "x"}))
    assert {"a", "keep"} <= set(names(namespace, "configmaps"))


def test_dry_runs(any_kubectl: Kubectl, namespace: Namespace) -> None:
    any_kubectl("apply", "-f", "-", manifest=config_map("a", key="1"))
    changed = config_map("a", key="2")
    assert "server dry run" in any_kubectl("apply", "--dry-run=server", "-f", "-", manifest=changed)
    assert "server dry run" in any_kubectl("delete", "cm", "a", "--dry-run=server")
    assert stored(namespace, "configmaps", "a")["data"] == {"key": "1"}


def test_edit(any_kubectl: Kubectl, namespace: Namespace, tmp_path: Path) -> None:
    namespace.config_map("a", key="before")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/before/after/" "$1"\n')
    editor.chmod(0o700)
    edited = any_kubectl("edit", "cm", "a", environment={"EDITOR": str(editor), "TMPDIR": str(tmp_path)})
    assert edited == "configmap/a edited\n"
    assert stored(namespace, "configmaps", "a")["data"] == {"key": "after"}


def test_replace(any_kubectl: Kubectl, namespace: Namespace) -> None:
    made = namespace.cluster.create(namespace.path(PLURAL), widget("gear")).ok()
    made["spec"]["size"] = 6
    assert any_kubectl("replace", "-f", "-", manifest=made).endswith("replaced\n")
    assert stored(namespace, PLURAL, "gear")["spec"]["size"] == 6
    ran = any_kubectl.run("replace", "-f", "-", manifest=made | {"metadata": {**made["metadata"], "uid": "other"}})
    assert "Conflict" in ran.err


def test_replace_by_force(kubectl: Kubectl, namespace: Namespace) -> None:
    before = namespace.config_map("a")["metadata"]["uid"]
    kubectl("replace", "--force", "-f", "-", manifest=config_map("a", key="2"))
    assert stored(namespace, "configmaps", "a")["metadata"]["uid"] != before


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("merge", '{"spec":{"size":5}}'),
        ("json", '[{"op":"replace","path":"/spec/size","value":5}]'),
    ],
)
def test_patch_custom_resources(kubectl: Kubectl, namespace: Namespace, kind: str, change: str) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("gear")).ok()
    kubectl("patch", WIDGETS, "gear", f"--type={kind}", "-p", change)
    assert stored(namespace, PLURAL, "gear")["spec"]["size"] == 5


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("merge", '{"data":{"key":"2"}}'),
        ("json", '[{"op":"replace","path":"/data/key","value":"2"}]'),
        ("strategic", '{"data":{"key":"2"}}'),
    ],
)
def test_patch(any_kubectl: Kubectl, namespace: Namespace, kind: str, change: str) -> None:
    namespace.config_map("a", key="1")
    patched = any_kubectl("patch", "cm", "a", f"--type={kind}", "-p", change, "-o", "jsonpath={.data.key}")
    assert patched == "2"


def test_patch_strategic_is_for_builtin_kinds(kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.pod("p")
    kubectl("patch", "pod", "p", "-p", '{"spec":{"containers":[{"name":"main","image":"alpine"}]}}')
    assert stored(namespace, "pods", "p")["spec"]["containers"][0]["image"] == "alpine"
    namespace.cluster.create(namespace.path(PLURAL), widget("gear")).ok()
    assert kubectl.run("patch", WIDGETS, "gear", "--type=strategic", "-p", '{"spec":{"size":5}}').code == 1


def test_patch_a_subresource(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.pod("p")
    failed = ("--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}')
    any_kubectl("patch", "pod", "p", *failed)
    assert stored(namespace, "pods", "p")["status"]["phase"] == "Failed"


def test_label(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.config_map("a", {"x": "1"})
    assert any_kubectl("label", "cm", "a", "y=2", "x-") == "configmap/a labeled\n"
    assert any_kubectl.run("label", "cm", "a", "y=3").code == 1
    any_kubectl("label", "cm", "a", "y=3", "--overwrite")
    assert stored(namespace, "configmaps", "a")["metadata"]["labels"] == {"y": "3"}


def test_annotate(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.config_map("a")
    assert any_kubectl("annotate", "cm", "a", "note=hello").startswith("configmap/a annotate")
    assert stored(namespace, "configmaps", "a")["metadata"]["annotations"]["note"] == "hello"


def test_scale(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("gear")).ok()
    any_kubectl("scale", WIDGETS, "gear", "--replicas=4")
    assert stored(namespace, PLURAL, "gear")["spec"]["size"] == 4
    assert any_kubectl.run("scale", WIDGETS, "gear", "--current-replicas=1", "--replicas=2").code == 1


def test_set_image(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(DEPLOYMENTS), idle("Deployment", "web")).ok()
    assert any_kubectl("set", "image", "deploy/web", "main=alpine") == "deployment.apps/web image updated\n"
    assert image(namespace) == "alpine"


def test_rollout(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(DEPLOYMENTS), idle("Deployment", "web")).ok()
    assert any_kubectl("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    assert "successfully rolled out" in any_kubectl("rollout", "status", "deploy/web", "--timeout=60s")
    assert "REVISION" in any_kubectl("rollout", "history", "deploy/web")


def test_rollout_undo(kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(DEPLOYMENTS), idle("Deployment", "web")).ok()
    kubectl("rollout", "status", "deploy/web", "--timeout=60s")
    kubectl("set", "image", "deploy/web", "main=alpine")
    kubectl("rollout", "status", "deploy/web", "--timeout=60s")
    assert "rolled back" in kubectl("rollout", "undo", "deploy/web")
    assert image(namespace) == "busybox"


def test_run(any_kubectl: Kubectl, namespace: Namespace) -> None:
    overrides = json.dumps({"spec": {"schedulerName": "contract-tests"}})
    ran = any_kubectl("run", "web", "--image=busybox", "--port=80", f"--overrides={overrides}", "--", "sleep", "60")
    assert ran == "pod/web created\n"
    assert stored(namespace, "pods", "web")["spec"]["containers"][0]["args"] == ["sleep", "60"]


def test_expose(any_kubectl: Kubectl, namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(DEPLOYMENTS), idle("Deployment", "web")).ok()
    assert any_kubectl("expose", "deploy/web", "--port=80") == "service/web exposed\n"
    assert stored(namespace, "services", "web")["spec"]["selector"] == {"app": "web"}


def test_delete(any_kubectl: Kubectl, namespace: Namespace) -> None:
    for name in ("a", "b", "c"):
        namespace.config_map(name, {"mine": "yes"} if name != "c" else None)
    assert any_kubectl("delete", "cm", "a").startswith('configmap "a" deleted')
    assert any_kubectl("delete", "cm", "-l", "mine=yes").count("deleted") == 1
    assert any_kubectl("delete", "cm", "absent", "--ignore-not-found") == ""
    assert any_kubectl.run("delete", "cm", "absent").code == 1
    any_kubectl("delete", "cm", "c", "--now", "--timeout=60s")


def test_delete_all(any_kubectl: Kubectl, namespace: Namespace) -> None:
    for name in ("a", "b"):
        namespace.cluster.create(namespace.path(PLURAL), widget(name)).ok()
    assert any_kubectl("delete", WIDGETS, "--all", "--timeout=60s").count("deleted") == 2
    assert names(namespace, PLURAL) == []


def test_delete_with_grace(any_kubectl: Kubectl, namespace: Namespace) -> None:
    running(namespace, "web")
    assert "deleted" in any_kubectl("delete", "pod", "web", "--wait=false")
    assert any_kubectl("get", "pods").splitlines()[1].split()[2] == "Terminating"
    any_kubectl("delete", "pod", "web", "--grace-period=0", "--force", "--timeout=60s")
    assert names(namespace, "pods") == []


@pytest.mark.parametrize(("cascade", "left"), [("orphan", True), ("foreground", False)])
def test_delete_with_dependents(kubectl: Kubectl, namespace: Namespace, cascade: str, left: bool) -> None:
    uid = namespace.config_map("owner")["metadata"]["uid"]
    child = config_map("child")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    child["metadata"]["ownerReferences"] = [owner]
    namespace.cluster.create(namespace.path("configmaps"), child).ok()
    kubectl("delete", "cm", "owner", f"--cascade={cascade}", "--timeout=60s")
    assert ("child" in names(namespace, "configmaps")) == left


@pytest.fixture
def node(cluster: Cluster) -> Any:
    """A node of the test's own."""
    name = unique("node")
    cluster.create("/api/v1/nodes", {"metadata": {"name": name}}).ok()
    yield name
    cluster.delete(f"/api/v1/nodes/{name}")


def spec_of(cluster: Cluster, node: str) -> Obj:
    """The spec of a node."""
    found: Obj = cluster.get(f"/api/v1/nodes/{node}").ok()["spec"]
    return found


def test_taint(any_kubectl: Kubectl, cluster: Cluster, node: str) -> None:
    assert any_kubectl("taint", "node", node, "a=b:NoSchedule") == f"node/{node} tainted\n"
    assert {"key": "a", "value": "b", "effect": "NoSchedule"} in spec_of(cluster, node)["taints"]
    assert any_kubectl("taint", "node", node, "a-") == f"node/{node} untainted\n"


def test_cordon_and_uncordon(any_kubectl: Kubectl, cluster: Cluster, node: str) -> None:
    assert any_kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert spec_of(cluster, node)["unschedulable"] is True
    assert any_kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert "unschedulable" not in spec_of(cluster, node)


def test_drain(any_kubectl: Kubectl, namespace: Namespace, node: str) -> None:
    running(namespace, "web", node, terminationGracePeriodSeconds=0)
    drained = any_kubectl("drain", node, "--force", "--grace-period=0", "--timeout=60s")
    assert "pod/web evicted" in drained
    assert drained.endswith(f"node/{node} drained\n")
    assert names(namespace, "pods") == []
