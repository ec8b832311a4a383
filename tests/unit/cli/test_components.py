"""How flags of the components become settings."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from volcanoio.cli import components
from volcanoio.cli.componentflags import GATES
from volcanoio.cli.components import EVENT_LOOP, selected_controllers
from volcanoio.cli.main import volcanoio
from volcanoio.compose.component import ComponentSettings

FILES = ("ca-cert-file", "tls-cert-file", "tls-private-key-file")


@pytest.mark.parametrize(
    ("entries", "selected"),
    [
        (("*", "-gc-controller"), ("*", "-gc-controller", "-job-controller")),
        (("+job-controller", "pg-controller"), ("pg-controller", "-job-controller")),
        (("job-controller",), ("-job-controller",)),
        ((), ("*", "-job-controller")),
    ],
)
def test_a_controller_whose_gate_is_off_does_not_run(entries: tuple[str, ...], selected: tuple[str, ...]) -> None:
    assert selected_controllers(entries, GATES | {"VolcanoJobSupport": False}) == selected


@pytest.mark.parametrize("command", ["scheduler", "controllers", "webhooks"])
def test_with_the_three_files_the_endpoints_of_every_component_are_served_by_https(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Volcano, whose webhook manager always has them."""
    taken: list[ComponentSettings] = []

    async def run(_connection: Any, settings: ComponentSettings, _build: Any) -> int:
        taken.append(settings)
        return 0

    monkeypatch.setattr(components, "_run", run)
    monkeypatch.setattr(components, "set_up_logs", lambda _: None)  # it would be for all tests
    for words in ([], [f"--{flag}=/certs/{flag}" for flag in FILES]):
        result = CliRunner().invoke(volcanoio, [command, "--enable-healthz", "--enable-metrics", *words])
        assert result.exit_code == 0, result.output
    without, given = (settings.endpoints.tls for settings in taken)
    assert without is None
    assert given is not None
    assert [path.name for path in given] == list(FILES)


def test_the_event_loop_sends_a_write_before_it_does_anything_else() -> None:
    """The fence of leadership is asked when a request is written, so its bytes must leave in the same step."""

    async def sent_while_the_loop_is_held() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as server:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, *server.getsockname())
            peer, _ = server.accept()
            with peer:
                peer.settimeout(5)
                transport.write(b"bind")
                return peer.recv(4)

    assert anyio.run(sent_while_the_loop_is_held, backend_options=EVENT_LOOP) == b"bind"
