"""Users of a kubeconfig against a server that checks them: exec plug-ins, certificates, impersonation, names, files."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import ssl
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from tests.unit.kube.identity_provider import kubeconfig
from volcanoio.kube.credentials import sources
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import ConfigError, Connection, from_file, from_files, in_cluster
from volcanoio.kube.transport import NoCredentials, StreamRefused, TransportError
from volcanoio.localcluster.apiserver.authn.credentials import ClientCertificate, load_or_create
from volcanoio.runtime.webhooks.certificates import create, server_context


@pytest.fixture(autouse=True)
def _renewals_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_PAUSE", 0.0)


@asynccontextmanager
async def serving(accept: Callable[[web.Request], str], context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve the text that `accept` returns, 401 for ""; yields the URL."""

    async def handle(request: web.Request) -> web.Response:
        text = accept(request)
        return web.Response(text=text) if text else web.Response(status=401)

    app = web.Application()
    app.router.add_get("/{rest:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def transport_of(connection: Connection) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(connection)
    try:
        yield transport
    finally:
        await transport.aclose()


class Plugin:
    """A plug-in as a program that prints `status` and counts its runs."""

    def __init__(self, directory: Path, status: dict[str, Any]) -> None:
        self._directory = directory
        self.issue(status)
        (directory / "plugin.py").write_text(
            "import os, pathlib, sys\n"
            "here = pathlib.Path(__file__).parent\n"
            "with open(here / 'runs', 'a') as file:\n"
            "    file.write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
            "print((here / 'credential').read_text())\n"
            "sys.exit(int((here / 'code').read_text()) if (here / 'code').exists() else 0)\n"
        )

    def issue(self, status: dict[str, Any]) -> None:
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        (self._directory / "credential").write_text(json.dumps(credential))

    def fail(self) -> None:
        (self._directory / "code").write_text("3")

    @property
    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._directory / "runs").read_text().splitlines()]

    def user(self, **more: Any) -> dict[str, Any]:
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": [str(self._directory / "plugin.py")],
                "env": None,
                "interactiveMode": "Never",
            }
            | more
        }


def bearer(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


async def test_many_refused_requests_run_the_plugin_once(tmp_path: Path) -> None:
    valid, plugin = ["one"], Plugin(tmp_path, {"token": "one"})
    async with serving(lambda request: bearer(request) if bearer(request) in valid else "") as url:
        connection = await from_file(kubeconfig(tmp_path / "config", plugin.user(), url))
        async with transport_of(connection) as transport:
            valid[:] = ["two"]
            plugin.issue({"token": "two"})
            answers = await asyncio.gather(*(transport.request("GET", "/x") for _ in range(20)))
    assert {answer.body for answer in answers} == {b"two"}
    assert len(plugin.runs) == 2


async def test_a_watch_renews_refused_credentials_too(tmp_path: Path) -> None:
    valid, plugin = ["one"], Plugin(tmp_path, {"token": "one"})
    async with serving(lambda request: bearer(request) if bearer(request) in valid else "") as url:
        connection = await from_file(kubeconfig(tmp_path / "config", plugin.user(), url))
        async with transport_of(connection) as transport:
            valid[:] = ["two"]
            plugin.issue({"token": "two"})
            async with transport.stream("/x") as lines:
                assert [line async for batch in lines for line in batch] == [b"two"]
            valid[:] = ["three"]
            with pytest.raises(StreamRefused) as refused:
                async with transport.stream("/x"):
                    pass
    assert refused.value.response.status == 401


async def test_a_plugin_that_fails_is_a_transport_error(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, {"token": "one"})
    async with serving(lambda _: "") as url:
        connection = await from_file(kubeconfig(tmp_path / "config", plugin.user(), url))
        async with transport_of(connection) as transport:
            plugin.fail()
            with pytest.raises(NoCredentials, match=r"GET /x: exec: \S+ ended with exit code 3; run it by hand"):
                await transport.request("GET", "/x")
            with pytest.raises(NoCredentials, match="GET /x: exec: "):
                async with transport.stream("/x"):
                    pass


@pytest.mark.parametrize("error", [ValueError("a"), KeyError("a"), RuntimeError("a")])
async def test_any_error_of_credentials_is_a_transport_error(error: Exception) -> None:
    class Broken:
        async def header(self, *, refused: str | None = None) -> str:
            raise error

    async with transport_of(Connection("http://127.0.0.1:9", credentials=Broken())) as transport:
        with pytest.raises(TransportError, match=type(error).__name__):
            await transport.request("GET", "/x")
        with pytest.raises(TransportError, match=type(error).__name__):
            async with transport.stream("/x"):
                pass


async def test_a_request_does_not_wait_for_credentials_longer_than_its_timeout() -> None:
    class Slow:
        async def header(self, *, refused: str | None = None) -> str:
            await asyncio.Event().wait()
            return ""

    async with transport_of(Connection("http://127.0.0.1:9", credentials=Slow())) as transport:
        with pytest.raises(TransportError, match="no answer in time"):
            await transport.request("GET", "/x", timeout=0.01)


async def test_connections_are_closed_also_by_a_task_that_is_cancelled() -> None:
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        async with serving(lambda _: "ok") as url:
            transport = HttpTransport(Connection(url))
            await transport.request("GET", "/x")
            with anyio.CancelScope() as scope:
                scope.cancel()
                await transport.aclose()
            del transport
            gc.collect()
    assert [str(each.message) for each in unclosed] == []


async def test_a_plugin_receives_what_its_settings_say(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, {"token": "one", "expirationTimestamp": "2100-01-01T00:00:00Z"})
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    async with serving(bearer) as url:
        user = plugin.user(provideClusterInfo=True)
        connection = await from_file(kubeconfig(tmp_path / "config", user, url, extensions=[extension]))
        async with transport_of(connection) as transport:
            assert (await transport.request("GET", "/x")).body == b"one"
    cluster = {"server": url, "config": {"audience": "a"}}
    assert plugin.runs == [
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "spec": {"interactive": False, "cluster": cluster},
        }
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion: .* is not supported; valid values"),
        ({"command": ""}, "exec.command: missing"),
        ({"interactiveMode": "x"}, "exec.interactiveMode: 'x' is not supported; valid values: Never"),
        ({"interactiveMode": "Always"}, "needs a terminal"),
        ({"command": "no-such-program", "installHint": "pip install x"}, "No such file or directory.; pip install x"),
        ({"command": "./no-such-program"}, "cannot be run .No such file or directory.; install it"),
        ({"apiVersion": "client.authentication.k8s.io/v1beta1"}, "printed apiVersion 'client.authentication"),
        ({"args": ["-c", "print('{}')"]}, "printed no ExecCredential"),
    ],
)  # fmt: skip
async def test_settings_of_a_plugin_that_cannot_work_are_named(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    user = Plugin(tmp_path, {"token": "one"}).user(**change)
    with pytest.raises(ConfigError, match=words):
        await from_file(kubeconfig(tmp_path / "config", user))


@pytest.mark.parametrize("status", [{}, {"token": "a\nb"}, {"clientCertificateData": "x"}])
async def test_a_plugin_that_prints_no_usable_credentials_is_an_error(tmp_path: Path, status: dict[str, str]) -> None:
    plugin = Plugin(tmp_path, status)
    with pytest.raises(ConfigError, match=r"neither a token|no header may have"):
        await from_file(kubeconfig(tmp_path / "config", plugin.user()))


def peer(request: web.Request) -> str:
    """Return the common name of the client's certificate."""
    assert request.transport is not None
    found = request.transport.get_extra_info("peercert") or {}
    return next((value for part in found.get("subject", ()) for key, value in part if key == "commonName"), "")


def status_of(certificate: ClientCertificate) -> dict[str, str]:
    return {
        "clientCertificateData": certificate.certificate.decode(),
        "clientKeyData": certificate.key.decode(),
    }


async def test_a_certificate_that_a_plugin_issues_replaces_a_refused_one(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path / "server")
    plugin, refused = Plugin(tmp_path, status_of(identity.issue_client("one"))), set[str]()
    authority = base64.b64encode(identity.ca_pem).decode()

    def accept(request: web.Request) -> str:
        return "" if peer(request) in refused else peer(request)

    async with serving(accept, identity.server_context()) as url:
        path = kubeconfig(tmp_path / "config", plugin.user(), url, **{"certificate-authority-data": authority})
        connection = await from_file(path)
        async with transport_of(connection) as transport:
            assert (await transport.request("GET", "/x")).body == b"one"
            refused.add("one")
            plugin.issue(status_of(identity.issue_client("two")))
            assert (await transport.request("GET", "/x")).body == b"two"


async def test_certificates_in_files_are_read_again(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path / "server")

    def write(name: str) -> None:
        issued = identity.issue_client(name)
        (tmp_path / "me.crt").write_bytes(issued.certificate)
        (tmp_path / "me.key").write_bytes(issued.key)

    write("one")
    (tmp_path / "ca.crt").write_bytes(identity.ca_pem)
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    refused = set[str]()
    async with serving(
        lambda request: "" if peer(request) in refused else peer(request), identity.server_context()
    ) as url:
        path = kubeconfig(tmp_path / "config", user, url, **{"certificate-authority": "ca.crt"})
        async with transport_of(await from_file(path)) as transport:
            assert (await transport.request("GET", "/x")).body == b"one"
            refused.add("one")
            (tmp_path / "me.key").write_bytes(b"")  # half of the pair is written
            assert (await transport.request("GET", "/x")).status == 401
            write("two")
            assert (await transport.request("GET", "/x")).body == b"two"
            async with transport.stream("/x") as lines:
                assert [line async for batch in lines for line in batch] == [b"two"]


async def test_the_name_in_the_servers_certificate_may_differ_from_the_address(tmp_path: Path) -> None:
    held = create(("api.test",), datetime.now(UTC))
    cluster = {"certificate-authority-data": base64.b64encode(held.bundle).decode()}
    async with serving(lambda _: "ok", server_context(held)) as url:
        async with transport_of(await from_file(kubeconfig(tmp_path / "a", {}, url, **cluster))) as transport:
            with pytest.raises(TransportError, match="certificate"):
                await transport.request("GET", "/x")
        cluster["tls-server-name"] = "api.test"
        async with transport_of(await from_file(kubeconfig(tmp_path / "b", {}, url, **cluster))) as transport:
            assert (await transport.request("GET", "/x")).body == b"ok"


async def test_a_user_who_acts_as_another_says_so_in_each_request(tmp_path: Path) -> None:
    user = {
        "token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"],
        "as-user-extra": {"Acme.com/scope": ["x", "y"]},
    }  # fmt: skip
    seen: list[tuple[str, str]] = []

    def accept(request: web.Request) -> str:
        seen.extend((name, value) for name, value in request.headers.items() if name.startswith("Impersonate-"))
        return "ok"

    async with serving(accept) as url:
        connection = await from_file(kubeconfig(tmp_path / "config", user, url))
        async with transport_of(connection) as transport:
            await transport.request("GET", "/x")
    assert seen == [
        ("Impersonate-User", "jane"), ("Impersonate-Uid", "7"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"),
        ("Impersonate-Extra-acme.com%2Fscope", "x"), ("Impersonate-Extra-acme.com%2Fscope", "y"),
    ]  # fmt: skip


@pytest.mark.parametrize("user", [{"as-groups": ["a"]}, {"as": "a\r\nX: y"}])
async def test_an_impersonation_that_would_not_work_is_refused(tmp_path: Path, user: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"users\[u\]: as"):
        await from_file(kubeconfig(tmp_path / "config", user))


@pytest.mark.parametrize("proxy", ["socks5://u:s3cr3t@h:1", "nonsense"])
async def test_a_proxy_that_is_not_supported_is_refused(tmp_path: Path, proxy: str) -> None:
    with pytest.raises(ConfigError, match=r"proxy-url: .* not supported; use an http or https proxy") as caught:
        await from_file(kubeconfig(tmp_path / "config", {}, **{"proxy-url": proxy}))
    assert "s3cr3t" not in str(caught.value)


async def test_requests_pass_through_the_proxy_of_the_cluster(tmp_path: Path) -> None:
    async with serving(lambda request: str(request.url)) as proxy:
        path = kubeconfig(tmp_path / "config", {}, "http://api.test:8001", **{"proxy-url": proxy})
        async with transport_of(await from_file(path)) as transport:
            assert (await transport.request("GET", "/x")).body == b"http://api.test:8001/x"


async def test_of_several_kubeconfigs_the_first_entry_of_a_name_counts(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = tmp_path / "first"
    first.write_text("users: [{name: u, user: {tokenFile: token}}]\ncontexts: []")
    (tmp_path / "token").write_text("of-first")
    second = kubeconfig(tmp_path / "other" / "second", {"token": "of-second"})
    connection = await from_files([tmp_path / "missing", first, second])
    assert (connection.server, connection.namespace) == ("http://127.0.0.1:8001", "team")
    assert await connection.credentials.header() == "Bearer of-first"
    with pytest.raises(ConfigError, match=f"{first}, {second}: contexts has no 'x'; it has here"):
        await from_files([first, second], context="x")
    with pytest.raises(ConfigError, match="missing: No such file"):
        await from_files([tmp_path / "missing", tmp_path / "missing-too"])


async def test_the_service_account_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = create(("127.0.0.1",), datetime.now(UTC))
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "ca.crt").write_bytes(held.bundle)
    (tmp_path / "namespace").write_text("team")
    async with serving(bearer, server_context(held)) as url:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", url.rpartition(":")[2])
        connection = in_cluster(tmp_path)
        async with transport_of(connection) as transport:
            assert (await transport.request("GET", "/x")).body == b"one"
    assert connection.namespace == "team"
    (tmp_path / "ca.crt").write_text("")
    with pytest.raises(ConfigError, match=r"ca\.crt is empty"):
        in_cluster(tmp_path)
