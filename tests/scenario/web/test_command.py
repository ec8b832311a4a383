"""`volcanoio up` and `volcanoio web` as users start them."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.commands import Command, run


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Run a cluster; the link of its page and its kubeconfig."""
    data = tmp_path_factory.mktemp("up")
    with Command("up", "--memory", "--nodes", "1", "--data", str(data), "--web-port", "0") as command:
        ready = command.stdout.readline()
        assert ready.startswith("ready server="), command.ended()
        fields = dict(word.split("=", 1) for word in ready.split()[1:])
        yield fields["web"], Path(fields["kubeconfig"])
        command.send(signal.SIGINT)
        assert command.ended().code == 0


def ask(link: str, path: str, token: str | None = None) -> tuple[int, Any]:
    """Return status and answer of the page that a printed link leads to."""
    site, _, key = link.partition("/#key=")
    given = key if token is None else token
    request = Request(f"{site.rstrip('/')}/{path}", headers={"Authorization": f"Bearer {given}"})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def test_up_serves_the_page_of_its_cluster(up: tuple[str, Path]) -> None:
    link, _ = up
    assert link.startswith("http://127.0.0.1:")
    status, state = ask(link, "api/state")
    assert (status, list(state["parts"][0]["nodes"])) == (200, ["node-0"])
    assert ask(link, "api/state", "guess")[0] == 401


def test_web_serves_the_page_with_the_rights_of_a_kubeconfig(up: tuple[str, Path]) -> None:
    _, kubeconfig = up
    with Command("web", "--kubeconfig", str(kubeconfig), "--port", "0") as command:
        link = command.stdout.readline().removeprefix("ready web=").strip()
        assert ask(link, "api/session")[1]["user"] == "volcanoio"
        assert list(ask(link, "api/state")[1]["parts"][0]["nodes"]) == ["node-0"]
        command.send(signal.SIGINT)
        ended = command.ended()
    assert (ended.code, ended.err) == (0, "stopping\n")


def test_web_sends_the_token_of_each_viewer_and_none_of_its_own(up: tuple[str, Path]) -> None:
    _, kubeconfig = up
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    with Command("web", "--kubeconfig", str(kubeconfig), "--auth", "token", "--port", "0") as command:
        link = command.stdout.readline().removeprefix("ready web=").strip()
        assert "#key" not in link
        assert ask(link, "api/state", "guess")[0] == 401
        assert list(ask(link, "api/state", token)[1]["parts"][0]["nodes"]) == ["node-0"]


def test_up_takes_another_port_where_the_wanted_one_is_in_use_and_web_does_not(up: tuple[str, Path]) -> None:
    _, kubeconfig = up
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("web", "--kubeconfig", str(kubeconfig), "--port", port)
        assert ended.code == 2
        assert ended.err.startswith(f"volcanoio: cannot serve the page at 127.0.0.1:{port}: ")
        assert "choose another port, or 0 for any" in ended.err
        with Command(
            "up", "--memory", "--nodes", "1", "--data", str(kubeconfig.parent / "2"), "--web-port", port
        ) as other:
            ready = other.stdout.readline()
            assert "web=http://127.0.0.1:" in ready
            assert f":{port}/" not in ready


def test_up_without_the_page(tmp_path: Path) -> None:
    with Command("up", "--memory", "--nodes", "1", "--data", str(tmp_path), "--no-web") as command:
        assert "web=" not in command.stdout.readline()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--address", "0.0.0.0"],
            2,
            "--address: with the rights of the kubeconfig the page is served on loopback only",
        ),
        (["--kubeconfig", "nowhere"], 5, "no kubeconfig at nowhere"),
        (["--tls-cert-file", "a"], 2, "--tls-cert-file and --tls-private-key-file belong together; one is missing"),
        (["--tls-cert-file", "a", "--tls-private-key-file", "b"], 2, "--tls-cert-file: a and b cannot be used"),
        (["--auth", "none"], 2, "'none' is not one of 'kubeconfig', 'token'"),
        (["--port", "70000"], 2, "70000 is not in the range"),
        (["--conf", "nowhere"], 2, "--conf nowhere: No such file or directory"),
    ],
)
def test_bad_options_are_named(words: list[str], code: int, message: str, tmp_path: Path) -> None:
    ended = run("web", *words, cwd=tmp_path)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
