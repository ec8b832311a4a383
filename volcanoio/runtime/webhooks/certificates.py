"""Authority and serving certificate of the webhooks: made, checked, renewed and loaded.

`renewed` decides what is used from now on; it depends on the time and the certificates alone. A new authority is
trusted (its certificate is in the bundle) for `OVERLAP` before it signs the serving certificate, so that every API
server knows it by then.
"""

from __future__ import annotations

import ssl
import tempfile
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_VALIDITY = timedelta(days=5 * 365)
SERVING_VALIDITY = timedelta(days=365)
RENEW_AT = 2 / 3
"""Part of its validity after which a certificate is renewed: four months before a serving certificate expires."""
OVERLAP = timedelta(hours=1)
"""How long a new authority is only trusted before it signs."""
_SKEW = timedelta(minutes=10)
"""By how much the clocks of API servers may be late."""

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class CertificateError(ValueError):
    """Certificates cannot be used; the message contains the file or Secret, the rule and the next step."""


class Certificates(NamedTuple):
    """Serving certificate and key, and the bundle of authorities for webhook configurations, in PEM.

    `authority_key` is the key of the bundle's first authority if it is ours, else b"".
    """

    certificate: bytes
    key: bytes
    bundle: bytes
    authority_key: bytes = b""

    @property
    def expires(self) -> datetime:
        """When the serving certificate expires. Raises CertificateError."""
        return _load_certificates(self.certificate)[0].not_valid_after_utc


def create(names: tuple[str, ...], now: datetime) -> Certificates:
    """Return a new authority and a serving certificate for names, of which the first is the subject."""
    authority, key = _new_authority(now)
    return _issue(authority, key, names, now)


def renewed(held: Certificates | None, names: tuple[str, ...], now: datetime) -> Certificates | None:
    """Return the certificates to be used from now on; None if the ones held stay.

    `names` are DNS names and addresses, last the one by which API servers connect. Certificates of others (without the
    authority's key) are used until they are invalid for that one; then ours replace them, and their authorities stay
    trusted.
    """
    needed = names if held is not None and held.authority_key else names[-1:]
    problem = "none" if held is None else problem_of(held, needed, now)
    if held is None or (not held.authority_key and problem):
        fresh = create(names, now)
        return fresh._replace(bundle=fresh.bundle + _living(held.bundle if held else b"", now))
    if not held.authority_key:
        return None
    authority, key = _own_authority(held)
    if authority is None or key is None or _is_due(authority, now):
        authority, key = _new_authority(now)
        held = held._replace(bundle=_pem(authority) + _living(held.bundle, now), authority_key=_private(key))
        return _issue(authority, key, names, now)._replace(bundle=held.bundle) if problem else held
    serving = None if problem else _load_certificates(held.certificate)[0]
    is_signed = serving is not None and _is_issued_by(serving, authority)
    may_sign = now - _SKEW >= authority.not_valid_before_utc + OVERLAP
    if serving is None or (not is_signed and may_sign) or (_is_due(serving, now) and (is_signed or may_sign)):
        return _issue(authority, key, names, now)._replace(bundle=_living(held.bundle, now))
    return None


def problem_of(held: Certificates, names: tuple[str, ...], now: datetime) -> str:
    """Return why API servers would not accept the certificates for these names, "" if they would."""
    try:
        serving, key = _load_certificates(held.certificate)[0], _load_key(held.key)
    except CertificateError as error:
        return str(error)
    if _public(key) != _public_of(serving):
        return "the key is not that of the certificate"
    if not serving.not_valid_before_utc <= now < serving.not_valid_after_utc:
        return f"the certificate is valid from {serving.not_valid_before_utc} to {serving.not_valid_after_utc} only"
    covered = _names_of(serving)
    if missing := [name for name in names if name not in covered and f"*.{name.partition('.')[2]}" not in covered]:
        return f"the certificate is not valid for {', '.join(missing)}"
    return "" if is_trusted(held.certificate, held.bundle) else "no authority of the bundle signed the certificate"


def is_trusted(chain: bytes, bundle: bytes) -> bool:
    """Return whether an authority of the bundle signed a serving certificate, directly or through those after it."""
    try:
        serving, *between = _load_certificates(chain)
        authorities = _load_certificates(bundle)
    except CertificateError:
        return False
    issuer = next((each for each in between if _is_issued_by(serving, each)), serving)
    return any(_is_issued_by(issuer, authority) or issuer == authority for authority in authorities)


def server_context(held: Certificates) -> ssl.SSLContext:
    """Return the TLS settings of the server. Raises CertificateError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_into(context, held)
    return context


def load_into(context: ssl.SSLContext, held: Certificates) -> None:
    """Use a certificate for new connections; open ones stay. Raises CertificateError, and then changes nothing."""
    with tempfile.TemporaryDirectory(prefix="volcanoio-") as directory:
        pair = Path(directory) / "pair.pem"  # OpenSSL reads a key only from a file
        pair.touch(mode=0o600)
        pair.write_bytes(held.certificate + b"\n" + held.key)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair)
            context.load_cert_chain(pair)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"certificate and key cannot be used: {error}; give a matching PEM pair") from None


def _new_authority(now: datetime) -> tuple[x509.Certificate, _Key]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"volcano-admission-ca-{now:%Y%m%d%H%M%S}")])
    certificate = (
        _builder(name, name, key, now, AUTHORITY_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate, key


def _issue(authority: x509.Certificate, signer: _Key, names: tuple[str, ...], now: datetime) -> Certificates:
    """Return a serving certificate for names, with the authority alone as its bundle."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        _builder(subject, authority.subject, key, now, SERVING_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Certificates(_pem(certificate), _private(key), _pem(authority), _private(signer))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, validity: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + validity)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _own_authority(held: Certificates) -> tuple[x509.Certificate | None, _Key | None]:
    """Return the authority whose key is held, and the key; None for both if they do not belong together."""
    try:
        key = _load_key(held.authority_key)
        own = next(each for each in _load_certificates(held.bundle) if _public_of(each) == _public(key))
    except (CertificateError, StopIteration):
        return None, None
    return own, key


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begin + (end - begin) * RENEW_AT


def _living(bundle: bytes, now: datetime) -> bytes:
    """Return the authorities of a bundle that have not expired."""
    try:
        held = _load_certificates(bundle)
    except CertificateError:
        return b""
    return b"".join(_pem(each) for each in held if now < each.not_valid_after_utc)


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _names_of(certificate: x509.Certificate) -> set[str]:
    """Return the DNS names and addresses that a certificate is valid for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load_certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateError(f"not a certificate in PEM: {error}") from None


def _load_key(pem: bytes) -> _Key:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"not a private key in PEM without a password: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise CertificateError("not an ECDSA or RSA key")
    return key


def _public(key: _Key) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _public_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _private(key: _Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
