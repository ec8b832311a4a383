"""A configuration under a key of a ConfigMap, polled like a file; see `reloading`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from volcanoio.kube.client import Client
from volcanoio.kube.errors import ApiError, NotFound
from volcanoio.model import kinds
from volcanoio.model.core import ConfigMap
from volcanoio.runtime.loading.reloading import ConfigurationSource, SourceContent

PREFIX = "configmap:"


class ConfigMapKey(NamedTuple):
    """A key of a ConfigMap, written `configmap:NAMESPACE/NAME/KEY`."""

    namespace: str
    name: str
    key: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the written form; raises ValueError with the rule."""
        parts = text.removeprefix(PREFIX).split("/")
        if len(parts) != len(cls._fields) or not all(parts):
            example = f"{PREFIX}volcano-system/volcano-scheduler-configmap/volcano-scheduler.conf"
            msg = f'"{text}" names no key of a ConfigMap; write {PREFIX}NAMESPACE/NAME/KEY, for instance {example}'
            raise ValueError(msg)
        return cls(*parts)

    def __str__(self) -> str:
        return PREFIX + "/".join(self)


@dataclass(frozen=True, kw_only=True)
class ConfigMapSource(ConfigurationSource):
    """Source of a configuration: a key of a ConfigMap, and mounted files as in `ConfigurationSource`."""

    map_key: ConfigMapKey
    client: Client

    @property
    def changes(self) -> bool:
        """Whether the content may change: always for a ConfigMap."""
        return True

    @property
    def source(self) -> str:
        """Name of the ConfigMap and key in logs."""
        return str(self.map_key)

    async def see(self) -> SourceContent:
        """Read the current content. Raises TransportError, and ApiError if a retry may help."""
        seen = await super().see()
        if seen.text is None:
            return seen
        namespace, name, key = self.map_key
        try:
            found = await self.client.get(kinds.CONFIG_MAP, name, namespace)
        except NotFound:
            create = f"kubectl create configmap {name} -n {namespace} --from-file={key}=FILE"
            return SourceContent(
                None, f"ConfigMap {namespace}/{name} does not exist; create it with: {create}", seen.mounted
            )
        except ApiError as error:
            if error.code == 429 or error.code >= 500:
                raise
            text = f"ConfigMap {namespace}/{name} cannot be read: {error.message}; allow the scheduler to get it"
            return SourceContent(None, text, seen.mounted)
        assert isinstance(found, ConfigMap)
        if key not in found.data:
            there = f" (its keys: {', '.join(sorted(found.data))})" if found.data else ""
            edit = f"kubectl edit configmap {name} -n {namespace}"
            return SourceContent(
                None, f'ConfigMap {namespace}/{name} has no key "{key}"{there}; add it: {edit}', seen.mounted
            )
        return seen._replace(text=found.data[key])
