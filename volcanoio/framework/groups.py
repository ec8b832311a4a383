"""Entry point groups under which plugins, actions, policies and controllers are found, ours as a third party's."""

from __future__ import annotations

SCHEDULER_PLUGINS = "volcanoio.scheduler_plugins"
ACTIONS = "volcanoio.actions"
JOB_PLUGINS = "volcanoio.job_plugins"
LIFECYCLE_POLICIES = "volcanoio.lifecycle_policies"
CONTROLLERS = "volcanoio.controllers"
