"""The plugins by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracle.plugins.binpack import Binpack
from tests.oracle.plugins.capacity import Capacity
from tests.oracle.plugins.conformance import Conformance
from tests.oracle.plugins.drf import Drf
from tests.oracle.plugins.gang import Gang
from tests.oracle.plugins.nodeorder import Nodeorder
from tests.oracle.plugins.overcommit import Overcommit
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.predicates import Predicates
from tests.oracle.plugins.priority import Priority
from tests.oracle.plugins.proportion import Proportion

PLUGINS: Mapping[str, type[Plugin]] = {
    "binpack": Binpack,
    "capacity": Capacity,
    "conformance": Conformance,
    "drf": Drf,
    "gang": Gang,
    "nodeorder": Nodeorder,
    "overcommit": Overcommit,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
}
