"""The life of one pod on a node, without I/O: admission, containers, probes, phases, status.

State is a value (`podrun.PodRun`), and time is an argument. Start with `lifecycle`. May import `model` and the runtime
interface of `nodes`; not the fleet.
"""
