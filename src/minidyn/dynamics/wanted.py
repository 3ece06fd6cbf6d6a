"""What is wanted of a regressor: its form, and some of its columns by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import UnknownName

PARAMETRIZATIONS = {
    "standard": {"newton_euler": "regressor", "lagrange": "lagrange_regressor"},
    "lumeng16": {"newton_euler": "lumeng16_regressor", "lagrange": "lumeng16_lagrange_regressor"},
}
"""Name of the robot's function for each parametrization and form."""

FORMS = tuple(PARAMETRIZATIONS["standard"])


@dataclass(frozen=True)
class Chosen:
    """Some columns by name, as they are: what a base map is to a base regressor.

    Attributes:
        kept: Names of the columns.
        unmixing: None: no combinations.
    """

    kept: tuple[str, ...]
    unmixing: NDArray[np.float64] | None = None


def regressor_form(parametrization: str, form: str) -> str:
    """Return the name of the robot's function that computes a regressor in this form."""
    if parametrization not in PARAMETRIZATIONS:
        raise UnknownName("parametrization", parametrization, PARAMETRIZATIONS)
    if form not in FORMS:
        raise UnknownName("form of the regressor", form, FORMS)
    return PARAMETRIZATIONS[parametrization][form]
