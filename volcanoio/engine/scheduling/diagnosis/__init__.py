"""Why jobs wait, as data: a stable code, the amounts and nodes that prove it, and the place in the queue.

`codes` is the table of codes, `diagnosis` reads them from a session that closes. It may import the session and what
the session imports. Start with `diagnosis.diagnose`; `offline.remedies` finds what would help.
"""
