"""The key that signs service account tokens, and its public form (RFC 7515, 7517, 7518)."""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

ALGORITHM: Final = "ES256"
_BYTES: Final = 32
_ECDSA: Final = ec.ECDSA(hashes.SHA256())


def new_key() -> bytes:
    """A fresh P-256 key in PEM: made in less than a millisecond, where an RSA key takes a tenth of a second."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def base64url(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes of unpadded URL-safe base64; raises ValueError."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class SigningKey:
    """Signs and verifies with one key, which is read when it is first needed."""

    def __init__(self, pem: bytes) -> None:
        self._pem = pem

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = load_pem_private_key(self._pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            msg = "the key for service account tokens must be an EC key on P-256"
            raise TypeError(msg)
        return key

    @cached_property
    def identifier(self) -> str:
        """The `kid`: a digest of the public key."""
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64url(hashlib.sha256(public).digest())

    def sign(self, payload: bytes) -> str:
        """A JSON web token with this payload."""
        header = msgspec.json.encode({"alg": ALGORITHM, "kid": self.identifier})
        signed = f"{base64url(header)}.{base64url(payload)}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _ECDSA))
        return f"{signed}.{base64url(r.to_bytes(_BYTES, 'big') + s.to_bytes(_BYTES, 'big'))}"

    def payload(self, token: str) -> bytes | None:
        """The payload of a token that this key has signed; None for any other."""
        signed, _, signature = token.rpartition(".")
        head, _, body = signed.partition(".")
        try:
            raw = from_base64url(signature)
            if len(raw) != 2 * _BYTES or msgspec.json.decode(from_base64url(head)).get("alg") != ALGORITHM:
                return None
            r, s = int.from_bytes(raw[:_BYTES], "big"), int.from_bytes(raw[_BYTES:], "big")
            self._key.public_key().verify(encode_dss_signature(r, s), signed.encode(), _ECDSA)
            return from_base64url(body)
        except (ValueError, AttributeError, InvalidSignature):  # msgspec's errors are ValueErrors
            return None

    def public_set(self) -> dict[str, list[dict[str, str]]]:
        """The key set that others verify tokens with."""
        numbers = self._key.public_key().public_numbers()
        x, y = (base64url(one.to_bytes(_BYTES, "big")) for one in (numbers.x, numbers.y))
        key = {"use": "sig", "kty": "EC", "kid": self.identifier, "crv": "P-256", "alg": ALGORITHM, "x": x, "y": y}
        return {"keys": [key]}
