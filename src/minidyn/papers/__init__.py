"""What readers of the papers look for: sixteen parameters a link, inertia constants, formulations,
operation counts.

The inertia matrix by a formulation of LinFang1999, for a serial chain in mDH frames::

    chain = papers.chain_at(papers.mdh_rows(robot), q)
    M = papers.FORMULATIONS[1](chain, papers.composite_bodies(chain, ten_parameters_of_each_link))
"""

from __future__ import annotations

from minidyn.base.closed_form.mlc import (
    CompositeBody,
    InertiaConstants,
    composite_bodies_at,
    inertia_constants,
)
from minidyn.base.closed_form.partition import Partition, inertia_and_gravity
from minidyn.dynamics.papers.by_regressor import (
    forward_dynamics_by_regressor,
    inertia_matrix_by_regressor,
)
from minidyn.dynamics.papers.chain import chain_at, composite_bodies
from minidyn.dynamics.papers.formulations import FORMULATIONS
from minidyn.dynamics.regressor_forms import Lumeng16, lumeng16
from minidyn.model.mdh_rows import mdh_rows
from minidyn.papers.formulation_table import FormulationCounts, formulation_counts
from minidyn.papers.minimal_set import count_of_set, inertia_matrix_of_set
from minidyn.papers.operation_count import operation_count

__all__ = [
    "FORMULATIONS",
    "CompositeBody",
    "FormulationCounts",
    "InertiaConstants",
    "Lumeng16",
    "Partition",
    "chain_at",
    "composite_bodies",
    "composite_bodies_at",
    "count_of_set",
    "formulation_counts",
    "forward_dynamics_by_regressor",
    "inertia_and_gravity",
    "inertia_constants",
    "inertia_matrix_by_regressor",
    "inertia_matrix_of_set",
    "lumeng16",
    "mdh_rows",
    "operation_count",
]
