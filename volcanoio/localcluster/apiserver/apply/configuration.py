"""The body of an apply: a partial object as JSON or YAML, and its parameters."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import yaml

from volcanoio.localcluster.apiserver.apimachinery.errors import MALFORMED, bad_request
from volcanoio.localcluster.apiserver.apimachinery.objects import decode
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apply.managers import manager_of
from volcanoio.localcluster.apiserver.registry.bodies import YamlLoader, repeated_keys
from volcanoio.localcluster.apiserver.registry.options import FieldValidation, write_options
from volcanoio.model.base import Manifest
from volcanoio.model.documents import load_yaml
from volcanoio.model.validation.field_errors import FieldError, required


class Options(NamedTuple):
    """The manager of an apply, and whether it forces conflicts."""

    manager: str
    force: bool


def options(request: ApiRequest) -> Options:
    """Read the parameters of an apply; raises ApiError 422 without a manager."""
    if not request.first("fieldManager"):
        missing: list[FieldError] = [required("fieldManager", "is required for apply patch")]
        write_options(request, missing)
    return Options(manager_of(request), request.flag("force"))


def read(request: ApiRequest, validation: FieldValidation) -> tuple[Manifest, tuple[str, ...]]:
    """Read the configuration, and warnings about duplicate keys; raises ApiError 400."""
    body = request.body
    if body.lstrip()[:1] == b"{":
        try:
            found: Any = decode(body)
        except MALFORMED:
            found = _yaml(body)
    else:
        found = _yaml(body)
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {_KINDS[type(found)]}")
    if validation == "Ignore" or not _repeats(body):
        return found, ()
    problems = repeated_keys(body)
    if not problems:
        return found, ()
    if validation == "Strict":
        lines = "\n".join(f"  {one}" for one in problems)
        raise bad_request(
            f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n{lines}"
        )
    return found, tuple(problems)


_GO: Final = "json: cannot unmarshal {} into Go value of type map[string]interface {{}}"
_KINDS: Final[dict[type, str]] = {
    list: _GO.format("array"),
    str: _GO.format("string"),
    int: _GO.format("number"),
    float: _GO.format("number"),
    bool: _GO.format("bool"),
}


def _yaml(body: bytes) -> Any:
    try:
        return load_yaml(body, YamlLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        text = f"error decoding YAML: error converting YAML to JSON: yaml: line {max(line, 1)}: {error.problem}"
        raise bad_request(text) from None
    except (yaml.YAMLError, ValueError) as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {error}") from None


def _repeats(body: bytes) -> bool:
    """Return whether an object of the body may contain a key twice; YAML may."""
    repeated = False

    def note(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len(pairs) != len({key for key, _ in pairs})

    try:
        json.loads(body, object_pairs_hook=note)
    except ValueError:
        return True
    return repeated


def check_kind(config: Manifest, api_version: str, kind: str) -> None:
    """Check the kind of the configuration, and that it has no managed fields.

    Raises ApiError 400.
    """
    stated, stated_kind = config.get("apiVersion"), config.get("kind")
    if stated != api_version or stated_kind != kind:
        group, _, version = str(stated or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={stated_kind or ''}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
