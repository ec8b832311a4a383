"""The embedded API server: storage, resource semantics, admission and an HTTP listener.

A request enters by `http.listener` (or `inprocess`), becomes an `apimachinery.request.ApiRequest`, and `server` hands
it to `registry.dispatch`. Writes pass `admission`, end in `storage`, and `controllers` react to them. `core` is the
state that these share. Start with `server`, then `registry`.
"""
