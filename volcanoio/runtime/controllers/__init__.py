"""The controllers' runtime: the shell around the pure controller host of the engine.

Imports `engine`, `bus`, `kube`, `runtime.loading`, `runtime.policies` and `runtime.timers`. Start with
`controller_host`; `setup` selects and makes the controllers; `http_effects` carries out effects that leave the
process.
"""
