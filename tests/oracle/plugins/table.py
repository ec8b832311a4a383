"""Plugins of the oracle by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracle.plugins.binpack import Binpack
from tests.oracle.plugins.capacity import Capacity
from tests.oracle.plugins.cdp import Cdp
from tests.oracle.plugins.conformance import Conformance
from tests.oracle.plugins.drf import Drf
from tests.oracle.plugins.extender import Extender
from tests.oracle.plugins.fairshare import NamespaceFairshare
from tests.oracle.plugins.gang import Gang
from tests.oracle.plugins.nodegroup import Nodegroup
from tests.oracle.plugins.nodeorder import Nodeorder
from tests.oracle.plugins.overcommit import Overcommit
from tests.oracle.plugins.pdb import Pdb
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.predicates import Predicates
from tests.oracle.plugins.priority import Priority
from tests.oracle.plugins.proportion import Proportion
from tests.oracle.plugins.rescheduling import Rescheduling
from tests.oracle.plugins.resourcequota import ResourceQuotas
from tests.oracle.plugins.sla import Sla
from tests.oracle.plugins.strategyfit import ResourceStrategyFit
from tests.oracle.plugins.tasktopology import TaskTopology
from tests.oracle.plugins.tdm import Tdm
from tests.oracle.plugins.usage import Usage

PLUGINS: Mapping[str, type[Plugin]] = {
    "binpack": Binpack,
    "capacity": Capacity,
    "cdp": Cdp,
    "conformance": Conformance,
    "drf": Drf,
    "extender": Extender,
    "gang": Gang,
    "namespace-fairshare": NamespaceFairshare,
    "nodegroup": Nodegroup,
    "nodeorder": Nodeorder,
    "overcommit": Overcommit,
    "pdb": Pdb,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
    "rescheduling": Rescheduling,
    "resource-strategy-fit": ResourceStrategyFit,
    "resourcequota": ResourceQuotas,
    "sla": Sla,
    "task-topology": TaskTopology,
    "tdm": Tdm,
    "usage": Usage,
}
