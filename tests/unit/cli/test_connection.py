"""Errors of commands when a server cannot be reached or refuses the credentials."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from volcanoio.cli.connection import connected, reporting_api_errors
from volcanoio.cli.terminal import CommandError, ExitCode
from volcanoio.kube.decoding import UndecodableError
from volcanoio.kube.errors import NotFound, Unauthorized
from volcanoio.model import kinds


def _kubeconfig(path: Path, server: str) -> Path:
    content = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "s3cr3t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_bytes(msgspec.json.encode(content))
    return path


async def test_an_unreachable_server_is_reported_with_the_message_of_the_system(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        async with connected(_kubeconfig(tmp_path / "k", f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(CommandError) as refused, reporting_api_errors():
                await client.list(kinds.NODE)
    assert f"cannot connect to 127.0.0.1:{port}: Connection refused; is it running?" in str(refused.value)
    assert refused.value.code == ExitCode.UNREACHABLE
    assert "s3cr3t" not in str(refused.value)


def test_refused_credentials_are_reported_with_the_next_step() -> None:
    with pytest.raises(CommandError, match="use a newer one") as refused, reporting_api_errors():
        raise Unauthorized(401, "Unauthorized", "Unauthorized")
    assert refused.value.code == ExitCode.REJECTED


def test_an_object_that_cannot_be_read_is_named() -> None:
    error = UndecodableError("Job.batch.volcano.sh default/a: Expected `int`, got `str`")
    with pytest.raises(CommandError) as refused, reporting_api_errors():
        raise ExceptionGroup("tasks", [error])
    assert str(refused.value) == (
        "an object cannot be read: Job.batch.volcano.sh default/a: Expected `int`, got `str`; correct or delete it "
        "with kubectl"
    )


@pytest.mark.parametrize("message", ["the server could not find the requested resource", "404 page not found"])
def test_kinds_that_are_not_served_hint_at_the_definitions(message: str) -> None:
    with (
        pytest.raises(CommandError, match="are Volcano's definitions installed\\? see: volcanoio doctor"),
        reporting_api_errors(),
    ):
        raise NotFound(404, "NotFound", message)
