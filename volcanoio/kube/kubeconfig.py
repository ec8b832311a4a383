"""Address and credentials of an API server, from kubeconfigs or a pod's service account.

Several files are merged as kubectl does. Files of certificates and tokens are read again while they are in use.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from ssl import SSLContext
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec
import yaml

from volcanoio.kube.credentials.exec_plugin import ExecConfig, ExecPlugin
from volcanoio.kube.credentials.sources import (
    Credentials,
    CredentialsError,
    RenewedCredentials,
    StaticCredentials,
    TokenFile,
    basic_authorization,
    bearer_authorization,
)
from volcanoio.model.documents import load_yaml, read_bytes

DEFAULT_PATH = Path("~/.kube/config")


class ConfigError(ValueError):
    """The kubeconfig cannot be used; the message contains file, field and next step."""


class _Pems(NamedTuple):
    """The cluster's authority, and a client certificate with its key; b"" for none."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


_RECHECK = 30.0
"""Seconds after which files of certificates are read again."""


class ClientTls:
    """TLS settings of connections; `context` returns another object once certificates have changed.

    `read` returns the certificates and raises ConfigError; `insecure` leaves the server's certificate unverified.
    """

    def __init__(
        self, read: Callable[[], _Pems], *, insecure: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._insecure = insecure
        self._now = now
        self._lock = threading.Lock()  # leader election has connections of its own, on a thread
        self._pems = read()
        self._context = _context(self._pems, insecure=insecure)
        self._read_at = now()

    def context(self, *, recheck: bool = False) -> SSLContext:
        """Return the context; certificates are read again every 30 s, and with `recheck`."""
        with self._lock:
            if recheck or self._now() - self._read_at > _RECHECK:
                self._read_at = self._now()
                with suppress(ConfigError, ssl.SSLError, UnicodeDecodeError):  # the files are being replaced
                    self._update()
            return self._context

    def without_certificate(self) -> ClientTls:
        """Return the same settings without the client's certificate."""
        return ClientTls(lambda: _Pems(self._read().authority), insecure=self._insecure, now=self._now)

    def _update(self) -> None:
        pems = self._read()
        if pems != self._pems:
            self._context = _context(pems, insecure=self._insecure)
            self._pems = pems


@dataclass(frozen=True, slots=True)
class Connection:
    """Settings of a transport. `server` is the base URL without a trailing slash; `ssl` False disables verification.

    `server_name` is the name that the server's certificate must have, "" for that of the URL. `headers` are sent with
    each request.
    """

    server: str
    ssl: ClientTls | SSLContext | bool = True
    credentials: Credentials = field(default_factory=StaticCredentials)
    namespace: str = "default"
    proxy: str = ""
    server_name: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    def context(self, *, recheck: bool = False) -> SSLContext | bool:
        """Return the TLS context, or whether to verify the server's certificate by the authorities of the system."""
        return self.ssl.context(recheck=recheck) if isinstance(self.ssl, ClientTls) else self.ssl


class _NamedExtension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""
    tls_server_name: str = ""
    extensions: list[_NamedExtension] | None = None


class _AuthProvider(msgspec.Struct):
    name: str = ""
    config: dict[str, str] | None = None


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    auth_provider: _AuthProvider | None = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = "default"


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


async def load(path: str | Path | None = None, *, context: str = "") -> Connection:
    """Load the connection from `path`, else $KUBECONFIG, else ~/.kube/config, else the pod that we run in.

    `context` overrides the file's current-context. Raises ConfigError.
    """
    paths = _kubeconfig_paths(path)
    return await from_files(paths, context=context) if paths else in_cluster()


def _kubeconfig_paths(path: str | Path | None) -> list[Path]:
    """Return the kubeconfigs to read; none if there is none and we run in a pod."""
    if path is not None:
        return [Path(path).expanduser()]
    default = DEFAULT_PATH.expanduser()
    is_pod = not default.exists() and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    return environment_paths() or ([] if is_pod else [default])


def environment_paths() -> list[Path]:
    """Return the files that $KUBECONFIG names."""
    return [Path(name).expanduser() for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]


_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(account: Path = _ACCOUNT) -> Connection:
    """Return the connection of a pod with a service account; raises ConfigError outside a cluster."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    try:
        if not host or not port:
            raise ConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
        credentials = TokenFile(account / "token")
        authority = account / "ca.crt"
        tls = _client_tls(authority, lambda: _Pems(_read_pem(authority, "the cluster's authority", "", "ca.crt")))
        namespace = account / "namespace"
        return Connection(
            f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            tls,
            credentials,
            namespace.read_text().strip() if namespace.exists() else "default",
        )
    except (ConfigError, CredentialsError) as error:
        raise ConfigError(f"no service account to use: {error}; run in a pod, or give a kubeconfig") from error


async def from_file(path: Path, *, context: str = "") -> Connection:
    """Return the connection that a kubeconfig file describes; raises ConfigError."""
    return await from_files([path], context=context)


async def from_files(paths: Sequence[Path], *, context: str = "") -> Connection:
    """Return the connection that kubeconfig files describe together; raises ConfigError.

    The first file that has an entry wins, as with kubectl. Of several files, those that do not exist are skipped.
    """
    files = _read_all(paths)
    where = ", ".join(str(path) for path, _ in files)
    context = context or next((file.current_context for _, file in files if file.current_context), "")
    if not context:
        raise ConfigError(f"{where}: current-context is not set; set it to the name of one of the contexts in the file")
    chosen: _Context = _named_entry(files, "contexts", context)[1].context
    cluster_path, named = _named_entry(files, "clusters", chosen.cluster)
    cluster: _Cluster = named.cluster
    user_path, user = cluster_path, _User()
    if chosen.user:
        user_path, named = _named_entry(files, "users", chosen.user)
        user = named.user
    _check_cluster(f"{cluster_path}: clusters[{chosen.cluster}]", cluster)
    try:
        credentials = _credentials(user_path, chosen.user, user, (cluster_path, cluster))
        await credentials.header()
        headers = _impersonation(user)
    except CredentialsError as error:
        raise ConfigError(f"{user_path}: users[{chosen.user}]: {error}") from error

    def read() -> _Pems:
        authority = _authority(cluster_path, cluster)
        issued = credentials.certificate if isinstance(credentials, RenewedCredentials) else None
        return _Pems(authority, *(issued or _certificate(user_path, user)))

    tls: ClientTls | bool = True
    if cluster.server.startswith("https://"):
        tls = _client_tls(cluster_path, read, insecure=cluster.insecure_skip_tls_verify)
    else:
        read()
    return Connection(
        cluster.server.rstrip("/"), tls, credentials, chosen.namespace,
        cluster.proxy_url, cluster.tls_server_name, headers,
    )  # fmt: skip


def anonymous(connection: Connection) -> Connection:
    """Return a connection to the same server without any credentials: no token, certificate or impersonation."""
    tls = connection.ssl.without_certificate() if isinstance(connection.ssl, ClientTls) else connection.ssl
    return replace(connection, credentials=StaticCredentials(), headers=(), ssl=tls)


def _client_tls(path: Path, read: Callable[[], _Pems], *, insecure: bool = False) -> ClientTls:
    """Return the TLS settings. Raises ConfigError."""
    try:
        return ClientTls(read, insecure=insecure)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: certificates cannot be used: {error}; give them in PEM") from error


def _read_all(paths: Sequence[Path]) -> list[tuple[Path, _File]]:
    present = [path for path in paths if path.exists()] if len(paths) > 1 else paths
    return [(path, _read(path)) for path in present or paths[:1]]


def _read(path: Path) -> _File:
    try:
        content = load_yaml(read_bytes(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name a kubeconfig with --kubeconfig or KUBECONFIG") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {_problem(error)}") from None  # its text may hold a token
    try:
        return msgspec.convert(content or {}, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: not a kubeconfig: {error}; name one with --kubeconfig or KUBECONFIG") from error


def _problem(error: yaml.YAMLError) -> str:
    """Return rule and position of an error, without text of the file."""
    problem = getattr(error, "problem", None) or "it has a character that no text may have"
    if isinstance(error, yaml.constructor.ConstructorError):
        problem = "a value has a tag of another type; remove the tag"
    mark = getattr(error, "problem_mark", None)
    return problem if mark is None else f"{problem} (line {mark.line + 1}, column {mark.column + 1})"


def _named_entry(files: Sequence[tuple[Path, _File]], section: str, name: str) -> tuple[Path, Any]:
    """Return the first entry of that name, and its file."""
    found = [(path, entry) for path, file in files for entry in getattr(file, section)]
    for path, entry in found:
        if entry.name == name:
            return path, entry
    where, known = ", ".join(str(path) for path, _ in files), sorted({entry.name for _, entry in found})
    raise ConfigError(f"{where}: {section} has no {name!r}; it has {', '.join(known) or 'none'}")


def _check_cluster(where: str, cluster: _Cluster) -> None:
    if not _is_url(cluster.server):
        raise ConfigError(f"{where}.server must be an http(s) URL, not {cluster.server!r}")
    if cluster.proxy_url and urlsplit(cluster.proxy_url).scheme not in ("http", "https"):
        scheme = cluster.proxy_url.partition(":")[0]  # without the rest, which may hold a password
        raise ConfigError(f"{where}.proxy-url: {scheme} proxies are not supported; use an http or https proxy")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _credentials(path: Path, name: str, user: _User, cluster: tuple[Path, _Cluster]) -> Credentials:
    """Return the credentials of a user. Raises CredentialsError."""
    if user.exec is not None:
        return RenewedCredentials(ExecPlugin(user.exec, path.parent, _exec_cluster(*cluster)))
    if user.auth_provider is not None:
        if user.auth_provider.name != "oidc":
            rule = f"auth-provider {user.auth_provider.name!r} is not supported"
            raise CredentialsError(f"{rule}; use an exec plug-in, as kubectl 1.26 and newer do")
        from volcanoio.kube.credentials.oidc import OidcTokens  # noqa: PLC0415 - loads cryptography, rarely needed

        return RenewedCredentials(OidcTokens(_OidcEntry(path.resolve(), name), path.parent))
    if user.token_file:
        return TokenFile(path.parent / user.token_file)
    if user.token:
        return StaticCredentials(bearer_authorization(user.token))
    return StaticCredentials(basic_authorization(user.username, user.password) if user.username else "")


class _OidcEntry:
    """The `auth-provider` of a user in a kubeconfig, read and written as kubectl does."""

    def __init__(self, path: Path, user: str) -> None:
        self._path = path
        self._user = user

    def read(self) -> Mapping[str, str]:
        """Return its `config`. Raises CredentialsError."""
        try:
            user = _named_entry([(self._path, _read(self._path))], "users", self._user)[1].user
        except ConfigError as error:
            raise CredentialsError(str(error)) from error
        return (user.auth_provider.config if user.auth_provider is not None else None) or {}

    def write(self, tokens: Mapping[str, str]) -> None:
        """Change entries of its `config`. Raises OSError."""
        with self._locked():
            content = load_yaml(read_bytes(self._path))
            for entry in content["users"]:
                if entry["name"] == self._user:
                    entry["user"]["auth-provider"]["config"].update(tokens)
            mode = self._path.stat().st_mode & 0o777
            descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}-", dir=self._path.parent)  # mode 0600
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    yaml.safe_dump(content, file, sort_keys=False, allow_unicode=True)
                Path(name).chmod(mode)
                Path(name).replace(self._path)
            except BaseException:
                Path(name).unlink()
                raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold kubectl's lock on the file. Raises OSError while another program holds it."""
        lock = self._path.with_name(f"{self._path.name}.lock")
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        try:
            yield
        finally:
            lock.unlink()


def _exec_cluster(path: Path, cluster: _Cluster) -> dict[str, Any]:
    """Return what an exec plug-in may receive about the cluster (`provideClusterInfo`)."""
    settings = next((each.extension for each in cluster.extensions or () if each.name == _EXEC_EXTENSION), None)
    found = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(_authority(path, cluster)).decode(),
        "proxy-url": cluster.proxy_url,
        "config": settings,
    }
    return {name: value for name, value in found.items() if value}


_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def _impersonation(user: _User) -> tuple[tuple[str, str], ...]:
    """Return the headers by which a user acts as another one. Raises CredentialsError."""
    others = [
        *(("Impersonate-Uid", uid) for uid in (user.impersonate_uid,) if uid),
        *(("Impersonate-Group", group) for group in user.impersonate_groups or ()),
        *(
            (f"Impersonate-Extra-{quote(key.lower(), safe='')}", value)
            for key, values in (user.impersonate_extra or {}).items()
            for value in values
        ),
    ]
    if not user.impersonate and others:
        raise CredentialsError("as-uid, as-groups and as-user-extra need as; add the name of the user to act as")
    headers = (("Impersonate-User", user.impersonate), *others) if user.impersonate else ()
    if any(not value.isprintable() for _, value in headers):
        raise CredentialsError("as, as-uid, as-groups and as-user-extra must be printable text; remove line breaks")
    return headers


def _read_pem(path: Path, name: str, data: str, file: str) -> bytes:
    """Return a PEM given inline (base64) or as a file relative to the kubeconfig; b"" for none."""
    try:
        if data:
            return base64.b64decode(data, validate=True)
        content = (path.parent / file).read_bytes() if file else b""
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: {name}: {error}") from error
    if file and not content:  # without an authority, those of the system would be trusted
        raise ConfigError(f"{path}: {name}: {file} is empty; write a certificate or key in PEM to it")
    return content


def _authority(path: Path, cluster: _Cluster) -> bytes:
    return _read_pem(path, "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority)


def _certificate(path: Path, user: _User) -> tuple[bytes, bytes]:
    certificate = _read_pem(path, "client-certificate", user.client_certificate_data, user.client_certificate)
    key = _read_pem(path, "client-key", user.client_key_data, user.client_key)
    if bool(certificate) != bool(key):
        raise ConfigError(f"{path}: client-certificate and client-key belong together; one is missing")
    return certificate, key


def _context(pems: _Pems, *, insecure: bool) -> SSLContext:
    """Return the client's TLS context. Raises SSLError and UnicodeDecodeError."""
    context = ssl.create_default_context(cadata=pems.authority.decode() if pems.authority else None)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if pems.certificate:
        _load_certificate(context, pems.certificate, pems.key)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate through a private temporary file: OpenSSL reads a key only from a file."""
    with tempfile.TemporaryDirectory(prefix="volcanoio-") as directory:
        pair = Path(directory) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(pair)
