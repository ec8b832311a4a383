"""Request bodies: size, content type, JSON or YAML, and fields that do not exist."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import yaml

from volcanoio.engine.admission.fielderrors import invalid as invalid_value
from volcanoio.localcluster.apiserver import builtin_types
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.apply.managers import is_ours
from volcanoio.localcluster.apiserver.caller import REQUEST
from volcanoio.localcluster.apiserver.crds import NAME as DEFINITIONS
from volcanoio.localcluster.apiserver.crds.words import WrongWordError, check_words
from volcanoio.localcluster.apiserver.duplicates import duplicate_fields, may_repeat, repeated_keys
from volcanoio.localcluster.apiserver.errors import (
    MALFORMED,
    MAX_REQUEST_BYTES,
    ApiError,
    UndecodableError,
    bad_request,
    invalid,
    too_large,
    unsupported_media_type,
)
from volcanoio.localcluster.apiserver.hints import schema_siblings, unknown_field
from volcanoio.localcluster.apiserver.objects import decode, encode
from volcanoio.localcluster.apiserver.options import FieldValidation
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.embedded import Misfit
from volcanoio.model.base import Manifest
from volcanoio.model.manifests import KubernetesLoader, construct_float


class YamlLoader(KubernetesLoader):
    """YAML as JSON: keys are texts, and y and n are true and false."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping with its keys as JSON has them; raises YAMLError for one that is nothing."""
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
    """A number that JSON has; raises YAMLError for any other."""
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
    """The body's media type without parameters."""
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


_UNRECOGNIZED = "the object provided is unrecognized (must be of type {})"
_JSON_TYPES = frozenset({"application/json", ""})
_YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})


def check_type(request: ApiRequest) -> None:
    """Refuse a body of another type than JSON or YAML; raises ApiError 415."""
    type_ = content_type(request)
    if type_ not in _JSON_TYPES and type_ not in _YAML_TYPES:
        raise unsupported_media_type(_UNKNOWN_FORMAT)


def read(request: ApiRequest, kind: str = "JSON") -> Any:
    """The decoded body, JSON or YAML, which should be of a kind; raises ApiError 400 and 415."""
    type_ = content_type(request)
    if type_ in _JSON_TYPES:
        return parse_json(request.body, kind)
    if type_ in _YAML_TYPES:
        try:
            return yaml.load(request.body, Loader=YamlLoader)
        except yaml.YAMLError as error:
            raise bad_request(f"error converting YAML to JSON: yaml: {error}") from None
    raise unsupported_media_type(_UNKNOWN_FORMAT)


def parse_json(body: bytes, kind: str = "JSON") -> Any:
    """The decoded JSON, which should be of a kind; raises ApiError 400."""
    try:
        return decode(body)
    except MALFORMED as error:
        reason = "the body is empty" if not body.strip() else str(error)
        raise _unrecognized(kind, reason) from None


def _unrecognized(kind: str, reason: str) -> ApiError:
    return bad_request(f"{_UNRECOGNIZED.format(kind)}: couldn't get version/kind; json parse error: {reason}")


def read_object(request: ApiRequest, resource: Resource) -> tuple[Manifest, bytes]:
    """The object in the body, of the kind that is served there, and its JSON."""
    obj = read(request, resource.kind)
    if obj is None:  # as Go reads it: an object without anything
        return check_kind({}, resource), b"{}"
    body = request.body if content_type(request) == "application/json" else encode(obj)
    return check_kind(obj, resource), body


def check_kind(obj: Any, resource: Resource) -> Manifest:
    """An object of the resource's kind and version with metadata; raises ApiError 400."""
    if not isinstance(obj, dict):
        raise _unrecognized(resource.kind, "the body is not an object")
    found_version, found_kind = obj.get("apiVersion"), obj.get("kind")
    if resource.custom is not None and not found_kind:  # nothing but the body says what it is
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
        stranger, meta = replace(resource, kind=str(found_kind)), obj.get("metadata")
        name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
        raise invalid(stranger, name, [invalid_value("kind", found_kind, f"must be {resource.kind}")])
    if obj["apiVersion"] != resource.api_version or obj["kind"] != resource.kind:
        version = str(obj["apiVersion"]).rpartition("/")[2]
        text = f'{obj["kind"]} in version "{version}" cannot be handled as a {resource.kind}: '
        raise bad_request(f"{text}{resource.kind} of {resource.api_version} is what is written here")
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise bad_request("metadata: expected an object")
    return obj


def repeated_fields(body: bytes, decoded: Any, validation: FieldValidation) -> list[str]:
    """What is told of keys that are there twice; looked for on behalf of other programs, and where it is asked for."""
    request = REQUEST.get()
    if validation != "Strict" and (request is None or is_ours(request.headers.get("user-agent"))):
        return []
    if validation == "Ignore":
        return []
    if request is not None and request.method != "PATCH" and content_type(request) in _YAML_TYPES:
        return repeated_keys(request.body)
    return duplicate_fields(body) if may_repeat(body, decoded) else []


def check_fields(obj: Manifest, body: bytes, resource: Resource, validation: FieldValidation) -> tuple[str, ...]:
    """Drop fields the kind does not have; returns warnings, or raises ApiError 400 under Strict."""
    repeated = repeated_fields(body, obj, validation)
    if resource.custom is not None:
        siblings = resource.custom.schema
        try:
            removed = resource.custom.prune(obj)
        except Misfit as error:
            raise UndecodableError(resource, str(error)) from None
        unknown = [unknown_field(path, schema_siblings(siblings, path)) for path in removed]
    else:
        unknown, wrong = builtin_types.check(resource.name, body, obj)
        if wrong:
            raise UndecodableError(resource, "; ".join(wrong))
        if resource.name == DEFINITIONS:
            try:
                unknown = [*unknown, *(unknown_field(path, ()) for path in check_words(obj))]
            except WrongWordError as error:
                raise UndecodableError(resource, str(error)) from None
    if repeated:
        unseen = tuple(one.partition('"')[2].partition('"')[0] for one in unknown if resource.custom is None)
        unknown = [one for one in repeated if one.split('"')[1] not in unseen] + unknown
    if not unknown or validation == "Ignore":
        return ()
    if validation == "Strict":
        raise UndecodableError(resource, f"strict decoding error: {', '.join(unknown)}")
    return tuple(unknown)
