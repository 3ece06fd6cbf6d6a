"""The table of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from minidyn.identification.estimators.acceleration_free import ENERGY, FILTERED, MOMENTUM
from minidyn.identification.estimators.closed_loop import DIDIM
from minidyn.identification.estimators.instrumental import IV
from minidyn.identification.estimators.least_squares import IRLS, OLS, WLS
from minidyn.identification.estimators.method import Method
from minidyn.identification.estimators.parallel import PARALLEL
from minidyn.identification.estimators.total_least_squares import TLS

METHODS: Mapping[str, Method] = MappingProxyType(
    {method.name: method for method in (OLS, WLS, IRLS, PARALLEL, TLS, IV, DIDIM, FILTERED, MOMENTUM, ENERGY)}
)
"""The estimators by name."""
