"""`pods/NAME/exec`, `attach` and `portforward`: which container, what of it, and the errors kubectl expects.

Kubernetes: `pkg/registry/core/pod/strategy.go` (ExecLocation, AttachLocation).
"""

from __future__ import annotations

from functools import partial

from volcanoio.localcluster.apiserver.api import ApiForward, ApiRequest, ApiStreams, ApiUpgrade
from volcanoio.localcluster.apiserver.errors import ApiError, bad_request
from volcanoio.localcluster.apiserver.logs import LogRefused, choose_container
from volcanoio.localcluster.apiserver.streams.remote import StreamOptions, StreamSource
from volcanoio.model.base import Manifest


def connect(source: StreamSource | None, pod: Manifest, subresource: str, request: ApiRequest) -> ApiUpgrade:
    """The offer to carry a container's streams. Raises ApiError. Without a source all containers are simulated."""
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
    """The offer to carry connections to a pod."""
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
    """The query; a terminal has no error stream of its own. Attach shows output when nothing is said."""
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
