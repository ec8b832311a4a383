"""What a cluster with Volcano has before volcanoio comes: definitions, a release or a file, objects, pods.

Volcano's own programs are not here: pods of its Deployments are gated and never start, and objects and pods of Jobs are
written as its controllers write them.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.contract.support import Cluster
from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.installation import ROOT
from tests.unit.compose.older_definitions import older
from volcanoio.compose.definitions import crd_manifests

IMAGE = "docker.io/volcanosh/vc-{}:v1.12.0"
KEPT = {"commands.bus.volcano.sh", "queues.scheduling.volcano.sh"}
"""Definitions that ours may not replace."""
_BATCH, _SCHEDULING = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"
_PROGRAMS = {
    "scheduler": ("volcano-scheduler", "volcano-scheduler", "scheduler"),
    "controllers": ("volcano-controller", "volcano-controllers", "controller-manager"),
    "admission": ("volcano-admission", "admission", "webhook-manager"),
}
"""The label `app`, the container and the image of each Deployment."""
_VALUES = """
basic:
  image_registry: docker.io
  scheduler_image_name: volcanosh/vc-scheduler
  controller_image_name: volcanosh/vc-controller-manager
  admission_image_name: volcanosh/vc-webhook-manager
  image_tag_version: v1.12.0
custom: {scheduler_schedule_period: 1s, leader_elect_enable: false}
"""
_DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: volcano-{name}, namespace: volcano-system, labels: {{app: {app}}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {app}}}}}
  template:
    metadata: {{labels: {{app: {app}}}}}
    spec:
      schedulingGates: [{{name: example.com/not-started}}]
      containers:
      - name: {container}
        image: {image}
        args: [--logtostderr, -v=3, 2>&1]
        imagePullPolicy: Always
        volumeMounts: [{{name: klog-sock, mountPath: /tmp/klog-socks}}]
      volumes: [{{name: klog-sock, emptyDir: {{}}}}]
"""
_OTHERS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins:
      - name: priority
      - name: gang
    - plugins:
      - name: predicates
      - name: proportion
      - name: nodeorder
---
apiVersion: v1
kind: Service
metadata: {name: volcano-admission-service, namespace: volcano-system, labels: {app: volcano-admission}}
spec: {ports: [{port: 443, targetPort: 8443}], selector: {app: volcano-admission}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: volcano-admission-service-jobs-mutate}
webhooks:
- {name: mutatejob.volcano.sh, sideEffects: NoneOnDryRun, admissionReviewVersions: [v1], failurePolicy: Fail,
   clientConfig: {service: {name: volcano-admission-service, namespace: volcano-system, path: /jobs/mutate}},
   namespaceSelector: {matchLabels: {volcano-answers: "yes"}},
   rules: [{apiGroups: [batch.volcano.sh], apiVersions: [v1alpha1], operations: [CREATE], resources: [jobs]}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: volcano-admission-service-jobs-validate}
webhooks:
- {name: validatejob.volcano.sh, sideEffects: NoneOnDryRun, admissionReviewVersions: [v1], failurePolicy: Fail,
   clientConfig: {service: {name: volcano-admission-service, namespace: volcano-system, path: /jobs/validate}},
   namespaceSelector: {matchLabels: {volcano-answers: "yes"}},
   rules: [{apiGroups: [batch.volcano.sh], apiVersions: [v1alpha1], operations: [CREATE], resources: [jobs]}]}
"""


def definitions() -> list[Obj]:
    """Return older definitions of Volcano's names; those in KEPT accept fields that ours do not have."""
    found = {one["metadata"]["name"]: older(one) for one in crd_manifests()}

    def schema(name: str) -> Obj:
        result: Obj = found[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return result

    schema("commands.bus.volcano.sh").clear()
    schema("commands.bus.volcano.sh").update({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    schema("queues.scheduling.volcano.sh")["properties"]["spec"]["properties"]["costCenter"] = {"type": "string"}
    del schema("podgroups.scheduling.volcano.sh")["properties"]["spec"]["properties"]["subGroupPolicy"]
    return list(found.values())


def components() -> str:
    """Return Deployments, configuration, Service and webhook configurations as a YAML stream."""
    texts = [
        _DEPLOYMENT.format(name=name, app=app, container=container, image=IMAGE.format(image))
        for name, (app, container, image) in _PROGRAMS.items()
    ]
    return "---".join([*texts, _OTHERS])


def write_file(path: Path) -> None:
    """Write what `kubectl apply` installs: namespace, definitions and components in one file."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}
    path.write_text(f"{yaml.safe_dump_all([namespace, *definitions()])}---{components()}")


def write_chart(directory: Path) -> None:
    """Write a chart with the definitions among its templates, as Volcano's has them, and a file of a user's values."""
    (directory / "templates").mkdir(parents=True)
    (directory / "crd").mkdir()
    (directory / "Chart.yaml").write_text("{apiVersion: v2, name: volcano, version: 1.12.0, appVersion: 1.12.0}\n")
    (directory / "values.yaml").write_text(_VALUES)
    (directory / "templates" / "components.yaml").write_text(components())
    for one in definitions():
        name = f"{one['metadata']['name']}.yaml"
        (directory / "crd" / name).write_text(yaml.safe_dump(one))
        (directory / "templates" / name).write_text(f'{{{{ .Files.Get "crd/{name}" }}}}\n')
    (directory / "users-values.yaml").write_text(_VALUES)


def template(run_seconds: str) -> Obj:
    """Return a pod template of simulated pods."""
    requests = {"cpu": "1", "memory": "64Mi"}
    return {
        "metadata": {"annotations": {"sim.volcanoio.dev/run-duration": run_seconds}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": requests}}],
        },
    }


def job(name: str, queue: str, *, run_seconds: str = "never", **more: object) -> Obj:
    """Return a Job with fields of many kinds, also some that volcanoio does not act on."""
    task = {
        "name": "worker",
        "replicas": 2,
        "minAvailable": 2,
        "maxRetry": 2,
        "topologyPolicy": "none",
        "policies": [{"events": ["PodFailed"], "action": "RestartJob"}],
        "template": template(run_seconds),
    }
    return {
        "apiVersion": _BATCH,
        "kind": "Job",
        "metadata": {"name": name, "labels": {"team": "a"}, "annotations": {"volcano.sh/preemptable": "true"}},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 2,
            "minSuccess": 1,
            "queue": queue,
            "maxRetry": 5,
            "runningEstimate": "1h30m0s",
            "networkTopology": {"mode": "soft"},
            "policies": [{"event": "PodEvicted", "action": "RestartJob", "timeout": "10m0s"}],
            "plugins": {"env": [], "svc": ["--publish-not-ready-addresses=true"]},
            "tasks": [task],
            **more,
        },
    }


class State:
    """The objects of a namespace as Volcano left them."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self.namespace = cluster, namespace
        self.queue = f"research-{namespace}"
        self._batch = f"/apis/{_BATCH}/namespaces/{namespace}/jobs"
        self._groups = f"/apis/{_SCHEDULING}/namespaces/{namespace}/podgroups"

    def create(self) -> None:
        """Create a queue, a running job, a waiting one, one with a Command, and an object of each other kind."""
        queue = {"weight": 4, "reclaimable": False, "capability": {"cpu": "30"}, "type": "team", "costCenter": "4711"}
        body = {"apiVersion": _SCHEDULING, "kind": "Queue", "metadata": {"name": self.queue}, "spec": queue}
        self._cluster.create(f"/apis/{_SCHEDULING}/queues", body).ok()
        self.running_job("kept")
        self.running_job("aborted")
        self._store(self._batch, job("waiting", self.queue, run_seconds="2s"), {"state": {"phase": "Pending"}})
        for one in yaml.safe_load_all((ROOT / "tests/unit/compose/volcano_objects.yaml").read_text()):
            self._create_other(one)

    def _create_other(self, one: Obj) -> None:
        """Create an object of the kinds that nothing above creates."""
        kind, meta = one["kind"], one["metadata"]
        group = one["apiVersion"].partition("/")[0]
        if kind in {"Job", "Queue", "PodGroup", "Command", "JobFlow"}:
            return
        plural = {"Numatopology": "numatopologies"}.get(kind, f"{kind.lower()}s")
        namespaced = "namespace" in meta or group == "config.volcano.sh"
        where = f"/namespaces/{self.namespace}" if namespaced else ""
        meta = {**meta, **({"namespace": self.namespace} if namespaced else {})}
        self._cluster.create(f"/apis/{one['apiVersion']}{where}/{plural}", {**one, "metadata": meta}).ok()

    def running_job(self, name: str) -> None:
        """Create a Job with its PodGroup and running pods, as Volcano's controllers and scheduler leave them."""
        status = {
            "state": {"phase": "Running", "lastTransitionTime": "2026-01-02T03:04:05Z"},
            "minAvailable": 2,
            "running": 2,
            "version": 3,
            "retryCount": 1,
            "controlledResources": {"plugin-env": "env", "plugin-svc": "svc"},
            "taskStatusCount": {"worker": {"phase": {"Running": 2}}},
        }
        stored = self._store(self._batch, job(name, self.queue), status)
        owner = {"apiVersion": _BATCH, "kind": "Job", "name": name, "uid": stored["metadata"]["uid"]}
        owner["controller"] = True
        group = f"{name}-{owner['uid']}"
        self.group(group, phase="Running", owner=owner, minTaskMember={"worker": 2})
        for index in range(2):
            self._pod(f"{name}-worker-{index}", name, group, owner, index)

    def _pod(self, name: str, job_name: str, group: str, owner: Obj, index: int) -> None:
        of_both = {
            "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": str(index),
            "volcano.sh/job-name": job_name,
            "volcano.sh/queue-name": self.queue,
        }
        pod = template("never")
        annotations = {
            **pod["metadata"]["annotations"],
            **of_both,
            "volcano.sh/job-version": "3",
            "volcano.sh/job-retry-count": "1",
            "volcano.sh/template-uid": f"{job_name}-worker",
            "scheduling.k8s.io/group-name": group,
        }
        labels = {**of_both, "volcano.sh/job-namespace": self.namespace}
        metadata = {"name": name, "ownerReferences": [owner], "annotations": annotations, "labels": labels}
        spec = {**pod["spec"], "schedulerName": "volcano", "nodeName": f"hollow-{index}"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self._cluster.create(f"/api/v1/namespaces/{self.namespace}/pods", body).ok()

    def group(self, name: str, *, phase: str, owner: Obj | None = None, **spec: object) -> Obj:
        """Create a PodGroup of two pods with a status of Volcano's scheduler; returns it."""
        metadata = {"name": name, **({"ownerReferences": [owner]} if owner else {})}
        resources = {"cpu": "2", "memory": "128Mi", "count/pods": "2"}
        body = {
            "apiVersion": _SCHEDULING,
            "kind": "PodGroup",
            "metadata": metadata,
            "spec": {"minMember": 2, "queue": self.queue, "minResources": resources, **spec},
        }
        return self._store(self._groups, body, {"phase": phase})

    def pods(self, group: str, scheduler: str) -> None:
        """Create two pods of a PodGroup for a scheduler."""
        pod = template("never")
        for index in range(2):
            annotations = {**pod["metadata"]["annotations"], "scheduling.k8s.io/group-name": group}
            metadata = {"name": f"{group}-{index}", "annotations": annotations}
            spec = {**pod["spec"], "schedulerName": scheduler}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            self._cluster.create(f"/api/v1/namespaces/{self.namespace}/pods", body).ok()

    def command(self, job_name: str, action: str) -> None:
        """Create a Command with all of its fields, as `vcctl` of Volcano and others do."""
        target = self._cluster.get(f"{self._batch}/{job_name}").ok()
        owner = {"apiVersion": _BATCH, "kind": "Job", "name": job_name, "uid": target["metadata"]["uid"]}
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": f"{job_name}-", "ownerReferences": [owner]},
            "action": action,
            "reason": "asked",
            "message": "by hand",
            "requestedBy": "a field that no definition has",
            "target": {**owner, "controller": True, "blockOwnerDeletion": True},
        }
        self._cluster.create(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{self.namespace}/commands", body).ok()

    def _store(self, path: str, body: Obj, status: Obj) -> Obj:
        """Create an object with its status, which a Job has in a subresource and a PodGroup has not."""
        stored: Obj = self._cluster.create(path, {**body, "status": status}).ok()
        if "status" not in stored:
            stored = self._cluster.patch(f"{path}/{stored['metadata']['name']}/status", {"status": status}).ok()
        return stored
