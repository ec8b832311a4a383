"""The scheduler's runtime: the loop around the pure engine, and all I/O that it needs.

Imports `engine`, `bus`, `kube` and `runtime.loading`, not `runtime.controllers` or `runtime.policies`. Start with
`scheduler`, which runs the cycles; `dispatcher` sends what they decide; `compose.scheduler` connects both to an API
server.
"""
