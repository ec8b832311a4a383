"""Service account tokens: their signing key, issue, verification, and OpenID discovery.

Kubernetes: pkg/serviceaccount, pkg/registry/core/serviceaccount/storage/token.go; RFC 7515, 7517, 7518. A token is
valid as long as its account, and the pod, secret or node it is bound to, still exist. OpenID discovery publishes
the keys to clients that trust the cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from jwt.algorithms import ECAlgorithm
from jwt.api_jws import PyJWS
from jwt.exceptions import InvalidTokenError
from jwt.utils import base64url_encode

from volcanoio.localcluster.apiserver.apimachinery.clock import Clock
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.apimachinery.request import AUTHENTICATED, ApiRequest, ApiResponse, User
from volcanoio.localcluster.apiserver.storage.store import Store

ALGORITHM: Final = "ES256"
_JWS: Final = PyJWS([ALGORITHM])


def new_key() -> bytes:
    """Generate a P-256 key in PEM; an RSA key would take a tenth of a second."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class SigningKey:
    """Key that signs and verifies, decoded on first use."""

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
        return base64url_encode(hashlib.sha256(public).digest()).decode()

    def sign(self, payload: bytes) -> str:
        """Sign a JSON web token with this payload."""
        return _JWS.encode(payload, self._key, ALGORITHM, {"kid": self.identifier, "typ": None})

    def payload(self, token: str) -> bytes | None:
        """Return the payload of a token signed by this key; None for any other."""
        try:
            payload: bytes = _JWS.decode(token, self._key.public_key(), [ALGORITHM])
        except InvalidTokenError:
            return None
        return payload

    def public_set(self) -> dict[str, list[dict[str, str]]]:
        """Return the key set that others verify tokens with."""
        key = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**key, "use": "sig", "kid": self.identifier, "alg": ALGORITHM}]}


ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
"""The issuer, and the audience of the API server itself."""
LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
"""The issuer of tokens in Secrets, which never expire."""
_MAX_CACHED: Final = 4096
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
    """Claims of a token; times are Unix seconds."""

    iss: str
    sub: str
    aud: tuple[str, ...]
    iat: int
    nbf: int
    exp: int
    jti: str
    private: Private = msgspec.field(name="kubernetes.io")


class Verified(msgspec.Struct, frozen=True):
    """The user of a token and the accepted audiences; `problem` is set for an invalid one."""

    user: User | None = None
    audiences: tuple[str, ...] = ()
    problem: str = ""


def account_user(namespace: str, name: str, uid: str = "", extra: dict[str, tuple[str, ...]] | None = None) -> User:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra or {})


class Tokens:
    """Issuer and verifier of tokens."""

    def __init__(self, store: Store, clock: Clock, new_uid: Callable[[], str], key: SigningKey) -> None:
        self._store = store
        self._clock = clock
        self._new_uid = new_uid
        self.key = key
        self._claims_by_token: dict[str, Claims | None] = {}

    def issue(self, private: Private, audiences: tuple[str, ...], seconds: int) -> tuple[str, int]:
        """Issue a token for an account; returns it and its expiry (Unix seconds)."""
        now = int(self._clock.now().timestamp())
        claims = Claims(
            iss=ISSUER,
            sub=f"system:serviceaccount:{private.namespace}:{private.serviceaccount.name}",
            aud=audiences,
            iat=now,
            nbf=now,
            exp=now + seconds,
            jti=self._new_uid(),
            private=private,
        )
        return self.key.sign(msgspec.json.encode(claims)), claims.exp

    def issue_legacy(self, namespace: str, secret: str, account: Bound) -> str:
        """Issue the token of a Secret, which is valid while the Secret and its account exist."""
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
        """Return the user of a token for this server; None for an invalid one."""
        return self.verify(token, (ISSUER,)).user

    def verify(self, token: str, audiences: tuple[str, ...]) -> Verified:
        """Verify a token for one of the audiences."""
        claims = self._claims(token)
        if claims is None:
            return Verified(problem="invalid bearer token")
        shared = tuple(one for one in audiences if one in claims.aud)
        if not shared:
            stated, wanted = (msgspec.json.encode(one).decode() for one in (claims.aud, audiences))
            mismatch = f"token audiences {stated} is invalid for the target audiences {wanted}"
            return Verified(problem=f"[invalid bearer token, {mismatch}]")
        now = self._clock.now().timestamp()
        if claims.exp and now > claims.exp + _CLOCK_SKEW:
            return Verified(problem="[invalid bearer token, service account token has expired]")
        if now < claims.nbf - _CLOCK_SKEW:
            return Verified(problem="[invalid bearer token, service account token is not valid yet]")
        private = claims.private
        if not self._is_bound(private):
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

    def _is_bound(self, private: Private) -> bool:
        """Return whether the account and the objects that the token is bound to are unchanged."""
        account, store = private.serviceaccount, self._store
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
        """Return the claims of a token; cached, as a client sends the same one with each request."""
        if token in self._claims_by_token:
            return self._claims_by_token[token]
        payload = self.key.payload(token)
        claims = None if payload is None else _read(payload)
        if len(self._claims_by_token) >= _MAX_CACHED:
            self._claims_by_token.clear()
        if claims is not None:
            self._claims_by_token[token] = claims
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


class OpenIdPages:
    """A route for `/.well-known/openid-configuration` and `/openid/v1/jwks`."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer the two pages; None for any other request."""
        match request.path:
            case "/.well-known/openid-configuration":
                document = {
                    "issuer": ISSUER,
                    "jwks_uri": f"https://{request.headers.get('host', 'localhost')}/openid/v1/jwks",
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": [ALGORITHM],
                }
                return ApiResponse(200, msgspec.json.encode(document))
            case "/openid/v1/jwks":
                body = msgspec.json.encode(self._tokens.key.public_set())
                return ApiResponse(200, body, content_type="application/jwk-set+json")
        return None
