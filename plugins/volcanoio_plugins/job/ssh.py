"""`ssh`: lets the pods of a job log in to each other. Source: Volcano, pkg/controllers/job/plugins/ssh/ssh.go.

The key pair is generated just before the Secret is sent (`OwnedObject.fill`), so that no private key passes through the
engine.
"""

import base64
from collections.abc import Sequence

from volcanoio.framework.arguments import parse_flags
from volcanoio.framework.jobpods import append_to_list, containers, domain_of, own_hostname
from volcanoio.framework.jobs import JobPlugin, OwnedObject, PluginArgumentError, parse_port
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio_plugins.job.hostlists import MAX_OBJECT_BYTES, entries_to_shorten

KEY_PATH = "/root/.ssh"
KEYPAIR = "ssh-keypair"
PRIVATE, PUBLIC, AUTHORIZED, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
MAX_CONFIG_BYTES = (MAX_OBJECT_BYTES - 8 * 1024) * 3 // 4
"""Size limit of the client configuration: base64 makes four bytes of three, and the keys are stored beside it."""
_DEFAULTS: dict[str, str | int | bool] = {
    "ssh-key-file-path": KEY_PATH,
    "ssh-private-key": "",
    "ssh-public-key": "",
    "ssh-port": 22,
}


class SshPlugin(JobPlugin):
    """Arguments: `ssh-key-file-path` (/root/.ssh), `ssh-private-key`, `ssh-public-key`, `ssh-port` (22)."""

    name = "ssh"

    def __init__(self, arguments: Sequence[str]) -> None:
        chosen = parse_flags(arguments, _DEFAULTS, "ssh")
        self._path = str(chosen["ssh-key-file-path"]).rstrip("/")
        self._private = str(chosen["ssh-private-key"])
        self._public = str(chosen["ssh-public-key"])
        self._port = parse_port(chosen, "ssh-port", "ssh")
        if not self._path.startswith("/"):
            raise PluginArgumentError(f'ssh: --ssh-key-file-path must be an absolute path, not "{self._path}"')
        if bool(self._private) != bool(self._public):
            raise PluginArgumentError("ssh: --ssh-private-key and --ssh-public-key go together; give both or neither")

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        """Return the Secret with keys and client configuration.

        The configuration follows the spec, the keys are fixed.
        """
        data = {CONFIG: self._config(job)}
        if self._private:
            data |= {PRIVATE: self._private, PUBLIC: self._public, AUTHORIZED: self._public}
        manifest = {
            "apiVersion": kinds.SECRET.api_version,
            "kind": kinds.SECRET.kind,
            "metadata": {"name": _secret_name(job)},
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
        }
        fill = "" if self._private else KEYPAIR
        keys = frozenset({PRIVATE, PUBLIC, AUTHORIZED})
        return (OwnedObject(resource=kinds.SECRET.resource, manifest=manifest, fill=fill, update=True, fixed=keys),)

    def on_pod_create(self, pod: Manifest, job: Job, task: TaskSpec, index: int) -> None:  # noqa: ARG002 - as declared
        """Mount the Secret as ssh's directory; sshd refuses keys that others may read."""
        name = _secret_name(job)
        items = [{"key": key, "path": f".ssh/{key}"} for key in (PRIVATE, PUBLIC, AUTHORIZED, CONFIG)]
        mode = 0o600 if self._path == KEY_PATH else 0o644
        append_to_list(
            pod["spec"], "volumes", {"name": name, "secret": {"secretName": name, "items": items, "defaultMode": mode}}
        )
        for container in containers(pod):
            append_to_list(container, "volumeMounts", {"name": name, "mountPath": self._path, "subPath": ".ssh"})

    def _config(self, job: Job) -> str:
        """Return a `Host` entry for each pod, or one pattern for each task that has too many pods.

        ssh uses the first matching entry: `a-w-x-*` must come before `a-w-*`, so longer patterns come first. Like a
        pod's own entry, a pattern does not match full addresses.
        """
        texts = {task.name: self._entries(job, task) for task in job.spec.tasks}
        over = entries_to_shorten({name: len(text) for name, text in texts.items()}, MAX_CONFIG_BYTES)
        listed = [texts[task.name] for task in job.spec.tasks if task.name not in over]
        patterns = [
            texts[task.name] if own_hostname(task) else self._pattern(job, task)
            for task in sorted(job.spec.tasks, key=lambda task: (-len(task.name), task.name))
            if task.name in over
        ]
        return "".join(["StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n", *listed, *patterns])

    def _entries(self, job: Job, task: TaskSpec) -> str:
        """Return the entries of a task's pods; if they exceed the limit by themselves, just enough to exceed it."""
        domain, own, prefix = domain_of(job, task), own_hostname(task), f"{job.metadata.name}-{task.name}-"
        entries, size = [], 0
        for index in range(min(1, task.replicas) if own else task.replicas):
            name = own or f"{prefix}{index}"
            entry = f"Host {name}\n  HostName {name}.{domain}\n  Port {self._port}\n"
            entries.append(entry)
            size += len(entry)
            if size > MAX_CONFIG_BYTES:
                break
        return "".join(entries)

    def _pattern(self, job: Job, task: TaskSpec) -> str:
        names = f"{job.metadata.name}-{task.name}-* !*.*"
        return f"Host {names}\n  HostName %h.{domain_of(job, task)}\n  Port {self._port}\n"


def _secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
