"""Exec plug-ins of a kubeconfig: programs that print credentials (`client.authentication.k8s.io` v1 and v1beta1).

The library's version has no time limit, hides what the program asks its user, and leaves the key of an issued
certificate in a temporary file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.kube.credentials.sources import CredentialsError, Issued, bearer_authorization
from volcanoio.model.documents import decode_json
from volcanoio.model.times import epoch_or_none

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_LIMIT, _INTERACTIVE_LIMIT = 60.0, 600.0
"""Seconds that the program may take, alone and with a person who logs in."""


class ExecVariable(msgspec.Struct):
    """A variable of the program's environment."""

    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, rename="camel"):
    """Settings of a plug-in, `users[].user.exec` of a kubeconfig."""

    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False
    install_hint: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecPlugin:
    """A plug-in; calling it runs the program. Raises CredentialsError for settings that cannot be used.

    A relative path of the program counts from `directory`. `cluster` is what the program receives about the cluster.
    The program inherits stderr and, on a terminal, stdin: it may ask for a password.
    """

    def __init__(self, config: ExecConfig, directory: Path, cluster: dict[str, Any]) -> None:
        if config.api_version not in _VERSIONS:
            rule = f"exec.apiVersion: {config.api_version!r} is not supported"
            raise CredentialsError(f"{rule}; valid values: {', '.join(_VERSIONS)}")
        if not config.command:
            raise CredentialsError("exec.command: missing; name the program that prints the credentials")
        if config.interactive_mode not in ("Never", "IfAvailable", "Always"):
            rule = f"exec.interactiveMode: {config.interactive_mode!r} is not supported"
            raise CredentialsError(f"{rule}; valid values: Never, IfAvailable, Always")
        self._config = config
        is_path = os.sep in config.command
        self._program = str(directory / config.command) if is_path else config.command
        self._cluster = cluster if config.provide_cluster_info else None

    def __call__(self, before: Issued | None) -> Issued:
        """Run the program and return what it printed. Raises CredentialsError."""
        del before
        credential = self._decode(self._run())
        status = credential.status
        if credential.kind != "ExecCredential" or status is None:
            raise self._error("printed no ExecCredential with a status; check its arguments")
        if credential.api_version != self._config.api_version:
            rule = f"printed apiVersion {credential.api_version!r}"
            raise self._error(f"{rule}; set exec.apiVersion to what the program supports")
        certificate, key = status.client_certificate_data or "", status.client_key_data or ""
        if bool(certificate) != bool(key) or not (status.token or certificate):
            rule = "printed neither a token nor a clientCertificateData with its clientKeyData"
            raise self._error(f"{rule}; check its arguments")
        return Issued(
            bearer_authorization(status.token) if status.token else "",
            (certificate.encode(), key.encode()) if certificate else None,
            epoch_or_none(status.expiration_timestamp) or float("inf"),
        )

    def _run(self) -> bytes:
        config = self._config
        interactive = config.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if config.interactive_mode == "Always" and not interactive:
            raise self._error("needs a terminal (interactiveMode Always); log in on one, or use another user")
        spec: dict[str, Any] = {"interactive": interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        variables = {each.name: each.value for each in config.env or ()}
        limit = _INTERACTIVE_LIMIT if interactive else _LIMIT
        try:
            done = subprocess.run(
                [self._program, *(config.args or ())],
                env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._error(f"did not end within {limit:g} s; run it by hand to see what it waits for") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "a NUL character in its arguments"
            raise self._error(f"cannot be run ({why}); {config.install_hint or 'install it'}") from None
        if done.returncode:
            raise self._error(f"ended with exit code {done.returncode}; run it by hand to see why")
        return done.stdout

    def _decode(self, printed: bytes) -> _ExecCredential:
        try:
            return decode_json(printed, _ExecCredential)
        except msgspec.DecodeError:  # its text may contain a part of a token
            raise self._error("did not print the JSON of an ExecCredential; check its arguments") from None

    def _error(self, problem: str) -> CredentialsError:
        return CredentialsError(f"exec: {self._config.command} {problem}")
