"""Service account tokens: whom they prove, for how long, and against whom."""

from __future__ import annotations

import json

from jwt.utils import base64url_decode

from tests.localcluster.apiserver.api import PODS, Api, SetClock, pod, running
from volcanoio.localcluster.apiserver.authn.tokens import SigningKey, new_key
from volcanoio.model.base import Manifest

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def token(api: Api, **spec: object) -> str:
    await api.until(f"{ACCOUNTS}/default", lambda answer: answer.code == 200)
    made: Manifest = await api.made(f"{ACCOUNTS}/default/token", {"spec": spec})
    return str(made["status"]["token"])


async def test_a_token_ends_in_time_with_its_account_and_with_its_pod() -> None:
    clock = SetClock()
    async with running(clock=clock) as api:
        tokens = api.server.tokens
        plain = await token(api)
        user = tokens.user(plain)
        assert user is not None
        assert user.username == "system:serviceaccount:default:default"
        await api.made(PODS, pod("p"))
        bound = await token(api, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
        assert tokens.user(bound) is not None
        await api("DELETE", f"{PODS}/p")
        assert tokens.user(bound) is None
        clock.advance(seconds=3605)
        assert tokens.user(plain) is not None
        clock.advance(seconds=60)
        assert tokens.user(plain) is None
        assert "expired" in tokens.verify(plain, ("https://kubernetes.default.svc.cluster.local",)).problem
        fresh = await token(api)
        await api("DELETE", f"{ACCOUNTS}/default")
        assert tokens.user(fresh) is None


async def test_tokens_of_another_key_are_refused() -> None:
    async with running() as one, running() as other:
        text = await token(one)
        assert other.server.tokens.user(text) is None
        assert one.server.tokens.user(text[:-4] + "AAAA") is None
        for nonsense in ("", ".", "..", "a.b.c", text.partition(".")[2], "é.é.é"):
            assert one.server.tokens.user(nonsense) is None


def test_a_key_verifies_its_signatures() -> None:
    key = SigningKey(new_key())
    text = key.sign(b'{"a":1}')
    assert key.payload(text) == b'{"a":1}'
    assert SigningKey(new_key()).payload(text) is None
    head, _, signature = text.split(".")
    assert key.payload(f"{head}.eyJhIjoyfQ.{signature}") is None
    assert json.loads(base64url_decode(head)) == {"alg": "ES256", "kid": key.identifier}
    [public] = key.public_set()["keys"]
    assert (public["kid"], public["crv"]) == (key.identifier, "P-256")
