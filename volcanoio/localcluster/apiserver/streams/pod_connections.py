"""`pods/NAME/log`, `exec`, `attach` and `portforward`: the selection of containers, and errors for kubectl.

Kubernetes: `pkg/registry/core/pod/strategy.go` (ExecLocation, AttachLocation). Subresources that need a running process
are refused with the reason where pods are simulated; a plain 404 would hide it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.clock import TimeOfDay, parse_rfc3339
from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError, bad_request
from volcanoio.localcluster.apiserver.apimachinery.request import (
    ApiForward,
    ApiRequest,
    ApiResponse,
    ApiStream,
    ApiStreams,
    ApiUpgrade,
)
from volcanoio.localcluster.apiserver.streams.remote import StreamOptions, StreamSource
from volcanoio.model.base import Manifest

_LOG_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/log")
_CONTAINER_LISTS = (
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of a log request (Kubernetes: PodLogOptions).

    `since` is a time; `tail_lines` counts from the end of the log when the request arrives; `limit_bytes` counts the
    bytes of the answer.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class LogSource(Protocol):
    """A source of container logs."""

    def read(
        self, namespace: str, pod_manifest: Manifest, container: str, options: LogOptions
    ) -> AsyncIterator[list[bytes]]:
        """Yield batches of lines, oldest first.

        Each line is an RFC 3339 timestamp in UTC, one space, and the text, without a newline.

        The first batch is all that has been written so far, possibly empty. With `options.follow` more batches
        follow
        until the container has ended; without it there is only the first. `options.previous` selects the log of the
        container's previous instance. The caller applies the other options. Closing the iterator ends it.
        """
        ...


class PodLogs:
    """The log route.

    `get` reads the pod, so that a missing pod is reported as any other read is.
    """

    def __init__(
        self,
        get: Callable[[ApiRequest], Awaitable[ApiResponse | ApiStream]],
        source: LogSource,
        clock: TimeOfDay,
    ) -> None:
        self._get = get
        self._source = source
        self._clock = clock

    async def __call__(self, request: ApiRequest) -> ApiResponse | ApiStream | None:
        """Answer a log request; None for any other."""
        match = _LOG_PATH.fullmatch(request.path)
        if match is None or request.method != "GET":
            return None
        namespace, name = match.groups()
        answer = await self._get(ApiRequest("GET", f"/api/v1/namespaces/{namespace}/pods/{name}"))
        if isinstance(answer, ApiStream) or answer.status != 200:
            return answer
        pod: Manifest = msgspec.json.decode(answer.body)
        try:
            options = parse_options(request, self._clock.now())
            container = choose_container(pod, request.first("container"))
            check_started(pod, container, previous=options.previous)
        except LogRefused as refused:
            return bad_request(str(refused)).response()
        lines = self._source.read(namespace, pod, container, options)
        return ApiStream(as_sent(select(lines, options), options.limit_bytes), content_type="text/plain", raw=True)


class LogRefused(ValueError):  # noqa: N818 - named for what happened
    """The log cannot be shown; the text contains the reason."""


def parse_options(request: ApiRequest, now: datetime) -> LogOptions:
    """Parse the query of a log request; raises LogRefused with the parameter's name."""
    seconds, moment = _number(request, "sinceSeconds", 1), request.first("sinceTime")
    if seconds is not None and moment:
        raise LogRefused("sinceSeconds, sinceTime: at most one of them may be given")
    since = now - timedelta(seconds=seconds) if seconds is not None else None
    if moment:
        try:
            since = parse_rfc3339(moment)
        except ValueError:
            since = None
        if since is None or since.tzinfo is None:
            raise LogRefused(f"sinceTime: {moment!r} is not an RFC 3339 time with its zone, as 2026-01-31T12:00:00Z is")
    return LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        since=since,
        tail_lines=_number(request, "tailLines", 0),
        limit_bytes=_number(request, "limitBytes", 1),
    )


def _number(request: ApiRequest, name: str, least: int) -> int | None:
    text = request.first(name)
    if text is None or text == "":
        return None
    if not re.fullmatch(r"-?\d{1,18}", text) or int(text) < least:
        raise LogRefused(f"{name}: {text!r} must be a whole number of at least {least}")
    return int(text)


def choose_container(pod: Manifest, wanted: str | None) -> str:
    """Return the container `wanted`, or the only one; raises LogRefused with the choices."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    regular = [container["name"] for container in spec.get("containers") or ()]
    if not wanted:
        if len(regular) == 1:
            return str(regular[0])
        raise LogRefused(f"a container name must be specified for pod {name}, choose one of: [{' '.join(regular)}]")
    known = {container["name"] for field, _ in _CONTAINER_LISTS for container in spec.get(field) or ()}
    if wanted not in known:
        raise LogRefused(f"container {wanted} is not valid for pod {name}")
    return wanted


def check_started(pod: Manifest, container: str, *, previous: bool) -> None:
    """Raise LogRefused when the container, or its previous instance, has never run."""
    name = pod["metadata"]["name"]
    status = _container_status(pod, container)
    if previous:
        if "terminated" not in (status.get("lastState") or {}):
            raise LogRefused(f'previous terminated container "{container}" in pod "{name}" not found')
        return
    state = status.get("state") or {}
    if "running" in state or "terminated" in state or "terminated" in (status.get("lastState") or {}):
        return
    reason = (state.get("waiting") or {}).get("reason")
    if reason or pod["spec"].get("nodeName"):
        waits = f" is waiting to start: {reason or 'ContainerCreating'}"
    else:
        waits = " is waiting to start: the pod is not yet assigned to a node"
    raise LogRefused(f'container "{container}" in pod "{name}"{waits}')


def _container_status(pod: Manifest, container: str) -> dict[str, Any]:
    pod_status = pod.get("status") or {}
    for _, field in _CONTAINER_LISTS:
        for status in pod_status.get(field) or ():
            if status["name"] == container:
                return dict(status)
    return {}


async def select(batches: AsyncIterator[list[bytes]], options: LogOptions) -> AsyncIterator[list[bytes]]:
    """Yield the selected lines of a source, with or without timestamps."""
    first = True
    try:
        async for batch in batches:
            lines = [line for line in batch if options.since is None or _written_at(line) >= options.since]
            if first and options.tail_lines is not None:
                lines = lines[max(0, len(lines) - options.tail_lines) :]
            first = False
            if not options.timestamps:
                lines = [line.partition(b" ")[2] for line in lines]
            if lines:
                yield lines
            if not options.follow:
                return
    finally:
        close = getattr(batches, "aclose", None)
        if close is not None:
            await close()


def _written_at(line: bytes) -> datetime:
    return parse_rfc3339(line.partition(b" ")[0].decode())


async def as_sent(lines: AsyncIterator[list[bytes]], limit: int | None) -> AsyncIterator[list[bytes]]:
    """Yield lines with newlines, cut after `limit` bytes."""
    left = limit
    try:
        async for batch in lines:
            data = b"".join([line + b"\n" for line in batch])
            if left is not None:
                data = data[:left]
                left -= len(data)
            yield [data]
            if left == 0:
                return
    finally:
        close = getattr(lines, "aclose", None)
        if close is not None:
            await close()


def connect(source: StreamSource | None, pod: Manifest, subresource: str, request: ApiRequest) -> ApiUpgrade:
    """Offer to carry a container's streams.

    Raises ApiError. Without a source all containers are simulated.
    """
    if subresource == "portforward":
        return _forward(source, pod)
    try:
        container = choose_container(pod, request.first("container"))
    except LogRefused as refused:
        raise bad_request(str(refused)) from None
    name = pod["metadata"]["name"]
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    options = _options(request)
    if subresource == "exec" and not options.command:
        raise bad_request("you must specify at least 1 command")
    if not (options.stdin or options.stdout or options.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    refusal = _simulated(name, container) if source is None else source.refusal(pod, container)
    if refusal or source is None:
        raise ApiError(400, "BadRequest", refusal)
    act = source.execute if subresource == "exec" else source.attach
    return ApiStreams(serve=partial(act, pod, container, options), options=options)


def _forward(source: StreamSource | None, pod: Manifest) -> ApiForward:
    """Offer to forward connections to a pod."""
    name = pod["metadata"]["name"]
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        raise bad_request(f"unable to forward port because pod is not running. Current status={phase}")
    addresses = source.addresses(pod) if source is not None else ()
    if not addresses:
        raise bad_request(
            f"pod {name} is simulated: nothing listens there; start the cluster with `volcanoio up --run`"
        )
    return ApiForward(pod=name, addresses=addresses)


def _options(request: ApiRequest) -> StreamOptions:
    """Parse the query.

    A terminal has no separate error stream, and attach shows output by default.
    """
    tty = request.flag("tty")
    return StreamOptions(
        stdin=request.flag("stdin"),
        stdout=request.flag("stdout"),
        stderr=request.flag("stderr") and not tty,
        tty=tty,
        command=tuple(request.query.get("command", ())),
    )


def _simulated(pod: str, container: str) -> str:
    return (
        f"container {container} in pod {pod} is simulated: it runs no process; start the cluster with "
        "`volcanoio up --run` and give the container a command (kubectl logs shows what a simulated one writes)"
    )


_PROXY_PATH = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/proxy(/.*)?")


async def unserved(request: ApiRequest) -> ApiResponse | None:
    """Answer requests that no container supports; None for any other request."""
    if "/proxy" not in request.path or not _PROXY_PATH.fullmatch(request.path):
        return None
    text = "proxy is not served; a pod that `volcanoio up --run` runs can be reached at its own address (status.podIP)"
    return ApiError(501, "NotImplemented", text).response()
