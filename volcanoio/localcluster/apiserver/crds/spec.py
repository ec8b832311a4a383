"""Validation of a definition's spec, including `spec.conversion`.

Kubernetes: apiextensions `validation.go`, apiserver `util/webhook`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from volcanoio.localcluster.apiserver.crds.documents import parts, schemas, versions_shown
from volcanoio.localcluster.apiserver.crds.schemas import schema_errors
from volcanoio.localcluster.apiserver.schema.fieldpaths import FieldPathError, resolve
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import subdomain_rule
from volcanoio.model.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from volcanoio.model.validation.formats import dns1035_rule, parse_url

_ACCEPTED: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"


def conversion_errors(conversion: Manifest, path: str) -> Iterator[FieldError]:
    """Yield errors of a conversion."""
    strategy = conversion.get("strategy") or ""
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in {"None", "Webhook"}:
        yield unsupported(f"{path}.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        for field, value in (("webhookClientConfig", client), ("conversionReviewVersions", versions)):
            if value:
                yield forbidden(f"{path}.{field}", "should not be set when strategy is not set to Webhook")
        return
    where = f"{path}.webhookClientConfig"
    if client is None:
        yield required(where, "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield required(where, "exactly one of url or service is required")
    elif client.get("url") is not None:
        yield from _url_errors(client["url"], f"{where}.url")
    else:
        yield from _service_errors(client["service"], f"{where}.service")
    yield from _review_version_errors(versions, f"{path}.conversionReviewVersions")


def _url_errors(text: str, path: str) -> Iterator[FieldError]:
    url = urlsplit(text)
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not url.netloc:
        yield invalid(path, "", f"host must be specified{_FORM}")
    if "@" in url.netloc:
        yield invalid(path, url.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(path, url.query, "query parameters are not permitted in the URL")


def _service_errors(service: Manifest, path: str) -> Iterator[FieldError]:
    for field, other in (("name", "namespace"), ("namespace", "name")):
        if not service.get(other):
            yield required(f"{path}.{field}")  # the real server also names the other field
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if service.get("path") and not service["path"].startswith("/"):
        yield invalid(f"{path}.path", service["path"], "must start with a '/'")


def _review_version_errors(versions: list[str], path: str) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    for at, version in enumerate(versions):
        if version in versions[:at]:
            yield invalid(f"{path}[{at}]", version, "duplicate version")
        elif rule := dns1035_rule(version):
            yield invalid(f"{path}[{at}]", version, rule)
    if not set(versions) & set(_ACCEPTED):
        yield invalid(path, versions, f"must include at least one of {', '.join(_ACCEPTED)}")


MAX_SELECTABLE_FIELDS: Final = 8
_COLUMN_TYPES: Final = "boolean,date,integer,number,string"
_COLUMN_FORMATS: Final = "byte,date,date-time,double,float,int32,int64,password"
_APPROVAL: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def definition_errors(definition: Manifest) -> list[FieldError]:
    """Return errors of a definition."""
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return [required("spec")]
    names = spec.get("names") if isinstance(spec.get("names"), dict) else {}
    found = list(_name_errors(definition, spec, names or {}))
    found += _group_errors(spec)
    found += _version_errors(spec)
    found += names_errors(names or {}, "spec.names")
    for schema in schemas(spec):
        found += schema_errors(schema.value, schema.path, status=_has_status(spec, schema.version))
    for part in parts(spec, "subresources", "subresources", "subresources"):
        found += _subresource_errors(part.value, part.path)
    for part in parts(spec, "additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns"):
        for at, column in enumerate(part.value):
            found += _column_errors(column, f"{part.path}[{at}]")
    found += _selectable_errors(spec)
    if spec.get("preserveUnknownFields") is True:
        rule = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        found.append(invalid("spec.preserveUnknownFields", True, rule))
    found += conversion_errors(spec.get("conversion") or {}, "spec.conversion")
    found += _stored_version_errors(definition)
    found += approval_errors(definition, None)
    return found


def _name_errors(definition: Manifest, spec: Manifest, names: Manifest) -> Iterator[FieldError]:
    is_new = "resourceVersion" not in definition["metadata"]  # later updates that change the group are refused
    for field in ("name", "generateName") if is_new else ():
        stated = definition["metadata"].get(field)
        if stated and stated != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
            yield invalid(f"metadata.{field}", stated, 'must be spec.names.plural+"."+spec.group')
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")


def _group_errors(spec: Manifest) -> Iterator[FieldError]:
    group, scope = spec.get("group") or "", spec.get("scope") or ""
    if not group:
        yield required("spec.group")
    elif rule := subdomain_rule(group):
        yield invalid("spec.group", group, rule)
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        yield unsupported("spec.scope", scope, ("Cluster", "Namespaced"))


def _version_errors(spec: Manifest) -> Iterator[FieldError]:
    versions: list[Manifest] = spec.get("versions") or []
    names = [one.get("name") or "" for one in versions]
    for at, version in enumerate(versions):
        path = f"spec.versions[{at}]"
        if rule := dns1035_rule(names[at]):
            yield invalid(f"{path}.name", names[at], rule)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"{path}.schema.openAPIV3Schema")
        yield from _deprecation_errors(version, f"{path}.deprecationWarning")
    if len(set(names)) < len(names):
        yield invalid("spec.versions", versions_shown(spec), "must contain unique version names")
    if sum(bool(one.get("storage")) for one in versions) != 1:
        rule = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", versions_shown(spec) if "versions" in spec else None, rule)
    if names and names[0] and (rule := dns1035_rule(names[0])):
        yield invalid("spec.version", names[0], rule)  # the former name of the first version


def _deprecation_errors(version: Manifest, path: str) -> Iterator[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        yield invalid(path, text, "must be <= 256 characters long")
    if not text:
        yield invalid(path, text, "must not be an empty string")
    strange = next((at for at, letter in enumerate(text) if not letter.isprintable()), None)
    if strange is not None:
        at = len(text[:strange].encode())
        rule = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
        yield invalid(path, text, rule)


def names_errors(names: Manifest, path: str) -> Iterator[FieldError]:
    """Yield errors of spec.names, or of status.acceptedNames."""
    for field in ("plural", "singular"):
        if names.get(field) and (rule := dns1035_rule(names[field])):
            yield invalid(f"{path}.{field}", names[field], rule)
    for field in ("kind", "listKind"):
        if names.get(field) and (rule := dns1035_rule(names[field].lower())):
            text = f"may have mixed case, but should otherwise match: {rule}"
            yield invalid(f"{path}.{field}", names[field], text)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for at, name in enumerate(names.get(field) or ()):
            if rule := dns1035_rule(name):
                yield invalid(f"{path}.{field}[{at}]", name, rule)


def _has_status(spec: Manifest, version: Manifest) -> bool:
    """Return whether the version (or any, for a shared schema) has the status subresource."""
    if version:
        return (version.get("subresources") or {}).get("status") is not None
    return any((one.get("subresources") or {}).get("status") is not None for one in spec.get("versions") or ())


def _subresource_errors(subresources: Manifest, path: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for field, below in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        where, value = f"{path}.scale.{field}", scale.get(field) or ""
        if not value:
            yield required(where)
        elif not value.startswith("."):
            yield invalid(where, value, "must be a simple json path starting with .")
        elif not value.startswith(below):
            yield invalid(where, value, f"should be a json path under {below.rstrip('.')}")
    where, value = f"{path}.scale.labelSelectorPath", scale.get("labelSelectorPath") or ""
    if value and not value.startswith("."):
        yield invalid(where, value, "must be a simple json path starting with .")
    elif value and not value.startswith((".spec.", ".status.")):
        yield invalid(where, value, "should be a json path under either .spec or .status")


def _column_errors(column: Manifest, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name")
    kind, shape, where = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    if not kind:
        yield required(f"{path}.type", f"must be one of {_COLUMN_TYPES}")
    elif kind not in _COLUMN_TYPES.split(","):
        yield invalid(f"{path}.type", kind, f"must be one of {_COLUMN_TYPES}")
    if shape and shape not in _COLUMN_FORMATS.split(","):
        yield invalid(f"{path}.format", shape, f"must be one of {_COLUMN_FORMATS}")
    if not where:
        yield required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _selectable_errors(spec: Manifest) -> Iterator[FieldError]:
    shared = parts(spec, "selectableFields", "selectableFields", "selectableFields")
    for part in shared:
        version = part.version or spec["versions"][0]
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            rule = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield invalid(part.path, "", rule)
            continue
        yield from _fields_errors(part.value, schema, part.path)


def _fields_errors(fields: list[Any], schema: Manifest, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for at, field in enumerate(fields):
        where, given = f"{path}[{at}].jsonPath", field.get("jsonPath") or ""
        if not given:
            yield required(where)
            continue
        try:
            known, found = resolve(given, schema, brackets=False)
        except FieldPathError as error:
            yield invalid(where, given, f"is an invalid path: {error}")
            continue
        if known.split(".")[0] == "metadata":
            yield invalid(where, given, "must not point to fields in metadata")
        if found.get("type") not in {"string", "boolean", "integer"}:
            rule = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield invalid(where, given, rule)
        if known in seen:
            yield duplicate(where, given)
        seen.add(known)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


def _stored_version_errors(definition: Manifest) -> Iterator[FieldError]:
    path = "status.storedVersions"
    stored: list[str] = (definition.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    versions: list[Manifest] = definition["spec"].get("versions") or []
    known = {one.get("name") or "" for one in versions}
    for one in versions:
        if one.get("storage") and (one.get("name") or "") not in stored:
            yield invalid(path, stored, f"must have the storage version {one.get('name')}")
    for at, name in enumerate(stored):
        if name not in known:
            rule = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{path}[{at}]", name, rule)


def change_errors(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of an update that changes immutable fields."""
    after, before = new.get("spec") or {}, old["spec"]
    names = after.get("names") or {}
    conditions = (old.get("status") or {}).get("conditions") or ()
    established = any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
    found = []
    if established:
        if after.get("scope") != before.get("scope"):
            found.append(invalid("spec.scope", after.get("scope") or "", "field is immutable"))
        if names.get("kind") != before["names"].get("kind"):
            found.append(invalid("spec.names.kind", names.get("kind") or "", "field is immutable"))
    if after.get("group") != before.get("group"):
        found.append(invalid("spec.group", after.get("group") or "", "field is immutable"))
    if names.get("plural") != before["names"].get("plural"):
        found.append(invalid("spec.names.plural", names.get("plural") or "", "field is immutable"))
    return found


def approval_errors(new: Manifest, old: Manifest | None) -> list[FieldError]:
    """Return errors of a definition in a Kubernetes group without an approval annotation."""
    group = str((new.get("spec") or {}).get("group") or "")
    if not is_protected(group):
        return []
    state, rule = _approval(new)
    if old is not None and _approval(old)[0] == state:
        return []
    path, value = f"metadata.annotations[{_APPROVAL}]", (new["metadata"].get("annotations") or {}).get(_APPROVAL)
    if state == "missing":
        return [required(path, rule)]
    return [invalid(path, value, rule)] if state == "invalid" else []


def is_protected(group: str) -> bool:
    """Return whether the group is k8s.io, kubernetes.io or below."""
    return any(group == one or group.endswith(f".{one}") for one in ("k8s.io", "kubernetes.io"))


def _approval(definition: Manifest) -> tuple[str, str]:
    """Return `approved`, `bypassed`, `missing` or `invalid`, and the message for it."""
    value = (definition["metadata"].get("annotations") or {}).get(_APPROVAL) or ""
    must = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not value:
        return "missing", f"{must}, {_SEE}"
    if value.startswith("unapproved"):
        return "bypassed", f'not approved: "{value}"'
    try:
        url = parse_url(value)
    except ValueError:
        url = None
    if url is not None and url.host and url.scheme:
        return "approved", f"approved in {value}"
    return "invalid", f'{must} with either a URL or a reason starting with "unapproved", {_SEE}'


def approval_condition(definition: Manifest) -> dict[str, str] | None:
    """Return the condition of the approval; None for groups that need none."""
    if not is_protected(str(definition["spec"].get("group") or "")):
        return None
    state, message = _approval(definition)
    reason = {
        "approved": "ApprovedAnnotation",
        "bypassed": "UnapprovedAnnotation",
        "missing": "MissingAnnotation",
        "invalid": "InvalidAnnotation",
    }[state]
    return {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": "True" if state == "approved" else "False",
        "reason": reason,
        "message": message,
    }
