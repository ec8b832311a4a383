"""Address and credentials of an API server, from a kubeconfig or a pod's service account.

Tokens, client certificates, basic passwords and CAs are read here. Credentials that must be fetched (exec plug-ins,
OIDC and other auth providers) and in-cluster ones use kubernetes_asyncio, which is imported only then: the import takes
half a second and 60 MiB. These credentials are renewed before they expire.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
import yaml

from volcanoio.model.documents import load_yaml, read_bytes

_RECHECK = 30.0
"""Seconds after which a token that can expire is checked again."""
_LOCK_POLL = 0.05
"""Seconds between looks at a token that another task fetches."""


class Credentials(Protocol):
    """Source of the Authorization header of requests."""

    async def header(self, *, renew: bool = False) -> str:
        """Return the header's value, "" for none. `renew`: the server refused the last one, fetch another."""
        ...


class StaticCredentials:
    """A fixed header, or a bearer token in a file that another program rotates."""

    def __init__(self, value: str = "", token_file: str = "") -> None:
        self._value = value
        self._file = token_file
        self._read_at = float("-inf")

    async def header(self, *, renew: bool = False) -> str:
        """Return the header's value; a token file is read again every 30 s."""
        if self._file and (renew or time.monotonic() - self._read_at > _RECHECK):
            self._value = "Bearer " + Path(self._file).read_text().strip()  # noqa: ASYNC240 - a small local file
            self._read_at = time.monotonic()
        return self._value


def basic_authorization(username: str, password: str) -> str:
    """Return the header's value for a name and a password (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class _LibraryCredentials:
    """Credentials that kubernetes_asyncio's loader renews. `load` updates its Configuration and checks token expiry."""

    def __init__(self, configuration: Any, load: Any, *, expires: Any) -> None:
        self._configuration = configuration
        self._load = load
        self._expires = expires
        self._checked = time.monotonic()
        self._lock = threading.Lock()  # leader election uses the credentials from a thread with its own event loop

    async def header(self, *, renew: bool = False) -> str:
        """Return the header's value. A token without expiry is fetched again only after the server refused it."""
        aged = self._expires() and time.monotonic() - self._checked > _RECHECK
        if renew or aged:
            while not self._lock.acquire(blocking=False):  # noqa: ASYNC110 - an Event belongs to one loop
                await asyncio.sleep(_LOCK_POLL)
            try:
                await self._load(renew)
                self._checked = time.monotonic()
            finally:
                self._lock.release()
        value = await self._configuration.get_api_key_with_prefix("BearerToken")
        return str(value or "")


async def from_kubeconfig(path: Path, context: str) -> tuple[Credentials, tuple[bytes, bytes] | None]:
    """Return credentials from an exec plug-in or auth provider, with its client certificate and key (PEM) if any."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - half a second and 60 MiB, only where needed

    configuration = client.Configuration()
    loader = await config.load_kube_config(
        config_file=str(path), context=context, client_configuration=configuration, persist_config=False
    )

    async def load(renew: bool) -> None:
        if renew and hasattr(loader, "exec_plugin_expiry"):
            del loader.exec_plugin_expiry
        await loader.load_and_set(configuration)

    credentials = _LibraryCredentials(
        configuration, load, expires=lambda: loader.provider is not None or hasattr(loader, "exec_plugin_expiry")
    )
    return credentials, _pair(configuration.cert_file, configuration.key_file)


def _pair(certificate: str | None, key: str | None) -> tuple[bytes, bytes] | None:
    return (Path(certificate).read_bytes(), Path(key).read_bytes()) if certificate and key else None


def from_cluster() -> tuple[str, str, Credentials]:
    """Return server, CA file and credentials of the service account of the pod that we run in."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - half a second and 60 MiB, only where needed

    configuration = client.Configuration()
    read: Any = config.load_incluster_config
    read(client_configuration=configuration)

    async def load(renew: bool) -> None:
        if renew:
            read(client_configuration=configuration)

    # The library's own hook, called by get_api_key_with_prefix, reads the rotated token file every minute.
    credentials = _LibraryCredentials(configuration, load, expires=lambda: False)
    return str(configuration.host), str(configuration.ssl_ca_cert), credentials


DEFAULT_PATH = Path("~/.kube/config")


class ConfigError(ValueError):
    """The kubeconfig cannot be used; the message contains file, field and next step."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Settings of a transport. `server` is the base URL without a trailing slash; `ssl` False disables verification."""

    server: str
    ssl: ssl.SSLContext | bool = True
    credentials: Credentials = field(default_factory=StaticCredentials)
    namespace: str = "default"
    proxy: str = ""


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""
    tls_server_name: str = ""


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None


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
    file = _kubeconfig_path(path)
    return in_cluster() if file is None else await from_file(file, context=context)


def _kubeconfig_path(path: str | Path | None) -> Path | None:
    """Return the kubeconfig to read; None if there is none and we run in a pod."""
    if path is None and (named := os.environ.get("KUBECONFIG", "")):
        if os.pathsep in named:
            raise ConfigError("KUBECONFIG names several files; give one with --kubeconfig")
        path = named
    file = Path(path or DEFAULT_PATH).expanduser()
    return None if path is None and not file.exists() and os.environ.get("KUBERNETES_SERVICE_HOST") else file


def in_cluster() -> Connection:
    """Return the connection of a pod with a service account; raises ConfigError outside a cluster."""
    try:
        server, ca_file, credentials = from_cluster()
    except Exception as error:  # naming the library's exception class would require its import
        raise ConfigError(f"no service account to use: {error}; run in a pod, or give a kubeconfig") from error
    namespace = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    return Connection(
        server.rstrip("/"),
        ssl.create_default_context(cafile=ca_file),
        credentials,
        namespace.read_text().strip() if namespace.exists() else "default",
    )


async def from_file(path: Path, *, context: str = "") -> Connection:
    """Return the connection that a kubeconfig file describes; raises ConfigError."""
    file = _read(path)
    context = context or file.current_context
    if not context:
        raise ConfigError(f"{path}: current-context is not set; set it to the name of one of the contexts in the file")
    chosen = _named_entry(path, "contexts", {item.name: item.context for item in file.contexts}, context)
    cluster = _named_entry(path, "clusters", {item.name: item.cluster for item in file.clusters}, chosen.cluster)
    users = {item.name: item.user for item in file.users}
    user = _named_entry(path, "users", users, chosen.user) if chosen.user else _User()
    if not cluster.server.startswith(("http://", "https://")):
        raise ConfigError(f"{path}: clusters[{chosen.cluster}].server must be an http(s) URL, not {cluster.server!r}")
    certificate: tuple[bytes, bytes] | None = None
    credentials: Credentials
    if user.exec is not None or user.auth_provider is not None:
        try:
            credentials, certificate = await from_kubeconfig(path, context)
        except Exception as error:  # the plug-in may raise anything; name the file that configured it
            raise ConfigError(f"{path}: users[{chosen.user}]: the credential plug-in failed: {error}") from error
    else:
        credentials = _static_credentials(path, user)
        certificate = _certificate(path, user)
    return Connection(
        cluster.server.rstrip("/"),
        _tls(path, cluster, certificate) if cluster.server.startswith("https://") else True,
        credentials,
        chosen.namespace,
        cluster.proxy_url,
    )


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


def _named_entry(path: Path, section: str, known: dict[str, Any], name: str) -> Any:
    if name not in known:
        raise ConfigError(f"{path}: {section} has no {name!r}; it has {', '.join(sorted(known)) or 'none'}")
    return known[name]


def _static_credentials(path: Path, user: _User) -> StaticCredentials:
    if user.token_file:
        return StaticCredentials(token_file=str(path.parent / user.token_file))
    if user.token:
        return StaticCredentials(value=f"Bearer {user.token}")
    if user.username:
        return StaticCredentials(value=basic_authorization(user.username, user.password))
    return StaticCredentials()


def _read_pem(path: Path, name: str, data: str, file: str) -> bytes:
    """Return a PEM given inline (base64) or as a file relative to the kubeconfig; b"" for none."""
    try:
        if data:
            return base64.b64decode(data, validate=True)
        return (path.parent / file).read_bytes() if file else b""
    except (binascii.Error, OSError) as error:
        raise ConfigError(f"{path}: {name}: {error}") from error


def _certificate(path: Path, user: _User) -> tuple[bytes, bytes] | None:
    certificate = _read_pem(path, "client-certificate", user.client_certificate_data, user.client_certificate)
    key = _read_pem(path, "client-key", user.client_key_data, user.client_key)
    if bool(certificate) != bool(key):
        raise ConfigError(f"{path}: client-certificate and client-key belong together; one is missing")
    return (certificate, key) if certificate else None


def _tls(path: Path, cluster: _Cluster, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    """Return the client's TLS context, with a client certificate (certificate, key in PEM) if there is one."""
    if cluster.tls_server_name:
        raise ConfigError(f"{path}: tls-server-name is not supported; use a server name that its certificate holds")
    authority = _read_pem(
        path, "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority
    )
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            _load_certificate(context, *certificate)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: certificates cannot be used: {error}") from error
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate through a private temporary file: OpenSSL reads a key only from a file."""
    with tempfile.TemporaryDirectory(prefix="volcanoio-") as directory:
        pair = Path(directory) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(pair)
