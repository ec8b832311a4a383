"""`ssh`: lets the pods of a job log in to each other. Source: Volcano, pkg/controllers/job/plugins/ssh/ssh.go.

The key pair is made at the edge, just before the Secret is sent (`Support.fill`), so that no private key passes through
the engine.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from volcanoio.framework.arguments import flags
from volcanoio.framework.jobs import PluginArgumentError, Support
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio_plugins.job.hosts import append, containers, hosts

KEY_PATH = "/root/.ssh"
KEYPAIR = "ssh-keypair"
PRIVATE, PUBLIC, AUTHORIZED, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
_DEFAULTS: dict[str, str | int | bool] = {
    "ssh-key-file-path": KEY_PATH,
    "ssh-private-key": "",
    "ssh-public-key": "",
    "ssh-port": 22,
}


class SshPlugin:
    """Arguments: `ssh-key-file-path` (/root/.ssh), `ssh-private-key`, `ssh-public-key`, `ssh-port` (22)."""

    name = "ssh"

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = flags(arguments, _DEFAULTS, "ssh")
        self._path = str(chosen["ssh-key-file-path"]).rstrip("/")
        self._private = str(chosen["ssh-private-key"])
        self._public = str(chosen["ssh-public-key"])
        self._port = int(chosen["ssh-port"])
        if not self._path.startswith("/"):
            msg = f'ssh: --ssh-key-file-path must be an absolute path, not "{self._path}"'
            raise PluginArgumentError(msg)
        if not 0 < self._port < 65536:
            msg = f"ssh: --ssh-port must be in 1..65535, not {self._port}"
            raise PluginArgumentError(msg)
        if bool(self._private) != bool(self._public):
            msg = "ssh: --ssh-private-key and --ssh-public-key go together; give both or neither"
            raise PluginArgumentError(msg)

    def supports(self, job: Job) -> Sequence[Support]:
        """The Secret with keys and client configuration; made once, as live pods keep the keys they started with."""
        data = {CONFIG: self._config(job)}
        if self._private:
            data |= {PRIVATE: self._private, PUBLIC: self._public, AUTHORIZED: self._public}
        manifest = {
            "apiVersion": kinds.SECRET.api_version,
            "kind": kinds.SECRET.kind,
            "metadata": {"name": _secret_name(job)},
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
        }
        return (Support(resource=kinds.SECRET.resource, manifest=manifest, fill="" if self._private else KEYPAIR),)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - Protocol
        """Mount the Secret where ssh looks for it; sshd refuses keys that others may read."""
        name = _secret_name(job)
        items = [{"key": key, "path": f".ssh/{key}"} for key in (PRIVATE, PUBLIC, AUTHORIZED, CONFIG)]
        mode = 0o600 if self._path == KEY_PATH else 0o644
        append(
            pod["spec"],
            "volumes",
            {"name": name, "secret": {"secretName": name, "items": items, "defaultMode": mode}},
        )
        for container in containers(pod):
            append(container, "volumeMounts", {"name": name, "mountPath": self._path, "subPath": ".ssh"})

    def _config(self, job: Job) -> str:
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in job.spec.tasks:
            for host in hosts(job, task):
                lines += [f"Host {host.name}", f"  HostName {host.address}", f"  Port {self._port}"]
        return "\n".join(lines) + "\n"


def _secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
