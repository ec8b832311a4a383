"""Service account tokens: issued for a TokenRequest, and what they prove.

Kubernetes: pkg/serviceaccount, pkg/registry/core/serviceaccount/storage/token.go. A token holds as long as its account,
and the pod, secret or node it is bound to, are the same objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from volcanoio.localcluster.apiserver.authn.keys import SigningKey
from volcanoio.localcluster.apiserver.caller import AUTHENTICATED, User
from volcanoio.localcluster.apiserver.objects import Ref

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
"""The issuer, and the audience of the API server itself."""
LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
"""Of the tokens in Secrets, which never expire."""
_REMEMBERED: Final = 4096
_EXTRA: Final = "authentication.kubernetes.io"
_LEGACY: Final = "kubernetes.io/serviceaccount"
_CLOCK_SKEW: Final = 10
_BOUND: Final = (("pod", "pods"), ("secret", "secrets"), ("node", "nodes"))


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object by name and uid."""

    name: str
    uid: str = ""


class Private(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claim `kubernetes.io`."""

    namespace: str
    serviceaccount: Bound
    pod: Bound | None = None
    secret: Bound | None = None
    node: Bound | None = None


class Claims(msgspec.Struct, frozen=True):
    """What a token says; times are Unix seconds."""

    iss: str
    sub: str
    aud: tuple[str, ...]
    iat: int
    nbf: int
    exp: int
    jti: str
    private: Private = msgspec.field(name="kubernetes.io")


class Verified(msgspec.Struct, frozen=True):
    """Whom a token stands for, and for which of the asked audiences; `problem` is set when for nobody."""

    user: User | None = None
    audiences: tuple[str, ...] = ()
    problem: str = ""


def account_user(namespace: str, name: str, uid: str = "", extra: dict[str, tuple[str, ...]] | None = None) -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra or {})


class Tokens:
    """Issues and verifies tokens."""

    def __init__(self, core: Core, key: SigningKey) -> None:
        self._core = core
        self.key = key
        self._known: dict[str, Claims | None] = {}

    def issue(self, private: Private, audiences: tuple[str, ...], seconds: int) -> tuple[str, int]:
        """A token for an account, and when it expires (Unix seconds)."""
        now = int(self._core.clock.now().timestamp())
        claims = Claims(
            iss=ISSUER,
            sub=f"system:serviceaccount:{private.namespace}:{private.serviceaccount.name}",
            aud=audiences,
            iat=now,
            nbf=now,
            exp=now + seconds,
            jti=self._core.new_uid(),
            private=private,
        )
        return self.key.sign(msgspec.json.encode(claims)), claims.exp

    def issue_legacy(self, namespace: str, secret: str, account: Bound) -> str:
        """The token of a Secret, which holds as long as both exist."""
        claims = {
            "iss": LEGACY_ISSUER,
            f"{_LEGACY}/namespace": namespace,
            f"{_LEGACY}/secret.name": secret,
            f"{_LEGACY}/service-account.name": account.name,
            f"{_LEGACY}/service-account.uid": account.uid,
            "sub": f"system:serviceaccount:{namespace}:{account.name}",
        }
        return self.key.sign(msgspec.json.encode(claims))

    def user(self, token: str) -> User | None:
        """Whom a token presented to this server stands for."""
        return self.verify(token, (ISSUER,)).user

    def verify(self, token: str, audiences: tuple[str, ...]) -> Verified:
        """Whom a token stands for, if it was made for one of the audiences."""
        claims = self._claims(token)
        if claims is None:
            return Verified(problem="invalid bearer token")
        shared = tuple(one for one in audiences if one in claims.aud)
        if not shared:
            stated, wanted = (msgspec.json.encode(one).decode() for one in (claims.aud, audiences))
            mismatch = f"token audiences {stated} is invalid for the target audiences {wanted}"
            return Verified(problem=f"[invalid bearer token, {mismatch}]")
        now = self._core.clock.now().timestamp()
        if claims.exp and now > claims.exp + _CLOCK_SKEW:
            return Verified(problem="[invalid bearer token, service account token has expired]")
        if now < claims.nbf - _CLOCK_SKEW:
            return Verified(problem="[invalid bearer token, service account token is not valid yet]")
        private = claims.private
        if not self._stands(private):
            return Verified(problem="[invalid bearer token, service account token has been invalidated]")
        extra: dict[str, tuple[str, ...]] = {}
        if claims.jti:
            extra[f"{_EXTRA}/credential-id"] = (f"JTI={claims.jti}",)
        if private.pod is not None:
            extra[f"{_EXTRA}/pod-name"], extra[f"{_EXTRA}/pod-uid"] = (private.pod.name,), (private.pod.uid,)
        if private.node is not None:
            extra[f"{_EXTRA}/node-name"] = (private.node.name,)
            if private.node.uid:
                extra[f"{_EXTRA}/node-uid"] = (private.node.uid,)
        account = private.serviceaccount
        return Verified(account_user(private.namespace, account.name, account.uid, extra), shared)

    def _stands(self, private: Private) -> bool:
        """Whether the account and what the token is bound to are what they were."""
        account, store = private.serviceaccount, self._core.store
        found = store.get(Ref("serviceaccounts", private.namespace, account.name))
        if found is None or found.uid != account.uid:
            return False
        for field, plural in _BOUND:
            bound: Bound | None = getattr(private, field)
            if bound is None or (field == "node" and (private.pod is not None or not bound.uid)):
                continue
            one = store.get(Ref(plural, "" if field == "node" else private.namespace, bound.name))
            if one is None or (bound.uid and one.uid != bound.uid):
                return False
        return True

    def _claims(self, token: str) -> Claims | None:
        """The claims of a token we signed; remembered, as a client sends the same one with each request."""
        if token in self._known:
            return self._known[token]
        payload = self.key.payload(token)
        claims = None if payload is None else _read(payload)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        if claims is not None:
            self._known[token] = claims
        return claims


def _read(payload: bytes) -> Claims | None:
    try:
        stated: dict[str, Any] = msgspec.json.decode(payload, type=dict)
        if stated.get("iss") == LEGACY_ISSUER:
            account = Bound(stated[f"{_LEGACY}/service-account.name"], stated[f"{_LEGACY}/service-account.uid"])
            secret = Bound(stated[f"{_LEGACY}/secret.name"])
            private = Private(stated[f"{_LEGACY}/namespace"], account, secret=secret)
            return Claims(LEGACY_ISSUER, stated["sub"], (ISSUER,), 0, 0, 0, "", private)
        claims = msgspec.convert(stated, Claims)
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None
    return claims if claims.iss == ISSUER else None
