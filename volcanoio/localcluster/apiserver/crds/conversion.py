"""The rules of `spec.conversion` (apiextensions `validation.go`, apiserver `util/webhook`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.localcluster.apiserver.schema.names import dns1035_rule
from volcanoio.model.base import Manifest

_ACCEPTED: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"


def conversion_errors(conversion: Manifest, path: str) -> Iterator[FieldError]:
    """What is wrong with a conversion."""
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
            yield required(f"{path}.{field}")  # the real server, too, names the other of the two
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
