"""Certificates of a throw-away control plane: one authority that signs servers and clients, and a signing key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = timedelta(days=30)
SERVICE_ADDRESS = "10.96.0.1"
"""Cluster address of the service `kubernetes`: the first of the range that kube-apiserver is given."""
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key in PEM."""

    certificate: bytes
    key: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Store as `name`.crt and `name`.key; returns both paths."""
        certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)
        key.chmod(0o600)
        return certificate, key


class Authority:
    """A certificate authority that lives as long as this object."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("volcanoio-real-ca", ())
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(Encoding.PEM)

    def server(self, common_name: str) -> Pair:
        """For a server on the loopback address, which pods reach at the address of the service `kubernetes`."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVER_NAMES]
        names += [x509.IPAddress(IPv4Address(address)) for address in ("127.0.0.1", SERVICE_ADDRESS)]
        return self._issue(common_name, (), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """For a client: Kubernetes reads the user from the common name and groups from the organisations."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def _issue(
        self,
        common_name: str,
        organisations: Sequence[str],
        usage: x509.ObjectIdentifier,
        names: Sequence[x509.GeneralName],
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_name(common_name, organisations), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM), _pem(key))


def signing_keys() -> tuple[bytes, bytes]:
    """A private and a public key in PEM that sign and verify tokens of service accounts."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return _pem(key), key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(common_name: str, organisations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organisations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALIDITY)
    )
