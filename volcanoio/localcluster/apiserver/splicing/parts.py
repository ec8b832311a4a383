"""A stored object as its top-level parts. Stored JSON is what `objects.encode` wrote: without blanks, each key once."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Parts: TypeAlias = dict[str, msgspec.Raw]
"""JSON by key, in the order of the object."""

split = msgspec.json.Decoder(Parts).decode
"""The parts of a stored object."""

join = msgspec.json.encode
"""The object of these parts; each may also be a value that is still to be encoded."""

NULL_VALUE = b":null"
"""How a null looks in stored JSON. A text may hold it, too: its absence proves something, its presence does not."""


def at_revision(metadata: msgspec.Raw, known: int, revision: int) -> msgspec.Raw | None:
    """Stored metadata with another resourceVersion; None when that has to be looked for in the decoded metadata.

    Within a text the quotes would be escaped, so that what is found once is the field itself.
    """
    data = bytes(metadata)
    before = b'"resourceVersion":"%d"' % known
    if data.count(before) != 1:
        return None
    return msgspec.Raw(data.replace(before, b'"resourceVersion":"%d"' % revision))
