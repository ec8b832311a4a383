"""What carries streams (a protocol on a connection) and what has them (a container), each as the other sees it."""

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
    """A size as it is sent."""

    width: int = 0
    height: int = 0


class StreamOptions(msgspec.Struct, frozen=True):
    """What a client asks for (Kubernetes: PodExecOptions, PodAttachOptions); `command` is empty for attach."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    command: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """How it ended: a command's exit code, or what went wrong before it could have one."""

    exit_code: int = 0
    error: str = ""

    def status(self) -> bytes:
        """The Status that is sent on the error channel."""
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
        """The next input; empty at its end, and ever after."""
        ...

    async def write(self, channel: Channel, data: bytes) -> None:
        """Send output; returns when more may be sent. Raises ConnectionError when the client is gone."""
        ...

    async def resized(self) -> Size:
        """The terminal's size, whenever it has changed."""
        ...


class StreamSource(Protocol):
    """Containers, as the API server sees them."""

    def refusal(self, pod: Manifest, container: str) -> str:
        """Why a container has no streams, empty when it has."""
        ...

    def addresses(self, pod: Manifest) -> tuple[str, ...]:
        """Where the ports of a running pod are, the best first; none when it has no processes."""
        ...

    async def execute(self, pod: Manifest, container: str, options: StreamOptions, remote: Remote) -> Outcome:
        """Run a command in a container with its streams at the client's. Cancelled, it ends the command."""
        ...

    async def attach(self, pod: Manifest, container: str, options: StreamOptions, remote: Remote) -> Outcome:
        """Join a container's own streams until it ends. Cancelled, it leaves the container alone."""
        ...
