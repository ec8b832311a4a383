"""Interfaces between streaming protocols (clients) and containers."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from volcanoio.model.base import Manifest


class Channel(IntEnum):
    """Streams between a client and a container (Kubernetes: remotecommand)."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4


class Size(NamedTuple):
    """A terminal's size in characters."""

    columns: int
    rows: int


class Resize(msgspec.Struct, rename="pascal"):
    """A size as clients send it."""

    width: int = 0
    height: int = 0


class StreamOptions(msgspec.Struct, frozen=True):
    """Requested streams (Kubernetes: PodExecOptions, PodAttachOptions).

    `command` is empty for attach.
    """

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    command: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """Result of a command: its exit code, or the error that prevented its start."""

    exit_code: int = 0
    error: str = ""

    def status(self) -> bytes:
        """Return the Status for the error channel."""
        found: dict[str, Any] = {"metadata": {}, "status": "Success"}
        if self.error:
            message = f"Internal error occurred: {self.error}"
            found |= {"status": "Failure", "message": message, "reason": "InternalError", "code": 500}
        elif self.exit_code:
            causes = [{"reason": "ExitCode", "message": str(self.exit_code)}]
            message = f"command terminated with non-zero exit code: exit status {self.exit_code}"
            found |= {
                "status": "Failure",
                "message": message,
                "reason": "NonZeroExitCode",
                "details": {"causes": causes},
            }
        return msgspec.json.encode(found)


class Remote(Protocol):
    """A client, as a container sees it. Each method is used by one task at a time."""

    async def read(self) -> bytes:
        """Return the next input; empty at its end, and on all later calls."""
        ...

    async def write(self, channel: Channel, data: bytes) -> None:
        """Send output.

        Returns when more may be sent. Raises ConnectionError when the client has disconnected.
        """
        ...

    async def resized(self) -> Size:
        """Return the terminal's size after its next change."""
        ...


class StreamSource(Protocol):
    """Containers, as the API server sees them."""

    def refusal(self, pod: Manifest, container: str) -> str:
        """Return the reason why a container has no streams; empty when it has."""
        ...

    def addresses(self, pod: Manifest) -> tuple[str, ...]:
        """Return the addresses of a running pod's ports, best first; empty without processes."""
        ...

    async def execute(self, pod: Manifest, container: str, options: StreamOptions, remote: Remote) -> Outcome:
        """Run a command in a container, connected to the client; cancelling ends the command."""
        ...

    async def attach(self, pod: Manifest, container: str, options: StreamOptions, remote: Remote) -> Outcome:
        """Connect to a container's own streams until it ends.

        Cancelling leaves the container running.
        """
        ...
