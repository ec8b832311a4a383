"""An admission webhook server on loopback with an authority of its own, for any API server to call."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.contract.support import Obj

SERVICE_NAME = "hooks.default.svc"
"""The Service that the certificate is also for."""

Reviewer = Callable[[Obj], Obj]
"""From `AdmissionReview.request` to `AdmissionReview.response`, without the uid."""


@dataclass
class HookServer:
    """What listens at `url`, and whom to trust there; each path answers as its reviewer says."""

    url: str
    authority: bytes
    reviewers: dict[str, Reviewer] = field(default_factory=dict)
    raw: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    requests: list[tuple[str, Obj]] = field(default_factory=list)

    @property
    def ca_bundle(self) -> str:
        """For `clientConfig.caBundle`."""
        return base64.b64encode(self.authority).decode()

    def asked(self, path: str, name: str = "") -> list[Obj]:
        """Return the requests sent to a path about an object of that name."""
        return [one for at, one in self.requests if at == path and (not name or one.get("name") == name)]


def allow(request: Obj) -> Obj:
    """Agree to everything."""
    del request
    return {"allowed": True}


def patching(*operations: Obj) -> Reviewer:
    """Agree, with a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


@contextmanager
def hook_server() -> Iterator[HookServer]:
    """Serve until the block ends."""
    certificate, key = _certificate()
    state = HookServer("", certificate)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0]
            request = review["request"]
            state.requests.append((path, request))
            code, body = state.raw.get(path, (200, b""))
            if path in state.reviewers:
                response = {"uid": request["uid"], **state.reviewers[path](request)}
                body = json.dumps({**review, "request": None, "response": response}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
            del format, args

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            del request, client_address  # a client that does not trust us, or goes

    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _files(certificate, key) as (certificate_file, key_file):
        context.load_cert_chain(certificate_file, key_file)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    state.url = f"https://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="webhooks")
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _files(certificate: bytes, key: bytes) -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory() as directory:
        paths = Path(directory) / "tls.crt", Path(directory) / "tls.key"
        for path, content in zip(paths, (certificate, key), strict=True):
            path.write_bytes(content)
        yield paths


def _certificate() -> tuple[bytes, bytes]:
    """A certificate that is its own authority, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "contract-webhooks")])
    now = datetime.now(UTC)
    names = [x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName(SERVICE_NAME)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private
