"""The extension points of the scheduler, each a small Protocol. A plugin implements those it needs.

Registered under the entry point group `volcanoio.scheduler_plugins`; the constructor takes the plugin's `arguments`
mapping from the configuration. How several plugins' answers are combined is Volcano's, by tier (see
`volcanoio.engine.scheduling.combine`); each point's switch is named in `SWITCHES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.framework.scheduling.points.accounts import (
    Accounting,
    PreBind,
    Promising,
    TaskAccounting,
)
from volcanoio.framework.scheduling.points.nodes import (
    Filter,
    FilterOne,
    Filters,
    Follows,
    Scorer,
    ScorerOfAmounts,
    ScorerOne,
    Scorers,
    TaskScorer,
    Traits,
)
from volcanoio.framework.scheduling.points.orders import (
    KEPT_KEYS,
    JobOrder,
    NamespaceOrder,
    QueueOrder,
    SortKey,
    SubJobOrder,
    TaskOrder,
)
from volcanoio.framework.scheduling.points.plugin import (
    Checkpoints,
    Closes,
    Hierarchical,
    Opens,
    Plugin,
    PluginFactory,
    Reports,
    Sources,
)
from volcanoio.framework.scheduling.points.victims import (
    Evictable,
    Preemptable,
    Preemptive,
    Purpose,
    Reclaimable,
    VictimGuard,
    VictimOrder,
    VictimTasks,
)
from volcanoio.framework.scheduling.points.votes import (
    KEPT_VERDICTS,
    REFUSES_ALIKE,
    Allocatable,
    JobEnqueueable,
    JobEnqueued,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    Overused,
    SubJobPipelined,
    SubJobReady,
)

__all__ = [
    "KEPT_KEYS",
    "KEPT_VERDICTS",
    "POINTS",
    "REFUSES_ALIKE",
    "SWITCHES",
    "Accounting",
    "Allocatable",
    "Checkpoints",
    "Closes",
    "Evictable",
    "Filter",
    "FilterOne",
    "Filters",
    "Follows",
    "Hierarchical",
    "JobEnqueueable",
    "JobEnqueued",
    "JobOrder",
    "JobPipelined",
    "JobReady",
    "JobStarving",
    "JobValid",
    "NamespaceOrder",
    "Opens",
    "Overused",
    "Plugin",
    "PluginFactory",
    "PreBind",
    "Preemptable",
    "Preemptive",
    "Promising",
    "Purpose",
    "QueueOrder",
    "Reclaimable",
    "Reports",
    "Scorer",
    "ScorerOfAmounts",
    "ScorerOne",
    "Scorers",
    "SortKey",
    "Sources",
    "SubJobOrder",
    "SubJobPipelined",
    "SubJobReady",
    "TaskAccounting",
    "TaskOrder",
    "TaskScorer",
    "Traits",
    "VictimGuard",
    "VictimOrder",
    "VictimTasks",
    "implements",
]

SWITCHES: Mapping[str, tuple[type, ...]] = {
    "enableJobOrder": (JobOrder, NamespaceOrder),
    "enableQueueOrder": (QueueOrder,),
    "enableTaskOrder": (TaskOrder,),
    "enableJobReady": (JobReady,),
    "enableJobPipelined": (JobPipelined,),
    "enableJobStarving": (JobStarving,),
    "enableJobEnqueued": (JobEnqueueable, JobEnqueued),
    "enablePredicate": (Filter, FilterOne, Filters),
    "enableNodeOrder": (Scorer, ScorerOne, ScorerOfAmounts, Scorers, TaskScorer),
    "enablePreemptable": (Preemptable,),
    "enableReclaimable": (Reclaimable,),
    "enablePreemptive": (Preemptive,),
    "enabledVictim": (VictimTasks, VictimGuard),
    "enabledOverused": (Overused,),
    "enabledAllocatable": (Allocatable,),
    "enabledSubJobReady": (SubJobReady,),
    "enabledSubJobPipelined": (SubJobPipelined,),
    "enabledSubJobOrder": (SubJobOrder,),
}
"""Volcano's switches (`pkg/scheduler/conf/scheduler_conf.go`, mixed spelling and all) to the points they gate."""

POINTS: tuple[type, ...] = tuple(
    each
    for each in tuple(globals().values())
    if isinstance(each, type) and each.__module__.startswith(__name__) and getattr(each, "_is_runtime_protocol", False)
)
"""All extension points."""


def implements(plugin: object, point: type) -> bool:
    """Whether a plugin, or the class of one, has all that an extension point names."""
    members = (name for name in (*vars(point), *point.__annotations__) if not name.startswith("_"))
    return all(getattr(plugin, name, None) is not None for name in members)
