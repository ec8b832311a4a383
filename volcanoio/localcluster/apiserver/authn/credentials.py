"""The server's certificates, bearer token and service account key on disk, and the kubeconfig.

kubectl sends no bearer token over plain http, so the server uses TLS. The authority signs one server certificate and
its key is discarded; a restart on the same directory reuses everything, so that a kubeconfig stays valid. Another
authority signs client certificates; its key is kept for more users. Files with secrets are readable by their owner
only, and written atomically.
"""

from __future__ import annotations

import base64
import os
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from volcanoio.localcluster.apiserver.apimachinery.request import MASTERS, OWNER
from volcanoio.localcluster.apiserver.authn.tokens import new_key
from volcanoio.model.documents import load_yaml


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path` with mode 0600, atomically.

    A reader gets the old file or the whole new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # created with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


VALIDITY = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=30)
_CA, _CERTIFICATE, _KEY, _TOKEN = "ca.crt", "server.crt", "server.key", "token"
_CLIENT_CA, _CLIENT_CA_KEY, _ACCOUNT_KEY = "client-ca.crt", "client-ca.key", "sa.key"
_ADMIN, _ADMIN_KEY = "admin.crt", "admin.key"


class ClientCertificate(NamedTuple):
    """A user's certificate and its key, both in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Identity:
    """Credentials of a server.

    The authority's certificate in PEM, the files of the server's certificate and key, and the bearer token.

    `client_ca` signs client certificates, of which `admin` is the owner's; `account_key` signs service account
    tokens.
    """

    ca_pem: bytes
    certificate: Path
    key: Path
    token: str
    client_ca: Path
    client_ca_key: Path
    admin: ClientCertificate
    account_key: bytes

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS settings of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["http/1.1"])
        context.load_verify_locations(self.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return the TLS settings of a client that trusts only this server."""
        return ssl.create_default_context(cadata=self.ca_pem.decode())

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> ClientCertificate:
        """Issue a certificate for a user and groups (common name and organisations)."""
        authority = x509.load_pem_x509_certificate(self.client_ca.read_bytes())
        signer = load_pem_private_key(self.client_ca_key.read_bytes(), None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            msg = f"{self.client_ca_key}: not an EC key; remove the file, and a new authority is made"
            raise TypeError(msg)
        return _client_certificate(authority, signer, user, groups)


def load_or_create(directory: Path) -> Identity:
    """Return the identity stored in `directory`, or a new one.

    A new one is created when there is none, or it is damaged or about to expire.
    """
    if not _usable(directory):
        _create(directory)
    if not _clients_usable(directory):
        _create_clients(directory)
    return Identity(
        ca_pem=(directory / _CA).read_bytes(),
        certificate=directory / _CERTIFICATE,
        key=directory / _KEY,
        token=(directory / _TOKEN).read_text().strip(),
        client_ca=directory / _CLIENT_CA,
        client_ca_key=directory / _CLIENT_CA_KEY,
        admin=ClientCertificate((directory / _ADMIN).read_bytes(), (directory / _ADMIN_KEY).read_bytes()),
        account_key=(directory / _ACCOUNT_KEY).read_bytes(),
    )


def _usable(directory: Path) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate((directory / _CERTIFICATE).read_bytes())
        authority = x509.load_pem_x509_certificate((directory / _CA).read_bytes())
        certificate.verify_directly_issued_by(authority)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(directory / _CERTIFICATE, directory / _KEY)
        has_token = bool((directory / _TOKEN).read_text().strip())
    except Exception:  # new files replace damaged ones, whatever the error
        return False
    return has_token and certificate.not_valid_after_utc - RENEW_BEFORE > datetime.now(UTC)


def _clients_usable(directory: Path) -> bool:
    """Return whether the files for client certificates and service accounts exist.

    They are missing in older directories.
    """
    try:
        authority = x509.load_pem_x509_certificate((directory / _CLIENT_CA).read_bytes())
        admin = x509.load_pem_x509_certificate((directory / _ADMIN).read_bytes())
        admin.verify_directly_issued_by(authority)
        for name in (_CLIENT_CA_KEY, _ADMIN_KEY, _ACCOUNT_KEY):
            load_pem_private_key((directory / name).read_bytes(), None)
    except Exception:  # new files replace damaged ones, whatever the error
        return False
    return admin.not_valid_after_utc - RENEW_BEFORE > datetime.now(UTC)


def _create_clients(directory: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(key, "volcanoio-client-ca")
    admin = _client_certificate(authority, key, OWNER.username, (MASTERS,))
    write_private(directory / _CLIENT_CA, authority.public_bytes(Encoding.PEM))
    write_private(directory / _CLIENT_CA_KEY, _private(key))
    write_private(directory / _ADMIN, admin.certificate)
    write_private(directory / _ADMIN_KEY, admin.key)
    write_private(directory / _ACCOUNT_KEY, new_key())


def _client_certificate(
    authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey, user: str, groups: Sequence[str]
) -> ClientCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    certificate = (
        _builder(subject, authority.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return ClientCertificate(certificate.public_bytes(Encoding.PEM), _private(key))


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _create(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _authority(authority_key)
    certificate = _server_certificate(authority, authority_key, server_key.public_key())
    write_private(directory / _CA, authority.public_bytes(Encoding.PEM))
    write_private(directory / _CERTIFICATE, certificate.public_bytes(Encoding.PEM))
    write_private(directory / _KEY, _private(server_key))
    write_private(directory / _TOKEN, secrets.token_urlsafe(32).encode())


def _authority(key: ec.EllipticCurvePrivateKey, prefix: str = "volcanoio-ca") -> x509.Certificate:
    # A name with a random part: certificates of two clusters must not share issuer and serial.
    name = _name(f"{prefix}-{secrets.token_hex(4)}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server_certificate(
    authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePublicKey
) -> x509.Certificate:
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(IPv4Address("127.0.0.1")),
        x509.IPAddress(IPv6Address("::1")),
    ]
    return (
        _builder(_name("volcanoio-apiserver"), authority.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # tolerates a clock that is set back a little
        .not_valid_after(now + VALIDITY)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


CONTEXT = "volcanoio"
CERTIFICATE_CONTEXT = "volcanoio-certificate"
"""Context of the same cluster and user with a client certificate instead of the token."""


def render_kubeconfig(
    server: str,
    *,
    token: str = "",
    ca_pem: bytes = b"",
    namespace: str = "default",
    certificate: ClientCertificate | None = None,
) -> str:
    """Return a kubeconfig in YAML with one cluster, user and context, all named volcanoio.

    `server` is a URL.

    With a client certificate there is a second context that uses it.
    """
    cluster: dict[str, str] = {"server": server}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    users: dict[str, dict[str, str]] = {CONTEXT: {"token": token} if token else {}}
    if certificate is not None:
        data = {"client-certificate-data": certificate.certificate, "client-key-data": certificate.key}
        users[CERTIFICATE_CONTEXT] = {key: base64.b64encode(pem).decode() for key, pem in data.items()}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [
            {"name": name, "context": {"cluster": CONTEXT, "user": name, "namespace": namespace}} for name in users
        ],
        "current-context": CONTEXT,
        "preferences": {},
    }
    return yaml.safe_dump(document, sort_keys=False)


def write_kubeconfig(path: Path, text: str) -> Path:
    """Write a kubeconfig to `path` (mode 0600, atomically) and return the path."""
    write_private(path, text.encode())
    return path


def kubeconfig_port(path: Path) -> int:
    """Return the server's port in a kubeconfig of `write_kubeconfig`.

    The result is 0 when there is none, or it is unreadable.
    """
    try:
        clusters = load_yaml(path.read_bytes())["clusters"]
        server = next(each["cluster"]["server"] for each in clusters if each["name"] == CONTEXT)
        return urlsplit(server).port or 0
    except (OSError, ValueError, LookupError, TypeError, StopIteration, AttributeError, yaml.YAMLError):
        return 0  # another program's file, or an edited one: ignored
