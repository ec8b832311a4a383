"""The JobFlow and JobTemplate controllers: jobs that start when the jobs they depend on are ready.

Start with `controller`; `dependencies` decides when a flow may start, `jobs` builds its Job, `state` is what is
observed and the resulting status. May import `framework`, `model`, and the pod names of `engine.jobs`.
"""
