"""The scheduler's configuration file: parsed with positions, checked, and turned into combined plugins.

It imports the framework and the model. Start with `configuration.read`, then `profile` and `plugin_rules`.
"""
