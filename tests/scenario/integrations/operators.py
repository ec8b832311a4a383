"""What other projects' operators create in Volcano's terms: the same objects, with the same content, in the same order.

Each function stands for one reconciliation of the operator named in its docstring, reduced to PodGroups and pods.
Services, ConfigMaps, and what the operators write into their own status are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from fractions import Fraction
from typing import Any

import msgspec

from tests.scenario.cluster.harness import Cluster
from tests.scenario.integrations.support import LONG, create, kind_of, owned_by
from volcanoio.kube import requests
from volcanoio.kube.errors import check
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.documents import load_yaml
from volcanoio.model.quantity import parse

KUBERAY_QUEUE = "volcano.sh/queue-name"
RAY_REPLICA = "ray.io/worker-group-replica-index"
MEMORY_OVERHEAD = 384
"""MiB that Spark adds to each pod's memory, at least."""


def total(pods: Iterable[Manifest]) -> dict[str, str]:
    """The sum of the requests of pods."""
    amounts: dict[str, Fraction] = {}
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for name, text in container.get("resources", {}).get("requests", {}).items():
                amounts[name] = amounts.get(name, Fraction()) + parse(str(text))
    return {name: f"{int(amount * 1000)}m" for name, amount in amounts.items()}


def pod(name: str, template: Manifest, owner: Manifest, **metadata: Any) -> Manifest:
    """A pod of a template, scheduled by Volcano."""
    made = deepcopy(template)
    merged = {**made.get("metadata", {})}
    for field in ("labels", "annotations"):
        merged[field] = {**merged.get(field, {}), **metadata.pop(field, {})}
    merged |= {"name": name, "ownerReferences": [owned_by(owner)], **metadata}
    spec = {"restartPolicy": "Never", **made["spec"], "schedulerName": "volcano"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": merged, "spec": spec}


def pod_group(name: str, owner: Manifest, **spec: Any) -> Manifest:
    """A PodGroup that an operator owns."""
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owned_by(owner)]},
        "spec": spec,
    }


async def update(c: Cluster, obj: Manifest) -> Manifest:
    """Replace an object, as client-go's Update does."""
    response = check(await requests.update(kind_of(obj), obj).send(c.client.transport))
    replaced: Manifest = msgspec.json.decode(response.body)
    return replaced


def _ray_pods(spec: Manifest, minimum: bool) -> list[tuple[str, Manifest]]:
    """Group name and template of each pod that a Ray cluster starts with."""
    head = [("headgroup", spec["headGroupSpec"]["template"])]
    groups = spec["workerGroupSpecs"]
    count = "minReplicas" if minimum else "replicas"
    return head + [(each["groupName"], each["template"]) for each in groups for _ in range(each[count])]


def _ray_sub_groups(spec: Manifest) -> list[Manifest]:
    """A sub-group per replica of a Ray cluster, as KubeRay makes them with the gate RayMultiHostIndexing."""
    groups = [("headgroup", 1, "ray.io/group")]
    groups += [(each["groupName"], each["replicas"], RAY_REPLICA) for each in spec["workerGroupSpecs"]]
    return [
        {
            "name": role, "subGroupSize": 1, "minSubGroups": count, "matchLabelKeys": [key],
            "labelSelector": {"matchLabels": {"ray.io/group": role}},
        }
        for role, count, key in groups
    ]  # fmt: skip


async def _ray_pod_group(
    c: Cluster, owner: Manifest, spec: Manifest, more: Iterable[Manifest] = (), policy: Iterable[Manifest] = ()
) -> Manifest:
    labels = owner["metadata"].get("labels", {})
    templates = [template for _, template in _ray_pods(spec, bool(spec.get("enableInTreeAutoscaling")))]
    made = pod_group(
        f"ray-{owner['metadata']['name']}-pg", owner,
        minMember=len(templates), minResources=total([*templates, *more]),
    )  # fmt: skip
    made["metadata"]["annotations"] = dict(owner["metadata"].get("annotations", {}))
    made["status"] = {"phase": "Pending"}
    if queue := labels.get(KUBERAY_QUEUE):
        made["spec"]["queue"] = queue
    if priority := labels.get("ray.io/priority-class-name"):
        made["spec"]["priorityClassName"] = priority
    if policy:
        made["spec"]["subGroupPolicy"] = policy
    if mode := labels.get("volcano.sh/network-topology-mode"):
        tier = int(labels["volcano.sh/network-topology-highest-tier-allowed"])
        made["spec"]["networkTopology"] = {"mode": mode, "highestTierAllowed": tier}
    return await create(c, made)


async def _ray_cluster_pods(c: Cluster, cluster: Manifest, group: Manifest) -> None:
    spec, name = cluster["spec"], cluster["metadata"]["name"]
    queue = cluster["metadata"]["labels"].get(KUBERAY_QUEUE)
    for number, (role, template) in enumerate(_ray_pods(spec, bool(spec.get("enableInTreeAutoscaling")))):
        labels = {
            "ray.io/cluster": name,
            "ray.io/group": role,
            RAY_REPLICA: str(number),
            **({KUBERAY_QUEUE: queue} if queue else {}),
        }
        annotations = {names.GROUP_NAME: group["metadata"]["name"], names.TASK_SPEC: role}
        called = f"{name}-head" if role == "headgroup" else f"{name}-{role}-worker-{number}"
        await create(c, pod(called, template, cluster, labels=labels, annotations=annotations))


async def kuberay_cluster(c: Cluster, cluster: Manifest, *, multi_host: bool = False) -> None:
    """KubeRay's reconciliation of a RayCluster: PodGroup, head, workers; `multi_host` is a gate of its."""
    policy = _ray_sub_groups(cluster["spec"]) if multi_host else ()
    group = await _ray_pod_group(c, cluster, cluster["spec"], policy=policy)
    await _ray_cluster_pods(c, cluster, group)


async def kuberay_job(c: Cluster, job: Manifest) -> Manifest:
    """KubeRay's reconciliation of a RayJob until its cluster exists: PodGroup, RayCluster, pods; the RayCluster."""
    spec, name = job["spec"]["rayClusterSpec"], job["metadata"]["name"]
    group = await _ray_pod_group(c, job, spec, [job["spec"]["submitterPodTemplate"]])
    labels = {**job["metadata"]["labels"], "ray.io/originated-from-crd": "RayJob"}
    metadata = {"name": f"{name}-x7k2p", "labels": labels, "ownerReferences": [owned_by(job)]}
    cluster = await create(
        c, {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}
    )  # fmt: skip
    await _ray_cluster_pods(c, cluster, group)
    return cluster


async def kuberay_submit(c: Cluster, job: Manifest) -> None:
    """KubeRay's submission, once the cluster of a RayJob is ready: a Job whose pod is in the PodGroup, too."""
    name, template = job["metadata"]["name"], deepcopy(job["spec"]["submitterPodTemplate"])
    template["metadata"]["annotations"] |= {names.GROUP_NAME: f"ray-{name}-pg", names.TASK_SPEC: "submitter"}
    template["spec"]["schedulerName"] = "volcano"
    metadata = {"name": name, "ownerReferences": [owned_by(job)]}
    body = {"backoffLimit": 2, "template": template}
    await create(c, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body})


async def kuberay_end(c: Cluster, job: Manifest, cluster: Manifest) -> None:
    """KubeRay's end of a RayJob with shutdownAfterJobFinishes: the RayCluster goes, the PodGroup shrinks to nothing."""
    await c.client.delete(kind_of(cluster), cluster["metadata"]["name"], "default")
    group = await c.client.get_raw(kinds.POD_GROUP, f"ray-{job['metadata']['name']}-pg", "default")
    group["spec"] |= {"minMember": 0, "minResources": {}}
    await update(c, group)


def _spark_pod(role: str, cores: int, memory: str, annotations: Mapping[str, str]) -> Manifest:
    mebibytes = int(memory.removesuffix("g")) * 1024
    requests_ = {"cpu": str(cores), "memory": f"{mebibytes + max(MEMORY_OVERHEAD, mebibytes // 10)}Mi"}
    container = {"name": f"spark-kubernetes-{role}", "image": "apache/spark:4.0.1", "args": [role]}
    return {
        "metadata": {"annotations": dict(annotations), "labels": {"spark-role": role}},
        "spec": {"containers": [{**container, "resources": {"requests": requests_}}]},
    }


async def spark_operator(c: Cluster, app: Manifest) -> Manifest:
    """The Spark operator's submission: it reads the definition of PodGroups, makes one, then the driver; the driver."""
    name, spec = app["metadata"]["name"], app["spec"]
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"
    check(await c.client.transport.request("GET", definition))
    role = {key: _spark_pod(key, spec[key]["cores"], spec[key]["memory"], spec[key]["annotations"])
            for key in ("driver", "executor")}  # fmt: skip
    least = total([role["driver"], *[role["executor"]] * spec["executor"]["instances"]])
    made = pod_group(f"spark-{name}-pg", app, minMember=1, minResources=least)
    made["status"] = {"phase": "Pending"}
    made["spec"]["queue"] = spec["batchSchedulerOptions"]["queue"]
    await create(c, made)
    grouped = {names.GROUP_NAME: f"spark-{name}-pg"}
    return await create(c, pod(f"{name}-driver", role["driver"], app, annotations=grouped))


async def spark_submit(c: Cluster, application: str, template: Manifest | None) -> Manifest:
    """spark-submit in cluster mode with VolcanoFeatureStep: PodGroup, driver, then the driver as the group's owner."""
    name = f"{application}-podgroup"
    group: Manifest = {**(template or {}), "apiVersion": kinds.POD_GROUP.api_version, "kind": "PodGroup"}
    group["metadata"] = {**group.get("metadata", {}), "name": name, "namespace": "default"}
    group.setdefault("spec", {})
    await create(c, group)
    body = _spark_pod("driver", 1, "1g", {names.GROUP_NAME: name, names.RUN_DURATION: LONG})
    spec = {**body["spec"], "schedulerName": "volcano", "restartPolicy": "Never"}
    metadata = {**body["metadata"], "name": f"{application}-driver"}
    driver = await create(c, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    group["metadata"] = {**group["metadata"], "ownerReferences": [owned_by(driver)]}
    await c.client.apply(kinds.POD_GROUP, group, manager="fabric8", force=True)
    return driver


async def spark_executors(c: Cluster, driver: Manifest, number: int) -> None:
    """A running driver's executors, in its PodGroup."""
    annotations = driver["metadata"]["annotations"]
    for index in range(1, number + 1):
        body = _spark_pod("executor", 1, "1g", annotations)
        name = driver["metadata"]["name"].replace("driver", f"exec-{index}")
        await create(c, pod(name, body, driver))


def _flink_pod(deployment: Manifest, role: str) -> Manifest:
    spec = deepcopy(deployment["spec"]["podTemplate"])
    wanted = deployment["spec"]["jobManager" if role == "jobmanager" else "taskManager"]["resource"]
    requests_ = {"cpu": str(wanted["cpu"]), "memory": wanted["memory"].replace("m", "Mi")}
    spec["spec"]["containers"][0] |= {"image": "flink:1.20", "resources": {"requests": requests_}}
    labels = {"app": deployment["metadata"]["name"], "component": role}
    annotations = {names.RUN_DURATION: "never", **spec["metadata"]["annotations"]}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec["spec"]}


async def flink_operator(c: Cluster, deployment: Manifest) -> Manifest:
    """The Flink operator in native mode: a Deployment of the JobManager, with the pod template; the Deployment."""
    template = _flink_pod(deployment, "jobmanager")
    spec = {"replicas": 1, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
    metadata = {"name": deployment["metadata"]["name"], "ownerReferences": [owned_by(deployment)]}
    return await create(c, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


async def flink_task_managers(c: Cluster, deployment: Manifest, job_manager: Manifest) -> None:
    """A running JobManager's TaskManagers: pods of the same template, owned by its Deployment."""
    name = deployment["metadata"]["name"]
    template = _flink_pod(deployment, "taskmanager")
    for index in range(1, deployment["spec"]["taskManager"]["replicas"] + 1):
        await create(c, pod(f"{name}-taskmanager-1-{index}", template, job_manager))


async def trainer(c: Cluster, runtime: Manifest, job: Manifest) -> None:
    """Kubeflow Trainer with JobSet: the PodGroup by server-side apply, then an indexed Job per replicated job."""
    name, nodes = job["metadata"]["name"], job["spec"]["trainer"]["numNodes"]
    annotations = runtime["spec"]["template"]["metadata"]["annotations"]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    template = deepcopy(replicated["template"]["spec"]["template"])
    template["spec"]["containers"][0] |= {
        "command": job["spec"]["trainer"]["command"], "resources": job["spec"]["trainer"]["resourcesPerNode"]
    }  # fmt: skip
    template["metadata"]["annotations"][names.GROUP_NAME] = name
    queue = annotations[names.QUEUE_NAME_ANNOTATION]
    made = pod_group(name, job, minMember=nodes, minResources=total([template] * nodes), queue=queue)
    await c.client.apply(kinds.POD_GROUP, made, manager="trainer", force=True)
    spec = {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes, "template": template}
    metadata = {"name": f"{name}-node-0", "ownerReferences": [owned_by(job)]}
    await create(c, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def _replicas(job: Manifest) -> dict[str, Manifest]:
    return next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))


async def training_operator(c: Cluster, job: Manifest) -> bool:
    """One reconciliation of Training Operator v1; whether it made the pods, once their PodGroup is not Pending."""
    name, replicas = job["metadata"]["name"], _replicas(job)
    policy = job["spec"]["runPolicy"]["schedulingPolicy"]
    templates = [each["template"] for each in replicas.values() for _ in range(each["replicas"])]
    minimum = policy.get("minAvailable", len(templates))
    found = [each for each in await c.client.list_raw(kinds.POD_GROUP, "default") if each["metadata"]["name"] == name]
    if not found:
        least = total(templates[:minimum])
        await create(c, pod_group(name, job, minMember=minimum, minResources=least, queue=policy["queue"]))
        return False
    if found[0].get("status", {}).get("phase", "Pending") == "Pending":
        return False
    for role, each in replicas.items():
        for index in range(each["replicas"]):
            annotations = {names.GROUP_NAME: name, names.TASK_SPEC: role.lower()}
            labels = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/replica-type": role.lower()}
            called = f"{name}-{role.lower()}-{index}"
            await create(c, pod(called, each["template"], job, annotations=annotations, labels=labels))
    return True


async def mpi_operator(c: Cluster, job: Manifest) -> None:
    """The MPI operator's reconciliation: PodGroup, workers, then a Job of the launcher; it sets their scheduler."""
    name, replicas = job["metadata"]["name"], job["spec"]["mpiReplicaSpecs"]
    templates = [each["template"] for each in replicas.values() for _ in range(each["replicas"])]
    queue = job["metadata"]["annotations"][names.QUEUE_NAME_ANNOTATION]
    await create(c, pod_group(name, job, minMember=len(templates), minResources=total(templates), queue=queue))
    grouped = {names.GROUP_NAME: name}
    for index in range(replicas["Worker"]["replicas"]):
        await create(c, pod(f"{name}-worker-{index}", replicas["Worker"]["template"], job, annotations=grouped))
    launcher = deepcopy(replicas["Launcher"]["template"])
    launcher["spec"]["schedulerName"] = "volcano"
    launcher["metadata"]["annotations"] |= grouped
    metadata = {"name": f"{name}-launcher", "ownerReferences": [owned_by(job)]}
    await create(c, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": launcher}})


async def argo_create(c: Cluster, workflow: Manifest, template: Manifest, parameters: Mapping[str, str]) -> Manifest:
    """Argo's resource template with action create: its manifest with the parameters, as an object of the workflow."""
    text = template["resource"]["manifest"]
    for name, value in parameters.items():
        text = text.replace("{{inputs.parameters." + name + "}}", value)
    obj: Manifest = load_yaml(text)
    if template["resource"].get("setOwnerReference"):
        reference = owned_by(workflow)
        obj["metadata"]["ownerReferences"] = [{key: reference[key] for key in ("apiVersion", "kind", "name", "uid")}]
    return await create(c, obj)


def argo_holds(condition: str, obj: Manifest) -> bool:
    """Whether a successCondition or failureCondition holds: a selector's requirement, on a path in the object."""
    found = re.fullmatch(r"(\S+) (?:= (\S+)|in \((.*)\))", condition)
    assert found is not None, condition
    value: Any = obj
    for key in found[1].split("."):
        value = value.get(key, {})
    return value in ([found[2]] if found[2] else found[3].split(", "))
