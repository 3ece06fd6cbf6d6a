"""The table of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from minidyn.identification.estimators.acceleration_free import ENERGY, FILTERED, MOMENTUM
from minidyn.identification.estimators.closed_loop import DIDIM
from minidyn.identification.estimators.instrumental import IV
from minidyn.identification.estimators.least_squares import IRLS, OLS, PARALLEL, WLS
from minidyn.identification.estimators.method import Method
from minidyn.identification.estimators.one_joint import ONE_JOINT
from minidyn.identification.estimators.total_least_squares import TLS

_ALL = (OLS, WLS, IRLS, PARALLEL, TLS, IV, DIDIM, FILTERED, MOMENTUM, ENERGY, ONE_JOINT)
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _ALL})
"""The estimators by name."""
ANY_MOTION = tuple(method.name for method in _ALL if method.make_ready is None)
"""Names of those that take every motion."""
