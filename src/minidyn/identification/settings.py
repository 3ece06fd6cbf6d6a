"""Settings: every option of identification, once, with its default and its meaning."""

from __future__ import annotations

import ast
import inspect
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from dataclasses import replace as changed
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.errors import MinidynError, UnknownName, WrongArgument, require_options
from minidyn.formats.load import robots
from minidyn.formats.toml.read import robot_from_text
from minidyn.formats.toml.table import Table, parse_tables, read_tables
from minidyn.formats.toml.write import toml_text, toml_value
from minidyn.identification.consistency.prior import DISTANCES, Prior
from minidyn.identification.estimators.method import DESCRIPTIONS
from minidyn.identification.flexibility import ENCODERS
from minidyn.identification.friction.per_log import PER
from minidyn.model.drives import AUTO, OWN, PLAIN, friction_symbols
from minidyn.model.robot import Robot
from minidyn.recording.prepare.preparation import Preparation, PreparationOptions, require_flag

GRAVITY_DIRECTION = "gravity_direction"
"""What turns gravity where the log shows another direction than the robot's file."""

WARMING, CUTOFF = "warming", "cutoff"
"""Friction that falls during the log; a higher cut-off of the low-pass."""

_OTHERS = (GRAVITY_DIRECTION, WARMING, CUTOFF)  # candidates that are no terms of a drive


class ModelOptions(PreparationOptions, total=False):
    """The options of `Settings` but for method and consistency, as keywords of a function."""

    friction: Iterable[str] | str | None
    force_terms: Iterable[str] | str
    forbid_terms: Iterable[str] | str
    auto: bool
    friction_per: str | None
    flexibility: str | None
    measured: Iterable[str] | str | None
    rotor_inertia: bool | Iterable[str] | None
    sign_width: ArrayLike | None
    prior: Prior
    prior_kind: str
    total_mass: float | Sequence[float] | None
    mass_bounds: Mapping[str, Sequence[float]] | None
    symmetric: Iterable[Sequence[str]]
    centres_inside: bool
    cutoff: float | None


class SettingsOptions(ModelOptions, total=False):
    """The options of `Settings` but for the method, as keywords of a function."""

    consistent: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Settings(Preparation):
    """Every option of identification: what decides an estimate beside robot and recording.

    Options of preparation decide how a raw recording is filtered and differentiated.
    """

    method: str = "irls"
    """Estimator, a name of docs/estimators.md: "irls", "wls", "ols", "parallel", "iv", ..."""
    friction: Iterable[str] | str = AUTO
    """Terms: "auto", chosen from the data; "own", those of the robot's file; or names, () none."""
    force_terms: Iterable[str] | str = ()
    """Terms in addition to those of `friction`; "gravity_direction": the direction of the log."""
    forbid_terms: Iterable[str] | str = ()
    """Terms that the model does not have, chosen or in the file; "gravity_direction" likewise."""
    auto: bool = True
    """Choose terms and smoothing widths from the data; False: plain terms, widths of the file."""
    friction_per: str | None = None
    """ "log": each log has friction of its own about a mean; None: one friction for all."""
    flexibility: str | None = None
    """Joint flexibility, encoders on the side of the "motor" or the "link"; None: stiff joints."""
    measured: Iterable[str] | str | None = None
    """Joints, or patterns, whose torque is measured; None: those whose column says something."""
    rotor_inertia: bool | Iterable[str] | None = True
    """Whether rotor inertias are identified, or of which joints; None: as in the robot's file."""
    sign_width: ArrayLike | None = None
    """Speed over which Coulomb friction reverses, for all joints or each; None: cross-validated."""
    prior: Prior = None
    """Robot with prior values, its name or path, or values (p,); None: the robot's own; False."""
    prior_kind: str = "entropic"
    """Distance from the prior: "entropic", "euclidean" or "geodesic"."""
    total_mass: float | Sequence[float] | None = None
    """Mass of all moving links, kg, or (mass, standard deviation), 2 % else; None: not known."""
    mass_bounds: Mapping[str, Sequence[float]] | None = None
    """Links, or patterns, and bounds of their masses, kg: {"forearm": [1.0, 3.0]}; None: none."""
    symmetric: Iterable[Sequence[str]] = ()
    """Pairs of links, or patterns, that are mirror images: [("left_*", "right_*")]; () for none."""
    centres_inside: bool = False
    """Whether centres of mass lie inside the boxes around the shapes of the robot's file."""
    consistent: bool = True
    """Whether the model is made physically consistent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("auto", "consistent"):
            require_flag(name, getattr(self, name))
        for name, known in _NAMES.items():
            value = getattr(self, name)
            if value not in known:
                raise UnknownName(name, value, [one for one in known if one is not None])
        for name in ("friction", "force_terms", "forbid_terms"):
            value = getattr(self, name)
            if name != "friction":
                self._hold(name, _candidates(value))
            elif not (isinstance(value, str) and value in (AUTO, OWN)):
                self._hold(name, friction_symbols(value))
        wanted = () if self.friction in (AUTO, OWN) else tuple(self.friction)
        both = set(self.forbid_terms) & {*wanted, *self.force_terms}
        if both:
            raise WrongArgument(
                f"forbid_terms: {', '.join(sorted(both))} is asked for by friction or force_terms"
            )
        if CUTOFF in self.force_terms and self.cutoff is not None:
            raise WrongArgument(f"force_terms: {CUTOFF} is given, {self.cutoff:g} Hz")
        self._hold_names("measured")
        self._check_knowledge()
        rotors = self.rotor_inertia
        if not (rotors is None or isinstance(rotors, bool)):
            if isinstance(rotors, str) or not isinstance(rotors, Iterable):
                text = f"rotor_inertia: expected True, False or names of joints, got {rotors!r}"
                raise WrongArgument(text)
            self._hold("rotor_inertia", tuple(rotors))
        if self.sign_width is not None:
            self._hold("sign_width", _numbers("sign_width", self.sign_width))
        if self.prior is True:
            self._hold("prior", None)
        elif isinstance(self.prior, os.PathLike):
            self._hold("prior", os.fspath(self.prior))
        elif not (self.prior is None or isinstance(self.prior, Robot | str | bool)):
            self._hold("prior", _numbers("prior", self.prior))

    def _check_knowledge(self) -> None:
        """Check and hold what is said of bodies."""
        require_flag("centres_inside", self.centres_inside)
        if self.total_mass is not None:
            mass = _numbers("total_mass", self.total_mass)
            values = (mass,) if isinstance(mass, float) else mass
            if len(values) not in (1, 2) or not all(0 < one < math.inf for one in values):
                raise WrongArgument(
                    f"total_mass: expected kg above 0, or kg and a deviation, got {mass!r}"
                )
            self._hold("total_mass", mass)
        if self.mass_bounds is not None:
            if not isinstance(self.mass_bounds, Mapping):
                raise WrongArgument(
                    'mass_bounds: expected a table {"link": [least, most]}, kg, got '
                    f"{self.mass_bounds!r}"
                )
            bounds = {str(name): _bounds(str(name), two) for name, two in self.mass_bounds.items()}
            self._hold("mass_bounds", bounds)
        pairs = [tuple(pair) if isinstance(pair, list | tuple) else () for pair in self.symmetric]
        if not all(len(pair) == 2 and all(isinstance(o, str) for o in pair) for pair in pairs):
            raise WrongArgument(
                f'symmetric: expected pairs such as [("left_*", "right_*")], got {self.symmetric!r}'
            )
        self._hold("symmetric", tuple(pairs))
        said = self.total_mass or self.mass_bounds or self.symmetric or self.centres_inside
        if said and not self.consistent:
            raise WrongArgument(
                "total_mass, mass_bounds, symmetric and centres_inside need consistent=True"
            )

    def _hold_names(self, name: str) -> None:
        """Hold an option that is None or names of joints as a tuple."""
        value: object = getattr(self, name)
        if value is None:
            return
        if not isinstance(value, Iterable):
            raise WrongArgument(f"{name}: expected names of joints or None, got {value!r}")
        self._hold(name, (value,) if isinstance(value, str) else tuple(map(str, value)))

    def _hold(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def terms(self) -> Iterable[str] | str:
        """Friction terms to begin with: "auto", "own" or names; plain ones without `auto`."""
        return PLAIN if self.friction == AUTO and not self.auto else self.friction

    @property
    def forced_friction(self) -> tuple[str, ...]:
        """Friction terms among `force_terms`."""
        return tuple(term for term in self.force_terms if term not in _OTHERS)

    def replace(self, **options: Any) -> Settings:
        """Return the settings with other values of some options.

        Raises:
            WrongArgument: There is no such option; the message names near ones.
        """
        require_options(Settings, options)
        return changed(self, **options)

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain values, a robot with prior values as the text of its file."""
        return {name: _plain(getattr(self, name)) for name in descriptions()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings that `to_json` wrote."""
        require_options(cls, values)
        return cls(**{name: _read(name, value) for name, value in values.items()})

    def to_toml(self, comments: bool = False) -> str:
        """Return the options as TOML text, with their meanings as comments where asked.

        What is left out in the text is None.
        """
        lines = [_HEAD] if comments else []
        for name, value in self.to_json().items():
            lines += [f"# {descriptions()[name].strip()}"] if comments else []
            if name == "rotor_inertia" and value is None:
                value = OWN  # its default is another
            if value is not None:
                lines.append(f"{name} = {toml_value(value)}")
            elif comments:
                lines.append(f"# {name} =")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Settings:
        """Return the settings of a TOML text, or of a file by its path (a text that ends in .toml).

        The path of a prior is relative to the file. What is left out has its default.

        Raises:
            DescriptionError: It is no TOML, has unknown names, or values that make no sense.
        """
        is_file = isinstance(source, os.PathLike) or (
            source.endswith(".toml") and "\n" not in source
        )
        table = read_tables(Path(source)) if is_file else parse_tables(str(source), "settings")
        table.finish(descriptions())
        values = {name: setting_of(table, name) for name in table.data}
        prior = values.get("prior")
        if is_file and isinstance(prior, str) and prior not in robots():
            values["prior"] = str(Path(source).parent / prior)
        try:
            return cls(**values)
        except MinidynError as error:
            raise WrongArgument(f"{table.file}: {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.to_toml() == other.to_toml()

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __repr__(self) -> str:
        given = [
            f"{one.name}={value!r}"
            for one in fields(self)
            if (value := getattr(self, one.name)) is not one.default and value != one.default
        ]
        return f"Settings({', '.join(given)})"


_HEAD = """\
# Every option of identification with its default.
# None is written by leaving the name out (rotor_inertia: "own"), False as false, names as a list.
"""

_NAMES: Mapping[str, Iterable[str | None]] = {
    "method": DESCRIPTIONS,
    "friction_per": (None, *PER),
    "flexibility": (None, *ENCODERS),
    "prior_kind": DISTANCES,
}
"""The options whose values are names, and these."""


def settings_of(
    settings: Settings | None, options: Mapping[str, Any], base: object = None
) -> Settings:
    """Return the settings of a call: those that were given, with the options given as keywords.

    With base parameters (`base`) friction is that of their robot.
    """
    if settings is not None and not isinstance(settings, Settings):
        raise WrongArgument(
            f"settings: expected md.Settings or None, got {type(settings).__name__}; "
            "md.Settings.from_toml reads a file"
        )
    given = dict(options)
    if given.get("method", "") is None:
        del given["method"]
    if "friction" in given and given["friction"] is None:
        warnings.warn(
            'friction=None is deprecated; say friction="own"', DeprecationWarning, stacklevel=7
        )
        given["friction"] = OWN
    if base is not None and isinstance(given.get("friction"), str) and given["friction"] == AUTO:
        raise MinidynError(
            'base: with friction="auto" the parameters are chosen from the data; leave base out'
        )
    made = (settings or Settings()).replace(**given)
    return made.replace(friction=OWN) if base is not None and made.friction == AUTO else made


def setting_of(table: Table, name: str) -> Any:
    """Return the value of an option in a TOML table; an error names file, line and option."""
    value = _read(name, table.raw(name))
    try:
        Settings(**{name: value})
    except MinidynError as error:
        text = str(error).removeprefix(f"{name}: ").replace(f"unknown {name} '", "unknown '", 1)
        raise table.error(name, text) from None
    return value


@cache
def descriptions() -> dict[str, str]:
    """Return the options in order, each with its meaning."""
    found = {}
    for owner in (Settings, Preparation):
        (definition,) = ast.parse(inspect.getsource(owner)).body
        for node, text in pairwise(cast(ast.ClassDef, definition).body):
            if isinstance(node, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(node.target)] = str(ast.literal_eval(text.value)).strip()
    return found


def _candidates(names: Iterable[str] | str) -> tuple[str, ...]:
    """Return names of friction terms in storage order, then what else may be forced."""
    wanted = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    friction = friction_symbols([name for name in wanted if name not in _OTHERS])
    return (*friction, *(name for name in _OTHERS if name in wanted))


def _numbers(name: str, values: Any) -> float | tuple[Any, ...]:
    """Return a number, or a list of numbers, as plain values."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise WrongArgument(f"{name}: expected numbers, got {values!r}") from None
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _bounds(name: str, given: Any) -> list[float]:
    """Return the least and the most of a mass, kg."""
    values = _numbers(f"mass_bounds, {name}", given)
    if not (isinstance(values, tuple) and len(values) == 2 and 0 <= values[0] < values[1]):
        raise WrongArgument(f"mass_bounds, {name}: expected [least, most], kg, got {given!r}")
    return [float(one) for one in values]


def _plain(value: Any) -> Any:
    if isinstance(value, Robot):
        return toml_text(value)
    if isinstance(value, tuple) and value and all(isinstance(one, tuple) for one in value):
        return [list(one) for one in value]
    return list(value) if isinstance(value, tuple) else value


def _read(name: str, value: Any) -> Any:
    """Return an option's plain value as `Settings` takes it."""
    if name == "rotor_inertia" and value == OWN:
        return None
    if name == "prior" and isinstance(value, str) and "\n" in value:
        return robot_from_text(value)
    return value
