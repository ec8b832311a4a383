"""The names of pods and services, as each pod's /etc/hosts has them: what the cluster's DNS would answer.

A pod with a subdomain has the names `HOSTNAME.SUBDOMAIN[.NAMESPACE[.svc[.cluster.local]]]`; a service's name stands for
the addresses of the pods it selects. Short forms hold within a namespace only. Kubernetes: DNS specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CLUSTER_DOMAIN = "cluster.local"
_LOCAL = f"""127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
127.0.0.1 kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.{CLUSTER_DOMAIN}
"""


@dataclass(frozen=True)
class Host:
    """A pod on the network. `aliases` are the `hostAliases` of its spec: address → names."""

    namespace: str
    name: str
    address: str
    hostname: str
    subdomain: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class ServiceName:
    """A service and the label selector of its pods."""

    namespace: str
    name: str
    selector: Mapping[str, str]

    def selects(self, host: Host) -> bool:
        """Return whether the service selects the pod."""
        return host.namespace == self.namespace and all(host.labels.get(k) == v for k, v in self.selector.items())


def qualified(name: str, namespace: str, *, inside: bool) -> list[str]:
    """Return the forms of a name, the full one first; with `inside` also the short one."""
    forms = [
        f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}",
        f"{name}.{namespace}.svc",
        f"{name}.{namespace}",
    ]
    return [*forms, name] if inside else forms


def hosts_text(own: Host, others: Iterable[Host], services: Iterable[ServiceName]) -> str:
    """Return the text of a pod's /etc/hosts."""
    lines = [_LOCAL]
    names = qualified(f"{own.hostname}.{own.subdomain}", own.namespace, inside=True) if own.subdomain else []
    lines.append(f"{own.address} {' '.join([*names, own.hostname])}\n")
    selected = [service for service in services if service.selector]
    for host in (own, *others):
        inside = host.namespace == own.namespace
        names = []
        if host is not own and host.subdomain:
            names += qualified(f"{host.hostname}.{host.subdomain}", host.namespace, inside=inside)
        for service in selected:
            if service.selects(host):
                names += qualified(service.name, service.namespace, inside=inside)
        if names:
            lines.append(f"{host.address} {' '.join(names)}\n")
    lines += [f"{address} {' '.join(names)}\n" for address, names in own.aliases]
    return "".join(lines)


class HostsFiles:
    """The hosts files of all running pods, kept consistent with each other."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[Host, Path]] = {}
        self._services: tuple[ServiceName, ...] = ()
        self._written: dict[Path, str] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def add(self, uid: str, host: Host, file: Path) -> None:
        """Add a pod, and update its file and those of others."""
        if self._hosts.get(uid) != (host, file):
            self._hosts[uid] = (host, file)
            self._write()

    def remove(self, uid: str) -> None:
        """Remove a pod that has ended."""
        gone = self._hosts.pop(uid, None)
        if gone is not None:
            self._written.pop(gone[1], None)
            self._write()

    def serve(self, services: Iterable[ServiceName]) -> None:
        """Set the services that have host names."""
        found = tuple(services)
        if found != self._services:
            self._services = found
            self._write()

    def _write(self) -> None:
        for own, file in self._hosts.values():
            others = (host for host, _ in self._hosts.values() if host is not own)
            text = hosts_text(own, others, self._services)
            if self._written.get(file) != text:
                _overwrite(file, text.encode())
                self._written[file] = text


def _overwrite(file: Path, data: bytes) -> None:
    """Write the files in place: containers have them bind-mounted and would keep a replaced one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    with file.open("r+b", buffering=0) as opened:
        opened.write(data)
        opened.truncate()
