"""The kinds that controllers listed when a journal was recorded: a replay waits for no others."""

from __future__ import annotations

import pytest

from volcanoio.bus.journal import RunHeader
from volcanoio.bus.records import Opened
from volcanoio.compose.journals.recording import LISTED_KINDS
from volcanoio.compose.journals.replay import new_host
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.events import Synced
from volcanoio.model import kinds
from volcanoio.runtime.loading.registry import discover

NATIVE, FLOW = kinds.NATIVE_POD_GROUP.resource, kinds.JOB_FLOW.resource


def resources(host: Host) -> set[str]:
    """Return the kinds that the controllers list."""
    return {resource for name in host.controllers for resource in host[name].resources}


def host_of(listed: set[str] | None) -> Host:
    """Return the host of a journal whose controllers listed these kinds, None for a journal without that record."""
    configured = {} if listed is None else {LISTED_KINDS: "\n".join(sorted(listed))}
    return new_host(RunHeader(Opened(process="controllers", version="", at=0.0), configured), discover())


@pytest.mark.parametrize(
    ("missing", "is_recorded"),
    [({NATIVE}, False), ({NATIVE}, True), ({FLOW}, True)],
    ids=["before it was recorded", "without native groups", "without another kind"],
)
def test_controllers_decide_although_a_kind_was_not_listed_then(missing: set[str], is_recorded: bool) -> None:
    every = resources(host_of(None))
    assert missing < every
    host = host_of(every - missing if is_recorded else None)
    assert not host.synced
    for resource in sorted(every - missing):
        host.handle(Synced(resource=resource))
    assert host.synced


def test_controllers_wait_for_what_was_listed() -> None:
    every = resources(host_of(None))
    host = host_of(every)
    for resource in sorted(every - {NATIVE}):
        host.handle(Synced(resource=resource))
    assert not host.synced
    host.handle(Synced(resource=NATIVE))
    assert host.synced
