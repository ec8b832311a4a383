"""Volumes of pods as kubelets keep them: files in a dated directory behind the `..data` link, which is exchanged.

ConfigMaps, Secrets, projected volumes with service account tokens, the downward API, and emptyDir.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt

from tests.realcluster.deployed.api import Api, Obj

_POLL_SECONDS = 0.5
_ROTATE_AT = 0.8
"""Share of a token's life after which it is replaced, as a kubelet does."""


class TokenIssuer:
    """Tokens by the TokenRequest API, with a life that may be shorter than the ten minutes that it allows.

    The claims are those of the API server; a shorter expiry is signed with the API server's own key.
    """

    def __init__(self, api: Api, signing_key: bytes, seconds: int | None = None) -> None:
        self._api = api
        self._key = signing_key
        self.seconds = seconds

    async def issue(self, pod: Obj, source: Obj) -> tuple[str, float] | None:
        """Return a token bound to the pod, and the seconds after which to replace it; None when either is gone."""
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec: Obj = {"expirationSeconds": max(600, source.get("expirationSeconds", 3600)), "boundObjectRef": bound}
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answered = await self._api.persist("POST", path, body)
        if answered is None:
            return None
        token: str = answered["status"]["token"]
        if self.seconds is None:
            return token, spec["expirationSeconds"] * _ROTATE_AT
        claims = jwt.decode(token, options={"verify_signature": False})
        claims["exp"] = int(time.time()) + self.seconds
        headers = {"kid": jwt.get_unverified_header(token)["kid"]}
        return jwt.encode(claims, self._key, algorithm="RS256", headers=headers), self.seconds * _ROTATE_AT


class PodVolumes:
    """The volumes of one pod under a directory of its own; `run` keeps them up to date."""

    def __init__(self, api: Api, tokens: TokenIssuer, pod: Obj, directory: Path) -> None:
        self._api = api
        self._tokens = tokens
        self._pod = pod
        self._directory = directory
        self._token_due: dict[str, tuple[str, float]] = {}
        self._written: dict[str, dict[str, bytes]] = {}
        self._versions = itertools.count()

    def path(self, name: str) -> Path:
        """Return the directory of a volume."""
        return self._directory / name

    async def populate(self) -> bool:
        """Write what is missing or has changed; False while a ConfigMap or Secret that is not optional is missing."""
        complete = True
        for volume in self._pod["spec"].get("volumes") or ():
            directory = self.path(volume["name"])
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o777 if "emptyDir" in volume else 0o755)
            if "emptyDir" in volume:
                continue
            files = await self._files(volume)
            if files is None:
                complete = False
            elif files != self._written.get(volume["name"]):
                self._exchange(directory, files)
                self._written[volume["name"]] = files
        return complete

    async def run(self) -> None:
        """Follow changes until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await self.populate()

    def _exchange(self, directory: Path, files: dict[str, bytes]) -> None:
        """Write all files into a new directory and move the link to it, so that readers see all or none of them."""
        fresh = directory / f"..{time.strftime('%Y_%m_%d_%H_%M_%S')}.{next(self._versions)}"
        for name, content in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        fresh.mkdir(exist_ok=True)
        link, old = directory / "..data", (directory / "..data").resolve()
        (directory / "..data_tmp").symlink_to(fresh.name)
        (directory / "..data_tmp").rename(link)
        tops = {name.partition("/")[0] for name in files}
        for shown in directory.iterdir():
            if not shown.name.startswith("..") and shown.name not in tops:
                shown.unlink()
        for name in tops:
            if not (directory / name).is_symlink():
                (directory / name).symlink_to(f"..data/{name}")
        if old != link and old.exists():
            shutil.rmtree(old)

    async def _files(self, volume: Obj) -> dict[str, bytes] | None:
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        result: dict[str, bytes] = {}
        for source in sources:
            files = await self._source(volume["name"], source)
            if files is None:
                return None
            result |= files
        return result

    async def _source(self, volume: str, source: Obj) -> dict[str, bytes] | None:
        if "configMap" in source:
            return await self._keys("configmaps", source["configMap"], lambda text: str(text).encode())
        if "secret" in source:
            named = {**source["secret"], "name": source["secret"].get("secretName") or source["secret"].get("name")}
            return await self._keys("secrets", named, base64.b64decode)
        if "serviceAccountToken" in source:
            token = await self._token(volume, source["serviceAccountToken"])
            return None if token is None else {source["serviceAccountToken"]["path"]: token}
        if "downwardAPI" in source:
            return {item["path"]: self._field(item).encode() for item in source["downwardAPI"]["items"]}
        kinds = ", ".join(key for key in source if key != "name")
        raise NotImplementedError(f"volume {volume}: {kinds} is not one of the volumes that this kubelet has")

    async def _keys(self, plural: str, source: Obj, decode: Callable[[Any], bytes]) -> dict[str, bytes] | None:
        path = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}/{plural}/{source['name']}"
        found = await self._api.persist("GET", path)
        if found is None:
            return {} if source.get("optional") else None
        held = {key: decode(text) for key, text in (found.get("data") or {}).items()}
        if not source.get("items"):
            return held
        return {item["path"]: held[item["key"]] for item in source["items"] if item["key"] in held}

    async def _token(self, volume: str, source: Obj) -> bytes | None:
        token, due = self._token_due.get(volume, ("", 0.0))
        if time.monotonic() >= due:
            issued = await self._tokens.issue(self._pod, source)
            if issued is None:
                return None
            token, seconds = issued
            self._token_due[volume] = (token, time.monotonic() + seconds)
        return token.encode()

    def _field(self, item: Obj) -> str:
        return str(field_of(self._pod, item["fieldRef"]["fieldPath"]))


def field_of(pod: Obj, path: str) -> Any:
    """Return the value of a fieldRef, such as metadata.name or metadata.labels['app']."""
    found: Any = pod
    name, _, key = path.partition("['")
    for word in name.split("."):
        found = found.get(word) or {}
    return found.get(key.removesuffix("']"), "") if key else (found if found != {} else "")
