"""What the contract tests share: a cluster reached over HTTP, embedded or real, and a few manifests.

Synchronous on purpose: a test reads as the conversation it has with the server.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import itertools
import json
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlencode, urlsplit

import yaml

Obj: TypeAlias = dict[str, Any]
T = TypeVar("T")
FOREIGN = "VOLCANOIO_CONTRACT_KUBECONFIG"
"""The environment variable that names the kubeconfig of a cluster to test instead of the embedded server."""
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
THROWAWAY = "VOLCANOIO_CONTRACT_THROWAWAY"
"""The environment variable that says that this cluster is for the tests alone: they may change all of it."""
SECONDS = 60
"""How long an answer or an event may take before a test fails: garbage collectors know new kinds after 30 s."""
_PAUSE = 0.05


@dataclass(frozen=True)
class Answer:
    """One whole answer; `body` is decoded when it is JSON, names of headers are in lower case."""

    code: int
    body: Any
    headers: Mapping[str, str]

    def ok(self) -> Obj:
        """Return the object of a successful response."""
        assert 200 <= self.code < 300, (self.code, self.body)
        assert isinstance(self.body, dict)
        return self.body

    def refused(self, code: int, reason: str) -> Obj:
        """Return the Status of a refusal with this code and reason."""
        assert (self.code, self.body.get("kind"), self.body.get("reason")) == (code, "Status", reason), self.body
        assert self.body["code"] == code
        assert self.body["status"] == "Failure"
        status: Obj = self.body
        return status


@dataclass
class Cluster:
    """An API server: where it is and how to log in."""

    url: str
    kubeconfig: Path
    headers: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    _idle: list[http.client.HTTPConnection] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, kubeconfig: Path) -> Cluster:
        """Return the cluster of a kubeconfig's current context: tokens and certificates, in the file or separate."""
        config = yaml.safe_load(kubeconfig.read_text())
        named = {key: {one["name"]: one[key[:-1]] for one in config[key]} for key in ("clusters", "users", "contexts")}
        context = named["contexts"][config["current-context"]]
        cluster, user = named["clusters"][context["cluster"]], named["users"][context["user"]]
        headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
        tls = None
        if cluster["server"].startswith("https:"):
            authority = _data(cluster, "certificate-authority")
            tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
            certificate, key = _data(user, "client-certificate"), _data(user, "client-key")
            if certificate and key:
                with tempfile.NamedTemporaryFile() as file:
                    file.write(certificate + b"\n" + key)
                    file.flush()
                    tls.load_cert_chain(file.name)
        return cls(cluster["server"].rstrip("/"), kubeconfig, headers, tls)

    def _connection(self) -> http.client.HTTPConnection:
        address = urlsplit(self.url)
        if self.tls:
            return http.client.HTTPSConnection(address.netloc, timeout=SECONDS, context=self.tls)
        return http.client.HTTPConnection(address.netloc, timeout=SECONDS)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """Send one request; `body` is sent as JSON unless it is bytes."""
        connection = self._idle.pop() if self._idle else self._connection()
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = self.headers | {"Accept": accept, "Content-Type": content_type} | dict(headers or {})
        try:
            connection.request(method, _with(path, query), data, sent)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        is_json = content[:1] == b"{"  # whatever the type: /openapi/v3 is said to be text/plain
        answered = {name.lower(): ", ".join(response.headers.get_all(name, ())) for name in response.headers}
        return Answer(response.status, json.loads(content) if is_json else content, answered)

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()

    def get(self, path: str, **query: Any) -> Answer:
        """GET."""
        return self.request("GET", path, **query)

    def create(self, path: str, body: Any, **query: Any) -> Answer:
        """POST."""
        return self.request("POST", path, body, **query)

    def replace(self, path: str, body: Any, **query: Any) -> Answer:
        """PUT."""
        return self.request("PUT", path, body, **query)

    def patch(self, path: str, body: Any, content_type: str = MERGE, **query: Any) -> Answer:
        """PATCH."""
        return self.request("PATCH", path, body, content_type=content_type, **query)

    def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        """DELETE."""
        return self.request("DELETE", path, body, **query)

    @contextmanager
    def watch(self, path: str, *, accept: str = "application/json", **query: Any) -> Iterator[Iterator[Obj]]:
        """Yield the events of a watch until the server ends it; a refusal becomes an ERROR event."""
        connection = self._connection()
        try:
            headers = self.headers | {"Accept": accept}
            connection.request("GET", _with(path, {"watch": "true", **query}), headers=headers)
            response = connection.getresponse()
            if response.status == 200:
                yield (json.loads(line) for line in iter(response.readline, b""))
            else:
                yield iter([{"type": "ERROR", "object": json.loads(response.read())}])
        finally:
            connection.close()


def _with(path: str, query: Mapping[str, Any]) -> str:
    text = urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()})
    return f"{path}?{text}" if text else path


def _data(holder: Obj, name: str) -> bytes | None:
    if holder.get(f"{name}-data"):
        return base64.b64decode(holder[f"{name}-data"])
    return Path(holder[name]).read_bytes() if holder.get(name) else None


def gone(cluster: Cluster, path: str) -> None:
    """Wait by watching, as a client does, until nothing is at `path`."""
    collection, _, name = path.rpartition("/")
    query = {"fieldSelector": f"metadata.name={name}"}
    listed = cluster.get(collection, **query).ok()
    if listed["items"]:
        with cluster.watch(collection, resourceVersion=listed["metadata"]["resourceVersion"], **query) as events:
            assert any(event["type"] == "DELETED" for event in events)


def eventually(attempt: Callable[[], T | None]) -> T:
    """Return the first result of `attempt` that is not None, for changes that no watch reports."""
    deadline = time.monotonic() + SECONDS
    while (found := attempt()) is None:
        assert time.monotonic() < deadline, f"nothing after {SECONDS} s"
        time.sleep(_PAUSE)
    return found


def established(cluster: Cluster, name: str) -> None:
    """Wait until a definition of custom resources is served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with cluster.watch(path, fieldSelector=f"metadata.name={name}") as events:
        for event in events:
            conditions = event["object"].get("status", {}).get("conditions") or ()
            if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                return


def wait_until_stable(cluster: Cluster, namespace: str) -> None:
    """Wait until controllers have put into a new namespace what they put into each: an account, a ConfigMap."""
    listed = [("serviceaccounts", "default")]
    if cluster.get("/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt").code == 200:
        listed.append(("configmaps", "kube-root-ca.crt"))
    for plural, name in listed:
        with cluster.watch(f"/api/v1/namespaces/{namespace}/{plural}", fieldSelector=f"metadata.name={name}") as events:
            next(events)


async def connections_closed() -> None:
    """Wait until the connections that an asyncio client has closed are gone: TLS says goodbye to the server first.

    Clients do not wait for it themselves, and the event loop of a test ends with the test.
    """
    transports = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]  # the loop keeps no public list
    while any(one._sock is not None for one in list(transports.values())):  # noqa: ASYNC110 - no watch reports them
        await asyncio.sleep(0)


_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """Return a name that no other test, nor an earlier run against the same server, has used."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


@dataclass(frozen=True)
class Namespace:
    """A namespace of a test's own."""

    cluster: Cluster
    name: str

    def path(self, plural: str, name: str = "", subresource: str = "") -> str:
        """Return the path of a namespaced resource; `plural` may contain a group as `plural.version.group`."""
        kind, _, rest = plural.partition(".")
        version, _, group = rest.partition(".")
        root = f"/apis/{group}/{version}" if group else "/api/v1"
        return "/".join(part for part in (f"{root}/namespaces/{self.name}/{kind}", name, subresource) if part)

    def config_map(self, name: str = "", labels: Mapping[str, str] | None = None, **data: str) -> Obj:
        """Create a ConfigMap."""
        return self.cluster.create(self.path("configmaps"), config_map(name or unique("cm"), labels, **data)).ok()

    def pod(self, name: str = "", **spec: Any) -> Obj:
        """Create a Pod that no scheduler of the cluster places."""
        return self.cluster.create(self.path("pods"), pod(name or unique("pod"), **spec)).ok()

    def bind(self, name: str, node: str, **metadata: Any) -> Answer:
        """Bind a pod to a node."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}
        return self.cluster.create(self.path("pods", name, "binding"), body)


def config_map(name: str, labels: Mapping[str, str] | None = None, **data: str) -> Obj:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


def pod(name: str, **spec: Any) -> Obj:
    """A Pod for a scheduler that does not exist, so that a test alone decides what becomes of it."""
    containers = [{"name": "main", "image": "busybox", "command": ["sleep", "3600"]}]
    base = {"containers": containers, "schedulerName": "contract-tests"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": base | spec}
