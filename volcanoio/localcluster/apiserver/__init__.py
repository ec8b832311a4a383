"""The embedded API server: a pure store, resource semantics and an HTTP shell."""
