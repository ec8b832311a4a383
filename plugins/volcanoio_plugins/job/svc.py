"""`svc`: lets the pods of a job find each other. Source: Volcano, pkg/controllers/job/plugins/svc/svc.go.

A headless Service gives them names, a ConfigMap lists them (mounted at /etc/volcano and as variables), and a
NetworkPolicy admits traffic of the job's own pods only. `hostlists` describes the lists and their size limits.
"""

from collections.abc import Sequence

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import append_to_list, containers
from volcanoio.framework.jobs import JobPlugin, OwnedObject
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobSpec, TaskSpec
from volcanoio_plugins.job.hostlists import HostFiles, host_files, variable_names

MOUNT_PATH = "/etc/volcano"
_DEFAULTS: dict[str, str | int | bool] = {
    "publish-not-ready-addresses": False,
    "disable-network-policy": False,
    "inject-hosts-env": True,
}


class SvcPlugin(JobPlugin):
    """Arguments: `publish-not-ready-addresses` (false), `disable-network-policy` (false), `inject-hosts-env` (true)."""

    name = "svc"

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = parse_flags(arguments, _DEFAULTS, "svc")
        self._publish = bool(chosen["publish-not-ready-addresses"])
        self._policy = not chosen["disable-network-policy"]
        self._inject = bool(chosen["inject-hosts-env"])
        self._cached: tuple[JobSpec, HostFiles] | None = None

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        """Return the ConfigMaps (kept up to date), the headless Service, and the NetworkPolicy unless disabled."""
        files = self._files(job)
        config_maps = [_manifest(kinds.CONFIG_MAP, _config_map_name(job), {"data": files.lists})]
        for number, part in enumerate(files.parts):
            config_maps.append(_manifest(kinds.CONFIG_MAP, _part_name(job, number), {"data": part}))
        wanted = [OwnedObject(resource=kinds.CONFIG_MAP.resource, manifest=each, update=True) for each in config_maps]
        wanted.append(OwnedObject(resource=kinds.SERVICE.resource, manifest=self._service(job)))
        if self._policy:
            wanted.append(OwnedObject(resource=kinds.NETWORK_POLICY.resource, manifest=_network_policy(job)))
        return wanted

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - as declared
        """Set the pod's host name, mount the host files and set the variables."""
        spec: Manifest = pod["spec"]
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.metadata.name
        name = _config_map_name(job)
        append_to_list(spec, "volumes", self._volume(job))
        variables = [_variable(name, key) for other in job.spec.tasks for key in variable_names(other)]
        for container in containers(pod):
            append_to_list(container, "volumeMounts", {"name": name, "mountPath": MOUNT_PATH})
            if self._inject:
                append_to_list(container, "env", *variables)

    def _files(self, job: Job) -> HostFiles:
        """Return the host files of a job, cached for all pods that are created together."""
        if self._cached is None or self._cached[0] is not job.spec:
            self._cached = (job.spec, host_files(job))
        return self._cached[1]

    def _volume(self, job: Job) -> Manifest:
        """Return the volume of the host files: the ConfigMap itself, or a projection of it and its parts.

        A part is optional, because it is deleted when the job is scaled down.
        """
        name = _config_map_name(job)
        if not (count := len(self._files(job).parts)):
            return {"name": name, "configMap": {"name": name}}
        sources: list[Manifest] = [{"configMap": {"name": name}}]
        sources += [{"configMap": {"name": _part_name(job, number), "optional": True}} for number in range(count)]
        return {"name": name, "projected": {"sources": sources}}

    def _service(self, job: Job) -> Manifest:
        spec: Manifest = {"clusterIP": "None", "selector": _selector(job)}
        if self._publish:
            spec["publishNotReadyAddresses"] = True
        return _manifest(kinds.SERVICE, job.metadata.name, {"spec": spec})


def _network_policy(job: Job) -> Manifest:
    selector = {"matchLabels": _selector(job)}
    spec = {"podSelector": selector, "ingress": [{"from": [{"podSelector": selector}]}], "policyTypes": ["Ingress"]}
    return _manifest(kinds.NETWORK_POLICY, job.metadata.name, {"spec": spec})


def _manifest(kind: kinds.Kind, name: str, content: Manifest) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **content}


def _config_map_name(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _part_name(job: Job, number: int) -> str:
    return f"{_config_map_name(job)}-{number}"


def _selector(job: Job) -> dict[str, str]:
    return {names.JOB_NAME: job.metadata.name, names.JOB_NAMESPACE: job.metadata.namespace}


def _variable(config_map: str, key: str) -> Manifest:
    return {"name": key, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}
