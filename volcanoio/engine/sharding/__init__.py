"""The sharding controller: divides the nodes between schedulers by NodeShards. Start at `controller`.

`configuration` reads `sharding.yaml` and the flags, `policies` are the built-in policies, and `assignment` runs them.
"""
