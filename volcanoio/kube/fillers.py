"""Secret material made at the edge, just before it is sent: it passes through no event, effect or journal."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TypeAlias

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from volcanoio.model.base import Manifest

Filler: TypeAlias = Callable[[Manifest], Manifest]
"""Gives a copy of a manifest with the missing material added. Runs in a worker thread."""

_KEY_BITS = 2048


def ssh_keypair(manifest: Manifest) -> Manifest:
    """Add an SSH key pair to a Secret: `id_rsa`, `id_rsa.pub` and `authorized_keys`; a pair it holds is kept.

    Formats as Volcano's (pkg/controllers/job/plugins/ssh/ssh.go): RSA 2048, the private key in PKCS #1 PEM, the public
    one as a line of authorized_keys.
    """
    data = dict(manifest.get("data") or {})
    given = {**data, **(manifest.get("stringData") or {})}
    if "id_rsa" not in given or "id_rsa.pub" not in given:
        key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        line = public + b"\n"
        data.update({"id_rsa": _base64(private), "id_rsa.pub": _base64(line), "authorized_keys": _base64(line)})
    elif "authorized_keys" not in given:
        data["authorized_keys"] = data.get("id_rsa.pub") or _base64(str(given["id_rsa.pub"]).encode())
    return {**manifest, "data": data}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


FILLERS: Mapping[str, Filler] = {"ssh-keypair": ssh_keypair}
"""What `effects.Create.fill` may name."""
