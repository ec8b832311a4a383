"""The part of OpenAPI v2 that kubectl 1.27 and 1.28 require: whether a kind accepts `fieldValidation`.

Before create and apply they read the document, in protobuf only, and look for a PATCH with the kind and the parameter.
It has no definitions; for merge keys these versions then use their own tables. Newer versions use v3 instead. Field
numbers: the OpenAPI v2 messages of github.com/google/gnostic, openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.http.health import KUBERNETES_VERSION
from volcanoio.localcluster.apiserver.openapi.discovery import Documents
from volcanoio.localcluster.apiserver.openapi.v3 import WRITE_PARAMETERS, item_path

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ASKED_FOR_AS = (PROTOBUF, PROTOBUF.replace("v2.v1", "v2@v1"))  # clients send an @, which is invalid in a media type
_LENGTH_DELIMITED = 2

# Field numbers, by message.
_DOCUMENT = {"swagger": 1, "info": 2, "paths": 8}
_INFO = {"title": 1, "version": 2}
_PATHS_PATH = 2
_PATH_ITEM_PATCH = 8
_OPERATION = {"parameters": 8, "vendor_extension": 13}
_NAMED = {"name": 1, "value": 2}
_ANY_YAML = 2
_QUERY = {"in": 2, "name": 4, "type": 6}
_ITEM_PARAMETER, _PARAMETER_NON_BODY, _NON_BODY_QUERY = 1, 2, 3


class OpenApiV2:
    """The route `/openapi/v2`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents = Documents(registry)

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer a request for the document; None for any other."""
        if request.path != "/openapi/v2" or request.method != "GET":
            return None
        if not any(name in request.headers.get("accept", "") for name in _ASKED_FOR_AS):
            text = f"OpenAPI v2 is served as {PROTOBUF} only; for JSON use /openapi/v3"
            return ApiError(406, "NotAcceptable", text).response()
        document = self._documents.get("v2", lambda: encode_document(self._registry.resources()))
        return document.answer(request, PROTOBUF)


def encode_document(resources: tuple[Resource, ...]) -> bytes:
    """Encode the Document message with the patch operation of each resource that has one."""
    info = _text(_INFO["title"], "Kubernetes") + _text(_INFO["version"], "v{}.{}.{}".format(*KUBERNETES_VERSION))
    paths = b"".join(
        _field(_PATHS_PATH, _named(item_path(one), _field(_PATH_ITEM_PATCH, _operation(one))))
        for one in resources
        if "patch" in one.verbs
    )
    return _text(_DOCUMENT["swagger"], "2.0") + _field(_DOCUMENT["info"], info) + _field(_DOCUMENT["paths"], paths)


def _operation(one: Resource) -> bytes:
    kind = f"group: {one.group!r}\nkind: {one.kind}\nversion: {one.version}\n"
    extension = _named("x-kubernetes-group-version-kind", _text(_ANY_YAML, kind))
    parameters = b"".join(_field(_OPERATION["parameters"], _query_parameter(name)) for name in WRITE_PARAMETERS)
    return parameters + _field(_OPERATION["vendor_extension"], extension)


def _query_parameter(name: str) -> bytes:
    schema = _text(_QUERY["in"], "query") + _text(_QUERY["name"], name) + _text(_QUERY["type"], "string")
    return _field(_ITEM_PARAMETER, _field(_PARAMETER_NON_BODY, _field(_NON_BODY_QUERY, schema)))


def _named(name: str, value: bytes) -> bytes:
    return _text(_NAMED["name"], name) + _field(_NAMED["value"], value)


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited protobuf field."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
