"""A real control plane on loopback, for as long as a block runs: etcd, kube-apiserver, kube-controller-manager."""

from __future__ import annotations

import contextlib
import http.client
import secrets
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.realcluster import flags, kubeconfigs
from tests.realcluster.binaries import Binaries
from tests.realcluster.certificates import Authority, Pair, signing_keys
from tests.realcluster.processes import FailedStartError, Server, free_ports, running

READY_SECONDS = 90
"""How long one server may take to be ready; on a busy machine the first start reads 100 MB from disk."""
_ANSWER_SECONDS = 5
_ATTEMPTS = 3
_MASTERS = "system:masters"


@dataclass(frozen=True)
class ControlPlane:
    """Where a running control plane is. The kubeconfig has two contexts: admin (a certificate) and token."""

    url: str
    kubeconfig: Path
    authority: Path
    token: str
    issue: Callable[..., Pair]
    """Authority.client: a certificate for a user with groups."""
    files: flags.Files
    ports: flags.Ports
    servers: Mapping[str, Server]
    """The running servers by the program's name."""

    def restart(self, name: str, *, kill: bool = False) -> None:
        """Stop a server, with SIGKILL if `kill`, start it again and wait until it is ready."""
        self.servers[name].stop(kill=kill)
        self.start(name)

    def start(self, name: str) -> None:
        """Start a stopped server and wait until it is ready."""
        server = self.servers[name]
        server.start()
        tls = ssl.create_default_context(cadata=self.authority.read_text())
        url = {"etcd": self.ports.etcd_url, "kube-apiserver": self.url}[name]
        server.wait(lambda: _answers(f"{url}/readyz", tls, self.token), READY_SECONDS)

    def kubeconfig_for(self, user: str, groups: tuple[str, ...], path: Path) -> Path:
        """Write the kubeconfig of a user of these groups, who has only the rights that RBAC gives."""
        users = {user: kubeconfigs.certificate_user(self.issue(user, groups))}
        return kubeconfigs.write(path, self.url, self.authority.read_bytes(), users)


@contextlib.contextmanager
def control_plane(
    binaries: Binaries, directory: Path, *, apiserver_flags: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """Run one with everything it writes under `directory`, which must be empty or absent.

    `apiserver_flags` are passed to kube-apiserver after ours.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FailedStartError(f"{directory} is not empty; name a directory that is, or that is not there yet")
    authority = Authority()
    with contextlib.ExitStack() as stack:
        for attempt in range(1, _ATTEMPTS):
            try:
                yield stack.enter_context(
                    _started(binaries, directory / f"attempt-{attempt}", authority, apiserver_flags)
                )
            except FailedStartError as error:  # somebody may take a free port before its server does
                if "address already in use" not in str(error):
                    raise
            else:
                return
        yield stack.enter_context(_started(binaries, directory / f"attempt-{_ATTEMPTS}", authority, apiserver_flags))


@contextlib.contextmanager
def _started(binaries: Binaries, directory: Path, authority: Authority, extra: Sequence[str]) -> Iterator[ControlPlane]:
    directory.mkdir()
    ports = flags.Ports(*free_ports(3))
    token = secrets.token_urlsafe(32)
    files = _files(directory, authority, ports, token)
    users = {
        "admin": kubeconfigs.certificate_user(authority.client("admin", (_MASTERS,))),
        "token": kubeconfigs.token_user(token),
    }
    kubeconfig = kubeconfigs.write(directory / "kubeconfig", ports.apiserver_url, authority.pem, users)
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    servers: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:

        def start(name: str, command: list[str], url: str) -> None:
            server = servers[name] = stack.enter_context(running(name, command, directory / f"{name}.log"))
            server.wait(lambda: _answers(url, tls, token), READY_SECONDS)

        start("etcd", flags.etcd(binaries, ports, files), f"{ports.etcd_url}/readyz")
        start("kube-apiserver", flags.apiserver(binaries, ports, files, extra), f"{ports.apiserver_url}/readyz")
        # Pods can be created from the time on when the default service account is there.
        start("kube-controller-manager", flags.controller_manager(binaries, files), ports.apiserver_url + account)
        yield ControlPlane(
            ports.apiserver_url, kubeconfig, files.authority, token, authority.client, files, ports, servers
        )


def _files(directory: Path, authority: Authority, ports: flags.Ports, token: str) -> flags.Files:
    authority_file, tokens = directory / "ca.crt", directory / "tokens.csv"
    authority_file.write_bytes(authority.pem)
    tokens.write_text(f'{token},token-admin,token-admin,"{_MASTERS}"\n')
    certificate, key = authority.server("kube-apiserver").write(directory, "server")
    private, public = signing_keys()
    signing, verifying = directory / "sa.key", directory / "sa.pub"
    signing.write_bytes(private)
    verifying.write_bytes(public)
    manager = {"manager": kubeconfigs.certificate_user(authority.client("system:kube-controller-manager"))}
    path = directory / "controller-manager.kubeconfig"
    return flags.Files(
        data=directory / "etcd",
        authority=authority_file,
        server_certificate=certificate,
        server_key=key,
        signing_key=signing,
        verifying_key=verifying,
        tokens=tokens,
        controller_kubeconfig=kubeconfigs.write(path, ports.apiserver_url, authority.pem, manager),
    )


def _answers(url: str, tls: ssl.SSLContext, token: str) -> bool:
    address = urlsplit(url)
    with contextlib.closing(_connection(address.scheme, address.netloc, tls)) as connection:
        try:
            connection.request("GET", address.path, headers={"Authorization": f"Bearer {token}"})
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):  # not there yet
            return False


def _connection(scheme: str, address: str, tls: ssl.SSLContext) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(address, timeout=_ANSWER_SECONDS, context=tls)
    return http.client.HTTPConnection(address, timeout=_ANSWER_SECONDS)
