"""OIDC as kubectl does it (`auth-provider: {name: oidc}` of a kubeconfig): id tokens and their renewal.

The library's version does not verify the identity provider's certificate, although it sends it the client's secret and
a refresh token. Here both addresses must be https, and the certificate is always verified.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote_plus

import aiohttp
import jwt
import msgspec
import structlog

from volcanoio.kube.credentials.sources import CredentialsError, Issued, basic_authorization, bearer_authorization
from volcanoio.model.documents import Limits, decode_json

_LIMIT = aiohttp.ClientTimeout(total=15)
"""Limit of each of the two requests of a renewal."""
_SIZE = Limits(size=1 << 20)
_MARGIN = 10.0
"""Seconds before its expiry from which a token of the kubeconfig is not used, as in client-go."""
_LOG_IN = "log in again, so that the kubeconfig has new tokens"
_LOG = structlog.get_logger(__name__)


class TokenStore(Protocol):
    """The settings of the user in the kubeconfig, which other programs change as well."""

    def read(self) -> Mapping[str, str]:
        """Return `auth-provider.config` as it is now. Raises CredentialsError."""
        ...

    def write(self, tokens: Mapping[str, str]) -> None:
        """Change these entries. Raises OSError."""
        ...


class _Provider(msgspec.Struct):
    """The discovery document."""

    token_endpoint: str = ""
    token_endpoint_auth_methods_supported: list[str] | None = None


class _Answer(msgspec.Struct):
    """Answer of the token endpoint."""

    id_token: str | None = None
    refresh_token: str | None = None
    error: str | None = None


class OidcTokens:
    """Id tokens; calling it returns the one of the kubeconfig if that is valid, else a new one.

    New tokens are stored in the kubeconfig, as kubectl does: many identity providers accept a refresh token once. Where
    it cannot be written, they are kept in memory. A relative path of a certificate counts from `directory`.
    """

    def __init__(self, store: TokenStore, directory: Path, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._directory = directory
        self._now = now
        self._unsaved: dict[str, str] = {}
        _required(store.read(), "idp-issuer-url", "client-id")

    def __call__(self, before: Issued | None) -> Issued:
        """Return an id token other than `before`. Raises CredentialsError."""
        config = {**self._store.read(), **self._unsaved}
        if token := config.get("id-token"):
            issued = _issued(token)
            if (before is None or issued.header != before.header) and issued.expires - _MARGIN > self._now():
                return issued
        refresh = config.get("refresh-token")
        if not refresh:
            raise CredentialsError(f"oidc: the id-token has expired, and there is no refresh-token; {_LOG_IN}")
        answer = asyncio.run(self._refresh(config, refresh))
        if not answer.id_token:
            raise CredentialsError("oidc: the provider sent no id_token; request the scope openid when you log in")
        issued = _issued(answer.id_token)
        self._keep({"id-token": answer.id_token, "refresh-token": answer.refresh_token or refresh})
        return issued

    def _keep(self, tokens: dict[str, str]) -> None:
        try:
            self._store.write(tokens)
            self._unsaved = {}
        except OSError as error:
            _LOG.warning("new tokens stay in memory: the kubeconfig was not written", error=error.strerror)
            self._unsaved = tokens

    async def _refresh(self, config: Mapping[str, str], refresh: str) -> _Answer:
        """Ask the provider for new tokens (OpenID Connect Core 1.0, section 12)."""
        issuer, client, secret = (config.get(key, "") for key in ("idp-issuer-url", "client-id", "client-secret"))
        discovery = _https(f"{issuer.rstrip('/')}/.well-known/openid-configuration", "idp-issuer-url")
        form, headers = {"grant_type": "refresh_token", "refresh_token": refresh}, {}
        connector = aiohttp.TCPConnector(ssl=self._context(config))
        async with aiohttp.ClientSession(connector=connector, timeout=_LIMIT, trust_env=True) as session:
            provider = await _ask(session, "GET", discovery, _Provider)
            methods = provider.token_endpoint_auth_methods_supported or ["client_secret_basic"]
            if secret and "client_secret_basic" in methods:
                headers["Authorization"] = basic_authorization(quote_plus(client), quote_plus(secret))
            else:
                form |= {"client_id": client} | ({"client_secret": secret} if secret else {})
            endpoint = _https(provider.token_endpoint, "token_endpoint of the provider")
            answer: _Answer = await _ask(session, "POST", endpoint, _Answer, data=form, headers=headers)
        if answer.error:
            raise CredentialsError(f"oidc: the provider refused the refresh token ({answer.error[:64]!r}); {_LOG_IN}")
        return answer

    def _context(self, config: Mapping[str, str]) -> ssl.SSLContext:
        data, file = config.get("idp-certificate-authority-data"), config.get("idp-certificate-authority")
        try:
            if data:
                return ssl.create_default_context(cadata=base64.b64decode(data, validate=True).decode())
            return ssl.create_default_context(cafile=self._directory / file if file else None)
        except (binascii.Error, UnicodeDecodeError, OSError) as error:  # SSLError is an OSError
            field = "idp-certificate-authority-data" if data else "idp-certificate-authority"
            raise CredentialsError(f"oidc: {field} cannot be used: {error}; give a certificate in PEM") from error


def _required(config: Mapping[str, str], *fields: str) -> None:
    for field in fields:
        if not config.get(field):
            raise CredentialsError(f"oidc: {field} is missing; add it to the auth-provider's config")


def _https(url: str, what: str) -> str:
    if not url.startswith("https://"):
        raise CredentialsError(f"oidc: the {what} must be an https URL, as it receives secrets, not {url[:200]!r}")
    return url


async def _ask(session: aiohttp.ClientSession, method: str, url: str, form: type[Any], **options: Any) -> Any:
    """Send a request and decode its answer; an error of the token endpoint is an answer, too."""
    body = b""
    try:
        async with session.request(method, url, allow_redirects=False, **options) as response:
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _SIZE.size:
                    break
            if response.status == 200 or (response.status in (400, 401) and form is _Answer):
                return decode_json(body, form, _SIZE)
            problem = f"HTTP {response.status}"
    except TimeoutError:
        problem = "no answer in time"
    except (aiohttp.ClientError, OSError) as error:
        problem = str(error) or type(error).__name__
    except msgspec.DecodeError:  # its text may contain a part of a token
        problem = "the answer is not the expected JSON"
    raise CredentialsError(f"oidc: {method} {url}: {problem}; check the provider and idp-issuer-url")


def _issued(token: str) -> Issued:
    """Return the header for an id token, which the API server verifies; only its expiry is read here."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        raise CredentialsError(f"oidc: the id-token is not a JSON Web Token; {_LOG_IN}") from None
    expires: Any = claims.get("exp")
    known = isinstance(expires, int | float) and not isinstance(expires, bool)
    return Issued(bearer_authorization(token), expires=float(expires) if known else float("inf"))
