"""A bind on the wire: prebuilt bytes, and what an uncached look at the pod says about it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from volcanoio.framework.scheduling_effects import BindRequest
from volcanoio.kube.requests import Request
from volcanoio.kube.transport import Response
from volcanoio.model.kinds import POD

_TEMPLATE = (
    b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":%b,"namespace":%b,"uid":%b%b},'
    b'"target":{"apiVersion":"v1","kind":"Node","name":%b}}'
)
_ENCODER = msgspec.json.Encoder()


class Finding(StrEnum):
    """What the pod, read uncached, says about our bind."""

    BOUND_HERE = "bound here"
    BOUND_ELSEWHERE = "bound to another node"
    GONE = "gone"
    UNBOUND = "not bound"


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


_DECODER = msgspec.json.Decoder(_Pod)


def bind(request: BindRequest) -> Request:
    """POST pods/NAME/binding. The uid is a precondition: a successor of that name is not bound."""
    encode = _ENCODER.encode
    annotations = b',"annotations":' + encode(request.annotations) if request.annotations else b""
    body = _TEMPLATE % (
        encode(request.name),
        encode(request.namespace),
        encode(request.uid),
        annotations,
        encode(request.node),
    )
    return Request(method="POST", path=POD.path(request.namespace, request.name, "binding"), body=body)


def finding(request: BindRequest, response: Response) -> Finding | None:
    """What a GET of the pod means; None when it answers nothing and must be asked again."""
    if response.status == 404:
        return Finding.GONE
    if not response.ok:
        return None
    pod = _DECODER.decode(response.body)
    if pod.metadata.uid != request.uid:
        return Finding.GONE
    if not pod.spec.node_name:
        return Finding.UNBOUND
    return Finding.BOUND_HERE if pod.spec.node_name == request.node else Finding.BOUND_ELSEWHERE
