"""The SSH key pair: formats, and that a pair that is there stays."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from volcanoio.kube.object_writer import ssh_keypair


def test_the_pair_belongs_together_and_has_volcanos_formats() -> None:
    data = {key: base64.b64decode(value) for key, value in ssh_keypair({})["data"].items()}
    assert data["id_rsa"].startswith(b"-----BEGIN RSA PRIVATE KEY-----\n")
    private = serialization.load_pem_private_key(data["id_rsa"], None)
    public = serialization.load_ssh_public_key(data["id_rsa.pub"])
    assert isinstance(private, rsa.RSAPrivateKey)
    assert private.key_size == 2048
    assert private.public_key() == public
    assert data["authorized_keys"] == data["id_rsa.pub"]
    assert data["id_rsa.pub"].endswith(b"\n")


def test_a_given_pair_is_kept() -> None:
    given = {"data": {"id_rsa": "cHJpdmF0ZQ==", "id_rsa.pub": "cHVibGlj"}}
    assert ssh_keypair(given)["data"] == {**given["data"], "authorized_keys": "cHVibGlj"}
    plain = {"stringData": {"id_rsa": "private", "id_rsa.pub": "public"}}
    assert ssh_keypair(plain)["data"] == {"authorized_keys": "cHVibGlj"}
    complete = {"data": {"id_rsa": "eA==", "id_rsa.pub": "eA==", "authorized_keys": "eQ=="}}
    assert ssh_keypair(complete) == complete
