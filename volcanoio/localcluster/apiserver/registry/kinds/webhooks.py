"""Webhook configurations: defaults and rules.

Kubernetes: pkg/apis/admissionregistration/{v1/defaults.go,validation}.
"""

from __future__ import annotations

import base64
from typing import Any, Final
from urllib.parse import urlsplit

from volcanoio.localcluster.apiserver.admission.webhooks.conditions import expression_rule
from volcanoio.localcluster.apiserver.admission.webhooks.configuration import MUTATING, VALIDATING
from volcanoio.localcluster.apiserver.admission.webhooks.review import VERSIONS
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import label_selector_errors
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import label_rule, qualified_rule, subdomain_rule
from volcanoio.model.validation.field_errors import FieldError, duplicate, invalid, required, too_many, unsupported

_CHOICES: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_LONGEST: Final = 30
_MOST_CONDITIONS: Final = 64
_FORM: Final = "; desired format: https://host[/path]"


def configuration_errors(configuration: Manifest) -> list[FieldError]:
    """Return validation errors of a Mutating- or ValidatingWebhookConfiguration."""
    found: list[FieldError] = []
    names: set[str] = set()
    for at, hook in enumerate(configuration.get("webhooks") or ()):
        path = f"webhooks[{at}]"
        found += _hook_errors(hook, path)
        name = hook.get("name")
        if name and name in names:
            found.append(duplicate(f"{path}.name", name))
        names.add(name)
    return found


def _hook_errors(hook: Manifest, path: str) -> list[FieldError]:
    found = _name_errors(hook.get("name") or "", f"{path}.name")
    for at, rule in enumerate(hook.get("rules") or ()):
        found += _rule_errors(rule, f"{path}.rules[{at}]")
    for field in ("failurePolicy", "matchPolicy"):
        found += _choice_errors(hook, field, path)
    effects = hook.get("sideEffects")
    if effects is None:
        found.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    elif effects not in _SIDE_EFFECTS:
        found.append(unsupported(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= _LONGEST:
        rule = f"the timeout value must be between 1 and {_LONGEST} seconds"
        found.append(invalid(f"{path}.timeoutSeconds", seconds, rule))
    for field in ("namespaceSelector", "objectSelector"):
        found += label_selector_errors(hook.get(field), f"{path}.{field}")
    found += _choice_errors(hook, "reinvocationPolicy", path)
    found += _client_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    found += _condition_errors(hook.get("matchConditions") or (), f"{path}.matchConditions")
    return found + _version_errors(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")


def _choice_errors(hook: Manifest, field: str, path: str) -> list[FieldError]:
    value = hook.get(field)
    if value is None or value in _CHOICES[field]:
        return []
    return [unsupported(f"{path}.{field}", value, _CHOICES[field])]


def _name_errors(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if rule := subdomain_rule(name):
        return [invalid(path, name, rule)]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _rule_errors(rule: Manifest, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for field, what in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        items = rule.get(field) or []
        if not items:
            found.append(required(f"{path}.{field}"))
        if len(items) > 1 and "*" in items:
            found.append(invalid(f"{path}.{field}", items, f"if '*' is present, must not specify other {what}"))
        for at, item in enumerate(items):
            if field == "operations" and item not in _OPERATIONS:
                found.append(unsupported(f"{path}.{field}[{at}]", item, _OPERATIONS))
            if field == "apiVersions" and not item:
                found.append(required(f"{path}.{field}[{at}]"))
    found += _resource_errors(rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        found.append(unsupported(f"{path}.scope", scope, _SCOPES))
    return found


def _resource_errors(resources: list[str], path: str) -> list[FieldError]:
    found: list[FieldError] = [] if resources else [required(path)]
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for at, item in enumerate(resources):
        if not item:
            found.append(required(f"{path}[{at}]"))
            continue
        resource, slash, subresource = item.partition("/")
        if not slash:
            plain = item != "*"
            continue
        if resource in whole:
            found.append(invalid(f"{path}[{at}]", item, f"if '{resource}/*' is present, must not specify {item}"))
        if subresource in everywhere:
            found.append(invalid(f"{path}[{at}]", item, f"if '*/{subresource}' is present, must not specify {item}"))
        if subresource == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        found.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        rule = "if '*' is present, must not specify other resources without subresources"
        found.append(invalid(path, resources, rule))
    return found


def _version_errors(versions: list[str], path: str) -> list[FieldError]:
    names = ", ".join(VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {names}")]
    found: list[FieldError] = []
    for at, version in enumerate(versions):
        if version in versions[:at]:
            found.append(invalid(f"{path}[{at}]", version, "duplicate version"))
        elif rule := label_rule(version):
            found.append(invalid(f"{path}[{at}]", version, rule))
    if not set(versions) & set(VERSIONS):
        found.append(invalid(path, versions, f"must include at least one of {names}"))
    return found


def _client_errors(config: Manifest, path: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    try:
        base64.b64decode(config.get("caBundle") or "", validate=True)
    except ValueError as error:
        return [invalid(f"{path}.caBundle", config["caBundle"], f"must be base64: {error}")]
    return _service_errors(service, f"{path}.service") if service is not None else _url_errors(url, f"{path}.url")


def _url_errors(url: Any, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    user = parts.netloc.rpartition("@")[0]
    checks: tuple[tuple[bool, str, str], ...] = (
        (parts.scheme != "https", parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"),
        (not parts.netloc, "", f"host must be specified{_FORM}"),
        (bool(user), user, "user information is not permitted in the URL"),
        (bool(parts.fragment), parts.fragment, "fragments are not permitted in the URL"),
        (bool(parts.query), parts.query, "query parameters are not permitted in the URL"),
    )
    return [invalid(path, value, rule) for broken, value, rule in checks if broken]


_SWAPPED: Final = {"name": "namespace", "namespace": "name"}
"""Kubernetes confuses the two fields when one is missing."""


def _service_errors(service: Manifest, path: str) -> list[FieldError]:
    missing = [field for field in ("name", "namespace") if not service.get(field)]
    found = [required(f"{path}.{_SWAPPED[field]}") for field in missing]
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        rule = "port is not valid: must be between 1 and 65535, inclusive"
        found.append(invalid(f"{path}.port", port, rule))
    return found + _path_errors(service.get("path") or "", f"{path}.path")


def _path_errors(path: str, field: str) -> list[FieldError]:
    if path in {"", "/"}:
        return []
    if path == "//":
        return [invalid(field, path, "segment[0] may not be empty")]
    found = [] if path.startswith("/") else [invalid(field, path, "must start with a '/'")]
    for at, step in enumerate(path[1:].removesuffix("/").split("/")):
        rule = subdomain_rule(step) if step else ""
        if not step:
            found.append(invalid(field, path, f"segment[{at}] may not be empty"))
        elif rule:
            found.append(invalid(field, path, f"segment[{at}]: {rule}"))
    return found


def _condition_errors(conditions: list[Manifest] | tuple[()], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if len(conditions) > _MOST_CONDITIONS:
        found.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    names: set[str] = set()
    for at, condition in enumerate(conditions):
        where, name = f"{path}[{at}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            found.append(required(f"{where}.expression"))
        elif rule := expression_rule(expression):
            found.append(invalid(f"{where}.expression", expression, rule))
        if not name:
            found.append(required(f"{where}.name"))
        elif rule := qualified_rule(name):
            found.append(invalid(f"{where}.name", name, rule))
        if name and name in names:
            found.append(duplicate(f"{where}.name", name))
        names.add(name)
    return found


_DEFAULTS: Final[dict[str, object]] = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}


def _default(configuration: Manifest, core: Core) -> None:
    del core
    for hook in configuration.get("webhooks") or ():
        for field, value in _DEFAULTS.items():
            hook.setdefault(field, value)
        for selector in ("namespaceSelector", "objectSelector"):
            hook.setdefault(selector, {})
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            service.setdefault("port", 443)


def _default_mutating(configuration: Manifest, core: Core) -> None:
    _default(configuration, core)
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


WEBHOOKS: Final = {
    MUTATING: Strategy(default=_default_mutating, validate=configuration_errors),
    VALIDATING: Strategy(default=_default, validate=configuration_errors),
}
