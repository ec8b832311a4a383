"""The `metrics` section of the configuration, read into `MetricsSettings`.

Source: Volcano `pkg/scheduler/metrics/source`. Its keys are dotted (`tls.insecureSkipVerify`); nested mappings, as in
its documentation, are equivalent.
"""

from volcanoio.engine.scheduling.config.yaml_nodes import Reader, Value
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.scheduling.settings import ElasticsearchSettings, MetricsSettings, MetricsType
from volcanoio.model.times import DurationError, parse_duration

_TYPES = tuple(kind.value for kind in MetricsType)
PASSWORD = "elasticsearch.password"
_TLS = "tls.insecureSkipVerify"
_ELASTICSEARCH = {
    "elasticsearch.index": "index",
    "elasticsearch.username": "username",
    PASSWORD: "password",
    "elasticsearch.hostnameFieldName": "hostname_field",
}
_GROUPS = ("tls", "elasticsearch")
_KEYS = ("type", "address", "interval", _TLS, *_ELASTICSEARCH)


def metrics_settings(section: Value) -> MetricsSettings | None:
    """Return the source in the section; None if it has none or is invalid (then there are problems)."""
    fields = flattened(section)
    kind = _kind(section, fields.get("type"))
    interval = _interval(fields["interval"]) if "interval" in fields else 30.0
    skip_verify = fields[_TLS].scalar(_TLS).lower() if _TLS in fields else ""
    if skip_verify not in ("", "true", "false"):
        fields[_TLS].problem(f'{_TLS} must be true or false, not "{skip_verify}"')
    address = fields["address"].scalar("metrics.address") if "address" in fields else ""
    if address and not address.startswith(("http://", "https://")):
        fields["address"].problem(
            f'metrics.address must be a URL, not "{address}"', "; write it as http://HOST:PORT or https://HOST:PORT"
        )
    if kind in (MetricsType.PROMETHEUS, MetricsType.ELASTICSEARCH) and not address:
        section.problem(f"metrics of type {kind} need an address", "; add address: http://HOST:PORT")
    given = {name: fields[key].scalar(key) for key, name in _ELASTICSEARCH.items() if key in fields}
    if kind is None:
        return None
    return MetricsSettings(
        type=kind,
        address=address.rstrip("/"),
        interval=interval,
        insecure_skip_verify=skip_verify == "true",
        elasticsearch=ElasticsearchSettings(**{name: text for name, text in given.items() if text}),
    )


def metrics_section(settings: MetricsSettings) -> dict[str, str]:
    """Return the section that has the effect of these settings, by dotted key; a password is replaced."""
    section = {"type": settings.type.value, "address": settings.address, "interval": f"{settings.interval:g}s"}
    section[_TLS] = str(settings.insecure_skip_verify).lower()
    if settings.type is MetricsType.ELASTICSEARCH:
        section |= {key: getattr(settings.elasticsearch, name) for key, name in _ELASTICSEARCH.items()}
        section[PASSWORD] = "***" if section[PASSWORD] else ""
    return section


def without_password(text: str) -> str:
    """Return a configuration's text with the password of its metrics section replaced."""
    reader = Reader()
    document = reader.document(text, "")
    section = document.mapping("").get("metrics") if document else None
    password = flattened(section).get(PASSWORD) if section else None
    if password is None:
        return text
    start, end = password.span
    return f'{text[:start]}"***"{text[end:]}'


def flattened(section: Value) -> dict[str, Value]:
    """Return the section's values by dotted key, without nulls."""
    result = {}
    for key, value in section.mapping("metrics", (*_KEYS, *_GROUPS)).items():
        if key in _GROUPS:
            names = [each.removeprefix(f"{key}.") for each in _KEYS if each.startswith(f"{key}.")]
            result.update({f"{key}.{name}": one for name, one in value.mapping(f"metrics.{key}", names).items()})
        else:
            result[key] = value
    return {key: value for key, value in result.items() if not value.null}


def _kind(section: Value, value: Value | None) -> MetricsType | None:
    if value is None:
        section.warning("metrics has no type, so nothing is polled", f"; add type: one of {', '.join(_TYPES)}")
        return None
    if (text := value.scalar("metrics.type")) not in _TYPES:
        value.problem(f'metrics.type "{text}" is unknown', suggestion(text, _TYPES))
        return None
    return MetricsType(text)


def _interval(value: Value) -> float:
    text = value.scalar("metrics.interval")
    try:
        amount = parse_duration(text)
    except DurationError as error:
        value.problem(f"metrics.interval: {error}")
        return 30.0
    if amount <= 0:
        value.problem("metrics.interval must be more than zero", "; write a duration such as 30s")
    return amount
