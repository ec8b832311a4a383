"""The scheduler's configuration file: parsed with positions, checked, and turned into combined plugins.

It imports the framework, the model, `cluster.node_columns` and `cluster.rows`. Start with `configuration.read`, then
`profile` and `plugin_rules`.
"""
