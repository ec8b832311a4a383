"""Entry point groups in which plugins, actions, policies and controllers are registered, built-in and third-party
alike.
"""

SCHEDULER_PLUGINS = "volcanoio.scheduler_plugins"
ACTIONS = "volcanoio.actions"
JOB_PLUGINS = "volcanoio.job_plugins"
LIFECYCLE_POLICIES = "volcanoio.lifecycle_policies"
CONTROLLERS = "volcanoio.controllers"
