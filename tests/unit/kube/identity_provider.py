"""An OpenID provider over HTTPS on loopback, and kubeconfigs of its users."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import yaml
from aiohttp import web

from volcanoio.runtime.webhooks.certificates import Certificates, create, server_context

SECRET = "s3cr3t/+&"


class IdentityProvider:
    """A provider whose token endpoint sends `answer`, None for new tokens, and records its requests."""

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        self.url = ""
        self.token_endpoint = ""
        self.methods: list[str] | None = None
        self.answer: tuple[int, Any] | None = None
        self.rotates = False
        self.forms: list[dict[str, str]] = []
        self.headers: list[str] = []

    async def discover(self, _: web.Request) -> web.Response:
        document: dict[str, Any] = {"issuer": self.url, "token_endpoint": self.token_endpoint or f"{self.url}/token"}
        if self.methods is not None:
            document["token_endpoint_auth_methods_supported"] = self.methods
        return web.json_response(document)

    async def refresh(self, request: web.Request) -> web.Response:
        self.forms.append({name: str(value) for name, value in (await request.post()).items()})
        self.headers.append(request.headers.get("Authorization", ""))
        if self.answer is not None:
            return web.json_response(self.answer[1], status=self.answer[0])
        number = len(self.forms)
        answer = {"id_token": id_token(f"new-{number}"), "access_token": "a", "token_type": "Bearer"}
        return web.json_response(answer | ({"refresh_token": f"refresh-{number}"} if self.rotates else {}))

    def config(self, **more: str) -> dict[str, str]:
        """Return the `config` of an auth-provider whose id token has expired; "" leaves an entry out."""
        authority = base64.b64encode(self.certificates.bundle).decode()
        found = {
            "idp-issuer-url": self.url, "client-id": "kubernetes", "client-secret": SECRET,
            "idp-certificate-authority-data": authority, "id-token": id_token("old", left=-60),
            "refresh-token": "refresh-0",
        } | {name.replace("_", "-"): value for name, value in more.items()}  # fmt: skip
        return {name: value for name, value in found.items() if value}


def id_token(subject: str, *, left: float | None = 3600) -> str:
    """Return a token that is valid for `left` seconds more."""
    # "?>" makes the text of the claims differ between base64 and its URL-safe form
    claims: dict[str, Any] = {"sub": subject, "name": "??>>~~"}
    if left is not None:
        claims["exp"] = int(datetime.now(UTC).timestamp() + left)
    return jwt.encode(claims, "k" * 32, algorithm="HS256")


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    certificates = create(("127.0.0.1",), datetime.now(UTC))
    provider = IdentityProvider(certificates)
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", provider.discover)
    app.router.add_post("/token", provider.refresh)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(certificates)).start()
        provider.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield provider
    finally:
        await runner.cleanup()


def kubeconfig(path: Path, user: dict[str, Any], server: str = "http://127.0.0.1:8001", **cluster: Any) -> Path:
    """Write a kubeconfig of one user."""
    content = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def oidc_kubeconfig(path: Path, config: dict[str, str], server: str = "http://127.0.0.1:8001") -> Path:
    return kubeconfig(path, {"auth-provider": {"name": "oidc", "config": config}}, server)


def stored_config(path: Path) -> dict[str, str]:
    """Return the `config` of the auth-provider in a kubeconfig."""
    config: dict[str, str] = yaml.safe_load(path.read_text())["users"][0]["user"]["auth-provider"]["config"]
    return config
