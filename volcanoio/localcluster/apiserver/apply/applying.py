"""One apply, computed: from the live object, its owners and the configuration to the object that is to be stored."""

from __future__ import annotations

from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver.apply import conform, lastapplied, owners, owning
from volcanoio.localcluster.apiserver.apply.configuration import Options
from volcanoio.localcluster.apiserver.apply.conflicts import Conflicts
from volcanoio.localcluster.apiserver.apply.owners import Owners
from volcanoio.localcluster.apiserver.apply.owning import Terms
from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.model.base import Manifest

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Who owns what was there when an object that nobody tracked is first applied to."""


class Asked(NamedTuple):
    """One request to apply: by whom, to which subresource, and when."""

    options: Options
    subresource: str
    now: str


def applied(
    terms: Terms, stored: Terms, live: Manifest, config: Manifest, known: Owners, asked: Asked
) -> tuple[Manifest | None, Owners]:
    """The object after an apply, None when it stays as it is, and who owns what; `live` is without managed fields.

    `terms` are those of what clients write, `stored` those of what is stored. Raises ApiError 409 for conflicts, 500
    for what does not fit the schema.
    """
    options, subresource, now = asked
    check(terms, config)
    if not known:
        first = owners.updater(BEFORE_FIRST_APPLY, terms.version, subresource)
        empty: Manifest = {"apiVersion": live["apiVersion"], "kind": live["kind"]}
        known = owning.update(stored, empty, live, {}, first, now)
    applier = owners.applier(options.manager, subresource)
    try:
        found = owning.apply(terms, live, config, known, applier, now, force=options.force)
    except Conflicts as conflicts:
        if options.manager == lastapplied.KUBECTL:
            allowed = lastapplied.unchanged_since(terms.type(), terms.version, live)
            conflicts = conflicts.without(allowed)
        if conflicts.fields:
            raise conflicts.refusal() from None
        found = owning.apply(terms, live, config, known, applier, now, force=True)
    if options.manager == lastapplied.KUBECTL:
        kept_up = lastapplied.keep_up(found.obj or live, config)
        return None if kept_up is live else kept_up, found.owners
    return found.obj, found.owners


def check(terms: Terms, config: Manifest) -> None:
    """Refuse a configuration that does not fit the schema; raises ApiError 500, as Kubernetes does."""
    if problems := conform.problems(terms.type(), config):
        metadata = config.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        group, _, version = terms.version.rpartition("/")
        who = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={config['kind']}"
        text = f"failed to create typed patch object ({who}): {conform.summary(problems)}"
        raise ApiError(500, "", text)
