"""Job plugins of a Job: those that others need are added, and each is asked whether it can work with the Job.

Volcano: pkg/webhooks/admission/jobs/mutate (patchDefaultPlugins) and validate. There the webhook knows which plugin
needs which, and mpi's master; here the plugins say so themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.framework.arguments import suggestion
from volcanoio.model.batch import Job


def needed_plugins(names: Iterable[str], settings: AdmissionSettings) -> list[str]:
    """What the named plugins need, and what that needs, in a fixed order."""
    known = settings.job_plugins or {}
    found: list[str] = []
    waiting = sorted(names)
    for name in waiting:
        for needed in getattr(known.get(name), "needs", ()):  # a factory may be a function, which has none
            if needed not in found:
                found.append(needed)
                waiting.append(needed)
    return found


def check_plugins(job: Job, settings: AdmissionSettings, findings: Findings) -> None:
    """Refuse plugins that nobody knows, arguments that do not fit, and what a plugin cannot work with.

    On an update too: a plugin that works with two replicas need not work with ten thousand.
    """
    plugins = job.spec.plugins or {}
    known = settings.job_plugins
    if known is None:
        return
    for name in sorted(plugins):
        if name not in known:
            rule = f"unable to find job plugin: {name}{suggestion(name, sorted(known))}"
            findings.refuse(f"spec.plugins.{name}", rule)
            continue
        try:
            plugin = known[name](plugins[name] or ())
        except Exception as error:  # anybody's plugin, and what it raises is the answer
            findings.refuse(f"spec.plugins.{name}", str(error), "mend the argument")
            continue
        try:
            found = plugin.problems(job)
        except Exception as error:
            findings.refuse(f"spec.plugins.{name}", f"the plugin failed: {error}", "leave it out, or mend it")
        else:
            for problem in found:
                findings.refuse(f"spec.plugins.{name}", problem)
