"""Load friction: Coulomb friction that grows with the torque that a drive passes on."""

from __future__ import annotations

from minidyn.identification.terms.effect import Effect

LOAD = Effect("load", ("load",), "friction grows with the load of the drive")
