"""The section networkTopologyDiscovery of `volcano-controller.conf`: the sources from which HyperNodes are discovered.

    networkTopologyDiscovery:
    - source: label
      enabled: true
      config:
        networkTopologyTypes:
          gpu:                                 # from the highest tier down to the nodes
          - nodeLabel: example.com/spine
          - nodeLabel: example.com/rack
          - nodeLabel: kubernetes.io/hostname
    - source: ufm
      enabled: true
      interval: 10m
      credentials: {secretRef: {name: ufm-credentials, namespace: volcano-system}}
      config: {endpoint: "https://ufm.example.com"}

The keys are Volcano's. Problems are added to the reader of the document; each names line, rule and next step.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from volcanoio.engine.hypernodes.labels import name_prefix
from volcanoio.engine.scheduling.config.yaml_nodes import Value
from volcanoio.framework.arguments import suggestion
from volcanoio.model import names
from volcanoio.model.core import LabelSelector
from volcanoio.model.nodes import (
    DEFAULT_INTERVAL,
    LABEL,
    ROCE,
    UFM,
    DiscoverySource,
    Level,
    SecretReference,
    TopologyType,
)
from volcanoio.model.times import DurationError, parse_duration
from volcanoio.model.validation.dns_names import qualified_rule, subdomain_rule

SECTION = "networkTopologyDiscovery"
"""Key of the section in the file."""
SOURCES = (LABEL, UFM, ROCE)
LONGEST_TYPE_NAME = 20
"""Characters of the name of a topology type, which is part of the names of its HyperNodes."""
LEAF_LABEL = "kubernetes.io/hostname"
"""Last entry of the levels: the nodes themselves."""


def read_sources(section: Value) -> tuple[DiscoverySource, ...]:
    """Return the sources of the section."""
    found: dict[str, DiscoverySource] = {}
    for entry in section.items(SECTION):
        values = entry.mapping("a source", ("source", "enabled", "interval", "credentials", "config"))
        if "source" not in values:
            entry.problem("a source needs its name", "; write - source: label")
            continue
        name = values["source"].string("source")
        if name and name not in SOURCES:
            values["source"].problem(f'source "{name}" is unknown', suggestion(name, SOURCES))
        elif name in found:
            values["source"].problem(f'source "{name}" is given twice', "; keep one of them")
        elif name:
            found[name] = _source(name, entry, values)
    return tuple(found.values())


def _source(name: str, entry: Value, values: Mapping[str, Value]) -> DiscoverySource:
    is_on = values["enabled"].boolean("enabled", default=False) if "enabled" in values else False
    read = DiscoverySource(source=name, enabled=is_on, interval=_interval(values.get("interval")))
    if name == ROCE:
        if is_on:
            entry.problem("source roce is not supported, as in Volcano", "; write enabled: false")
        return read
    if not is_on and "config" not in values:
        return read
    return _label_source(read, entry, values) if name == LABEL else _fabric_source(read, entry, values)


def _interval(value: Value | None) -> float:
    if value is None or value.null:
        return DEFAULT_INTERVAL
    try:
        if seconds := parse_duration(value.scalar("interval")):
            return seconds
        value.problem("interval must be longer than 0", "; write for instance 10m")
    except DurationError as error:
        value.problem(f"interval: {error}")
    return DEFAULT_INTERVAL


def _fabric_source(read: DiscoverySource, entry: Value, values: Mapping[str, Value]) -> DiscoverySource:
    """Read endpoint and Secret, which an enabled source needs."""
    config = values["config"].mapping("config", ("endpoint", "insecureSkipVerify")) if "config" in values else {}
    endpoint = config["endpoint"].string("endpoint") if "endpoint" in config else ""
    if endpoint and not _is_address(endpoint):
        config["endpoint"].problem(f'endpoint "{endpoint}" is no address', "; write for instance https://ufm:443")
    skips = "insecureSkipVerify" in config and config["insecureSkipVerify"].boolean("insecureSkipVerify", default=False)
    secret = _secret(values["credentials"]) if "credentials" in values else None
    if read.enabled and not endpoint:
        entry.problem("source ufm needs config.endpoint", "; write the address of the UFM server")
    if read.enabled and "credentials" not in values:
        entry.problem("source ufm needs credentials.secretRef", "; name a Secret with the keys username and password")
    return msgspec.structs.replace(read, endpoint=endpoint, insecure_skip_verify=skips, secret=secret)


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _secret(credentials: Value) -> SecretReference | None:
    fields = credentials.mapping("credentials", ("secretRef",))
    if "secretRef" not in fields:
        credentials.problem("credentials needs secretRef", "; write secretRef: {name: NAME, namespace: NAMESPACE}")
        return None
    reference = fields["secretRef"].mapping("secretRef", ("name", "namespace"))
    if "name" not in reference:
        fields["secretRef"].problem("secretRef needs the name of a Secret", "; write name: ufm-credentials")
        return None
    name = reference["name"].string("name")
    namespace = reference["namespace"].string("namespace") if "namespace" in reference else names.SYSTEM_NAMESPACE
    for field, text in (("name", name), ("namespace", namespace)):
        if text and (rule := subdomain_rule(text)):
            reference[field].problem(f'{field} "{text}" is not a name: {rule}')
    return SecretReference(namespace=namespace, name=name)


def _label_source(read: DiscoverySource, entry: Value, values: Mapping[str, Value]) -> DiscoverySource:
    config = values["config"].mapping("config", ("networkTopologyTypes",)) if "config" in values else {}
    named = config["networkTopologyTypes"].mapping("networkTopologyTypes") if "networkTopologyTypes" in config else {}
    if read.enabled and not named:
        entry.problem("source label needs config.networkTopologyTypes", "; list the node labels of at least one type")
    prefixes: dict[str, str] = {}
    for name, value in named.items():
        if (other := prefixes.setdefault(name_prefix(name, 1), name)) != name:
            text = f"the HyperNodes of types {other} and {name} would have the same names"
            value.problem(text, "; rename one of them so that letters or digits differ")
    read_types = (_topology_type(name, value) for name, value in named.items())
    return msgspec.structs.replace(read, types=tuple(each for each in read_types if each is not None))


def _topology_type(name: str, value: Value) -> TopologyType | None:
    if not 0 < len(name) <= LONGEST_TYPE_NAME:
        value.problem(
            f'the name "{name}" of a topology type must have 1 to {LONGEST_TYPE_NAME} characters', "; shorten it"
        )
    if not value.is_mapping:
        return TopologyType(name=name, levels=_levels(value, f"type {name}", ("nodeLabel",)))
    fields = value.mapping(f"type {name}", ("nodeSelector", "levels"))
    if missing := [each for each in ("nodeSelector", "levels") if each not in fields]:
        value.problem(f"type {name} needs {missing[0]}", "; or write its levels as a list: - nodeLabel: LABEL")
        return None
    levels = _levels(fields["levels"], f"levels of type {name}", ("nodeLabel", "tierName"))
    return TopologyType(name=name, levels=levels, selector=_selector(fields["nodeSelector"]))


def _levels(value: Value, what: str, keys: tuple[str, ...]) -> tuple[Level, ...]:
    """Return the levels from the lowest tier; the last entry, the nodes themselves, is left out."""
    read: list[Level] = []
    entries = value.items(what)
    for entry in entries:
        fields = entry.mapping("a level", keys)
        if "nodeLabel" not in fields:
            entry.problem("a level needs nodeLabel", "; write - nodeLabel: LABEL")
            return ()
        label = fields["nodeLabel"].string("nodeLabel")
        if label and (rule := qualified_rule(label)):
            fields["nodeLabel"].problem(f'nodeLabel "{label}" is not a label: {rule}')
        if label in {level.label for level in read}:
            fields["nodeLabel"].problem(f'nodeLabel "{label}" is given twice in {what}', "; keep one of them")
        tier = fields["tierName"].string("tierName") if "tierName" in fields else ""
        read.append(Level(label=label, tier_name=tier or label))
    if len(read) < 2:
        value.problem(
            f"{what} must have at least two levels", f"; list labels from the highest tier down to {LEAF_LABEL}"
        )
    elif read[-1].label != LEAF_LABEL:
        entries[-1].warning(
            f'the last level of {what} stands for the nodes and makes no HyperNodes, but is "{read[-1].label}"',
            f"; add - nodeLabel: {LEAF_LABEL}",
        )
    return tuple(reversed(read[:-1]))


def _selector(value: Value) -> LabelSelector:
    """Return a selector of nodes; one that selects nothing is a problem."""
    plain, _ = value.plain_mapping("nodeSelector")
    try:
        selector = msgspec.convert(plain, LabelSelector)
    except msgspec.ValidationError as error:
        value.problem(f"nodeSelector is no label selector: {error}", "; write matchLabels: {LABEL: VALUE}")
        return LabelSelector()
    if not selector.requirements:
        value.problem("nodeSelector selects no node", "; write matchLabels: {LABEL: VALUE}")
    return selector
