"""Request bodies: size, content type, JSON or YAML, and unknown or duplicate fields.

Decoders accept duplicate keys silently, and the search for them takes several times as long as decoding. A cheap test
therefore decides whether to search.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import yaml

from volcanoio.localcluster.apiserver.apimachinery.errors import (
    MALFORMED,
    MAX_REQUEST_BYTES,
    ApiError,
    UndecodableError,
    bad_request,
    invalid_object,
    too_large,
    unsupported_media_type,
)
from volcanoio.localcluster.apiserver.apimachinery.objects import decode, encode
from volcanoio.localcluster.apiserver.apimachinery.request import REQUEST, ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apply.managers import is_ours
from volcanoio.localcluster.apiserver.crds import NAME as DEFINITIONS
from volcanoio.localcluster.apiserver.crds.documents import FieldTypeError, check_schema_fields
from volcanoio.localcluster.apiserver.registry.options import FieldValidation
from volcanoio.localcluster.apiserver.schema import builtin_types
from volcanoio.localcluster.apiserver.schema.builtin_types import schema_siblings, unknown_field
from volcanoio.localcluster.apiserver.schema.embedded import EmbeddedObjectError
from volcanoio.model.base import Manifest
from volcanoio.model.documents import CONFIGURATION, compose_yaml, is_deeper, load_yaml
from volcanoio.model.manifests import KubernetesLoader, construct_float
from volcanoio.model.validation.field_errors import invalid as invalid_value


class _Object:
    """An object as it was written: its pairs in their order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def may_repeat(body: bytes, decoded: Any) -> bool:
    """Return whether JSON may contain a key twice; False is certain, True is not.

    Cheaper than decoding: the re-encoded value has as many keys as the text unless some were lost.
    """
    return body.count(b'":') != encode(decoded).count(b'":')


def duplicate_fields(body: bytes) -> list[str]:
    """Return `duplicate field "PATH"` for each repeated key; empty for invalid JSON."""
    try:
        whole = json.loads(body, object_pairs_hook=_Object)
    except ValueError:
        return []
    found: list[str] = []
    _visit(whole, "", found)
    return [f'duplicate field "{path}"' for path in dict.fromkeys(found)]


def _visit(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Object):
        seen: set[str] = set()
        for key, inner in value.pairs:
            where = f"{path}.{key}" if path else key
            if key in seen:
                found.append(where)
            seen.add(key)
            _visit(inner, where, found)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            _visit(inner, f"{path}[{at}]", found)


def repeated_keys(body: bytes) -> list[str]:
    """Return repeated keys of a YAML mapping, with their lines."""
    found: list[str] = []
    waiting: list[Any] = [compose_yaml(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.value in seen:
                    found.append(f'line {line}: key "{key.value}" already set in map')
                seen.setdefault(key.value, line)
                waiting.append(value)
    return found


class YamlLoader(KubernetesLoader):
    """Loader of YAML as JSON: keys are texts, and y and n are booleans."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping with its keys as texts; raises YAMLError for an invalid key."""
        self.flatten_mapping(node)
        return {
            _key_text(self.construct_object(key, deep=True)): self.construct_object(value, deep=deep)
            for key, value in node.value
        }


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, int | float):
        return str(key)
    msg = f"unsupported map key: {key}"
    raise yaml.YAMLError(msg)


def _finite(loader: YamlLoader, node: yaml.ScalarNode) -> Any:
    """Check that a number exists in JSON; raises YAMLError."""
    number = construct_float(loader, node)
    if isinstance(number, float) and not math.isfinite(number):
        msg = f"json: unsupported value: {'NaN' if math.isnan(number) else '+Inf' if number > 0 else '-Inf'}"
        raise yaml.YAMLError(msg)
    return number


YamlLoader.add_constructor("tag:yaml.org,2002:float", _finite)
YamlLoader.bool_values = {**yaml.CSafeLoader.bool_values, "y": True, "n": False}
YamlLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))

_UNKNOWN_FORMAT = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)


def check_size(request: ApiRequest) -> None:
    """Refuse a body over the limit."""
    if len(request.body) > MAX_REQUEST_BYTES:
        raise too_large(len(request.body))


def content_type(request: ApiRequest) -> str:
    """Return the body's media type without parameters."""
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


_UNRECOGNIZED = "the object provided is unrecognized (must be of type {})"
_JSON_TYPES = frozenset({"application/json", ""})
_YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})


def check_type(request: ApiRequest) -> None:
    """Refuse a body that is neither JSON nor YAML; raises ApiError 415."""
    type_ = content_type(request)
    if type_ not in _JSON_TYPES and type_ not in _YAML_TYPES:
        raise unsupported_media_type(_UNKNOWN_FORMAT)


def read(request: ApiRequest, kind: str = "JSON") -> Any:
    """Decode the body, JSON or YAML; `kind` is for messages. Raises ApiError 400 and 415."""
    type_ = content_type(request)
    if type_ in _JSON_TYPES:
        return parse_json(request.body, kind)
    if type_ in _YAML_TYPES:
        try:
            return load_yaml(request.body, YamlLoader)
        except yaml.YAMLError as error:
            raise bad_request(f"error converting YAML to JSON: yaml: {error}") from None
    raise unsupported_media_type(_UNKNOWN_FORMAT)


def parse_json(body: bytes, kind: str = "JSON") -> Any:
    """Decode JSON; `kind` is for messages. Raises ApiError 400."""
    if is_deeper(body, CONFIGURATION.depth):
        raise _unrecognized(kind, f"nested deeper than {CONFIGURATION.depth} levels")
    try:
        return decode(body)
    except MALFORMED as error:
        reason = "the body is empty" if not body.strip() else str(error)
        raise _unrecognized(kind, reason) from None


def _unrecognized(kind: str, reason: str) -> ApiError:
    return bad_request(f"{_UNRECOGNIZED.format(kind)}: couldn't get version/kind; json parse error: {reason}")


def read_object(request: ApiRequest, resource: Resource) -> tuple[Manifest, bytes]:
    """Read the object in the body, which must be of the served kind, and its JSON."""
    obj = read(request, resource.kind)
    if obj is None:  # as in Go: an empty object
        return check_kind({}, resource), b"{}"
    body = request.body if content_type(request) == "application/json" else encode(obj)
    return check_kind(obj, resource), body


def check_kind(obj: Any, resource: Resource) -> Manifest:
    """Check that an object has the resource's kind and version, and metadata.

    Raises ApiError 400.
    """
    if not isinstance(obj, dict):
        raise _unrecognized(resource.kind, "the body is not an object")
    found_version, found_kind = obj.get("apiVersion"), obj.get("kind")
    if resource.custom is not None and not found_kind:  # only the body has the kind
        shown = encode(obj).decode()
        raise bad_request(f"{_UNRECOGNIZED.format(resource.kind)}: Object 'Kind' is missing in '{shown}'")
    if not found_version and resource.custom is None:
        obj["apiVersion"] = resource.api_version
    elif found_version != resource.api_version and resource.custom is not None:
        text = "the API version in the data ({}) does not match the expected API version ({})"
        raise bad_request(text.format(found_version or "", resource.api_version))
    if found_kind is None or found_kind == "":
        obj["kind"] = resource.kind
    elif found_kind != resource.kind and resource.custom is not None:
        sent_kind, meta = replace(resource, kind=str(found_kind)), obj.get("metadata")
        name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
        raise invalid_object(sent_kind, name, [invalid_value("kind", found_kind, f"must be {resource.kind}")])
    if obj["apiVersion"] != resource.api_version or obj["kind"] != resource.kind:
        version = str(obj["apiVersion"]).rpartition("/")[2]
        text = f'{obj["kind"]} in version "{version}" cannot be handled as a {resource.kind}: '
        raise bad_request(f"{text}{resource.kind} of {resource.api_version} is what is written here")
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise bad_request("metadata: expected an object")
    return obj


def repeated_fields(body: bytes, decoded: Any, validation: FieldValidation) -> list[str]:
    """Return warnings of repeated keys.

    Checked for other programs and under fieldValidation=Strict.
    """
    request = REQUEST.get()
    if validation != "Strict" and (request is None or is_ours(request.headers.get("user-agent"))):
        return []
    if validation == "Ignore":
        return []
    if request is not None and request.method != "PATCH" and content_type(request) in _YAML_TYPES:
        return repeated_keys(request.body)
    return duplicate_fields(body) if may_repeat(body, decoded) else []


def check_fields(obj: Manifest, body: bytes, resource: Resource, validation: FieldValidation) -> tuple[str, ...]:
    """Drop unknown fields; returns warnings, or raises ApiError 400 under Strict."""
    repeated = repeated_fields(body, obj, validation)
    if resource.custom is not None:
        siblings = resource.custom.schema
        try:
            removed = resource.custom.prune(obj)
        except EmbeddedObjectError as error:
            raise UndecodableError(resource, str(error)) from None
        unknown = [unknown_field(path, schema_siblings(siblings, path)) for path in removed]
    else:
        unknown, wrong = builtin_types.check(resource.name, body, obj)
        if wrong:
            raise UndecodableError(resource, "; ".join(wrong))
        if resource.name == DEFINITIONS:
            try:
                unknown = [*unknown, *(unknown_field(path, ()) for path in check_schema_fields(obj))]
            except FieldTypeError as error:
                raise UndecodableError(resource, str(error)) from None
    if repeated:
        unseen = tuple(one.partition('"')[2].partition('"')[0] for one in unknown if resource.custom is None)
        unknown = [one for one in repeated if one.split('"')[1] not in unseen] + unknown
    if not unknown or validation == "Ignore":
        return ()
    if validation == "Strict":
        raise UndecodableError(resource, f"strict decoding error: {', '.join(unknown)}")
    return tuple(unknown)
