"""A configuration under a key of a ConfigMap, which is watched; see `reloading`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError, NotFound
from volcanoio.kube.informer import Informer, Selection, WatchContext
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
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


def controller_config_map(environment: Mapping[str, str]) -> ConfigMapKey:
    """Return the key that Volcano's controllers read, by the variables that its deployment sets."""
    namespace = environment.get("KUBE_POD_NAMESPACE") or names.SYSTEM_NAMESPACE
    release = environment.get("HELM_RELEASE_NAME") or "volcano"
    return ConfigMapKey(namespace, f"{release}-controller-configmap", "volcano-controller.conf")


def from_config_map(
    source: ConfigurationSource,
    map_key: ConfigMapKey | None,
    transport: Transport,
    clock: Clock,
    *,
    is_optional: bool = False,
) -> ConfigurationSource:
    """Return the source with its text from a ConfigMap, or unchanged for None."""
    if map_key is None:
        return source
    return ConfigMapSource(
        path=None,
        default=source.default,
        plugins_dirs=source.plugins_dirs,
        map_key=map_key,
        transport=transport,
        clock=clock,
        is_optional=is_optional,
    )


@dataclass(frozen=True, kw_only=True)
class ConfigMapSource(ConfigurationSource):
    """Source of a configuration: a key of a ConfigMap, and mounted files as in `ConfigurationSource`.

    The ConfigMap is read from the cache of a watch. Before it is listed, and without the right to watch it, each read
    is a request. If it is optional, the default stands for a missing ConfigMap or key.
    """

    map_key: ConfigMapKey
    transport: Transport
    clock: Clock
    is_optional: bool = False

    @cached_property
    def _informer(self) -> Informer:
        context = WatchContext(transport=self.transport, publish=lambda _: None, clock=self.clock)
        only = Selection(namespace=self.map_key.namespace, field_selector=f"metadata.name={self.map_key.name}")
        return Informer(kinds.CONFIG_MAP, context, only)

    @property
    def changes(self) -> bool:
        """Whether the content may change: always for a ConfigMap."""
        return True

    @property
    def source(self) -> str:
        """Name of the ConfigMap and key in logs."""
        return str(self.map_key)

    async def run(self) -> None:
        """Watch the ConfigMap until cancelled."""
        await self._informer.run()

    async def _object(self) -> ApiObject | None:
        namespace, name, _ = self.map_key
        if self._informer.is_synced:
            return self._informer.objects.get(f"{namespace}/{name}")
        try:
            return await Client(self.transport).get(kinds.CONFIG_MAP, name, namespace)
        except NotFound:
            return None

    async def see(self) -> SourceContent:
        """Read the current content. Raises TransportError, and ApiError if a retry may help."""
        seen = await super().see()
        if seen.text is None:
            return seen
        namespace, name, key = self.map_key
        try:
            found = await self._object()
        except ApiError as error:
            if error.code == 429 or error.code >= 500:
                raise
            text = f"ConfigMap {namespace}/{name} cannot be read: {error.message}; grant get, list and watch on it"
            return SourceContent(None, text, seen.mounted)
        if self.is_optional and (found is None or key not in getattr(found, "data", ())):
            return seen
        if found is None:
            create = f"kubectl create configmap {name} -n {namespace} --from-file={key}=FILE"
            return SourceContent(
                None, f"ConfigMap {namespace}/{name} does not exist; create it with: {create}", seen.mounted
            )
        assert isinstance(found, ConfigMap)
        if key not in found.data:
            there = f" (its keys: {', '.join(sorted(found.data))})" if found.data else ""
            edit = f"kubectl edit configmap {name} -n {namespace}"
            return SourceContent(
                None, f'ConfigMap {namespace}/{name} has no key "{key}"{there}; add it: {edit}', seen.mounted
            )
        return seen._replace(text=found.data[key])
