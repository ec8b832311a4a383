"""`svc`: lets the pods of a job find each other. Source: Volcano, pkg/controllers/job/plugins/svc/svc.go.

A headless Service gives them names, a ConfigMap lists them (mounted at /etc/volcano and as variables), and a
NetworkPolicy keeps everybody else out.
"""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.framework.arguments import flags
from volcanoio.framework.jobs import Support
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio_plugins.job.hosts import append, containers, hosts

MOUNT_PATH = "/etc/volcano"
_DEFAULTS: dict[str, str | int | bool] = {
    "publish-not-ready-addresses": False,
    "disable-network-policy": False,
    "inject-hosts-env": True,
}


class SvcPlugin:
    """Arguments: `publish-not-ready-addresses` (false), `disable-network-policy` (false), `inject-hosts-env` (true)."""

    name = "svc"

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = flags(arguments, _DEFAULTS, "svc")
        self._publish = bool(chosen["publish-not-ready-addresses"])
        self._policy = not chosen["disable-network-policy"]
        self._inject = bool(chosen["inject-hosts-env"])

    def supports(self, job: Job) -> Sequence[Support]:
        """ConfigMap (kept up to date), headless Service, and NetworkPolicy unless disabled."""
        wanted = [
            Support(resource=kinds.CONFIG_MAP.resource, manifest=_config_map(job), update=True),
            Support(resource=kinds.SERVICE.resource, manifest=self._service(job)),
        ]
        if self._policy:
            wanted.append(Support(resource=kinds.NETWORK_POLICY.resource, manifest=_network_policy(job)))
        return wanted

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - Protocol
        """Name the pod on the network, mount the host files and set the variables."""
        spec: Manifest = pod["spec"]
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.metadata.name
        name = _config_map_name(job)
        append(spec, "volumes", {"name": name, "configMap": {"name": name}})
        variables = [_variable(name, key) for other in job.spec.tasks for key in _variables(other)]
        for container in containers(pod):
            append(container, "volumeMounts", {"name": name, "mountPath": MOUNT_PATH})
            if self._inject:
                append(container, "env", *variables)

    def _service(self, job: Job) -> Manifest:
        spec: Manifest = {"clusterIP": "None", "selector": _selector(job)}
        if self._publish:
            spec["publishNotReadyAddresses"] = True
        return _manifest(kinds.SERVICE, job.metadata.name, {"spec": spec})


def _config_map(job: Job) -> Manifest:
    """`<task>.host` with one address a line and no newline at the end, `VC_<TASK>_HOSTS` and `VC_<TASK>_NUM`."""
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        addresses = [host.address for host in hosts(job, task)]
        hosts_key, count_key = _variables(task)
        data[f"{task.name.replace('-', '_')}.host"] = "\n".join(addresses)
        data[hosts_key] = ",".join(addresses)
        data[count_key] = str(len(addresses))
    return _manifest(kinds.CONFIG_MAP, _config_map_name(job), {"data": data})


def _network_policy(job: Job) -> Manifest:
    selector = {"matchLabels": _selector(job)}
    spec = {"podSelector": selector, "ingress": [{"from": [{"podSelector": selector}]}], "policyTypes": ["Ingress"]}
    return _manifest(kinds.NETWORK_POLICY, job.metadata.name, {"spec": spec})


def _manifest(kind: kinds.Kind, name: str, content: Manifest) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **content}


def _config_map_name(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _selector(job: Job) -> dict[str, str]:
    return {names.JOB_NAME: job.metadata.name, names.JOB_NAMESPACE: job.metadata.namespace}


def _variables(task: TaskSpec) -> tuple[str, str]:
    upper = task.name.replace("-", "_").upper()
    return f"VC_{upper}_HOSTS", f"VC_{upper}_NUM"


def _variable(config_map: str, key: str) -> Manifest:
    return {"name": key, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}
