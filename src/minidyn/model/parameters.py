"""The inertial parameters of bodies and robots.

Conventions, whether a body can have them, names and their order. The ten of a rigid body in storage
order: XX XY XZ YY YZ ZZ MX MY MZ M. XX ... ZZ are the entries of the inertia tensor about the link
frame's origin (off-diagonals are tensor entries, -∫xy dm), MX MY MZ the first moments m·c, M the
mass.

`Layout` is the one place that knows where a parameter of a robot stands. Joint by joint as in
Gautier1991 (3): XX1 XY1 XZ1 YY1 YZ1 ZZ1 MX1 MY1 MZ1 M1, then the drive terms of joint 1 that are
switched on (Ia1 Fv1 Fc1 Fo1 ..., in the order of `minidyn.model.drives`), then XX2 ... Numbers
count moving joints in order, mimic and passive ones included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, real_array
from minidyn.errors import DescriptionError, ShapeError, UnknownName
from minidyn.model.drives import INERTIAS, STAYING, TERMS, Drive

STANDARD = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
_ROW = (0, 0, 0, 1, 1, 2)
_COLUMN = (0, 1, 2, 1, 2, 2)
_TENSOR = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
_DIAGONAL_FIRST = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)  # xx yy zz xy xz yz of a tensor
_FROM_DIAGONAL_FIRST = [0, 3, 4, 1, 5, 2]
_PRODUCTS = np.array(
    [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
)  # LuMeng1993: products of inertia have the other sign
# Pinocchio: m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the frame's origin
_PINOCCHIO = np.array([9, 6, 7, 8, 0, 1, 3, 2, 4, 5])
LARGEST_PARAMETER = 1e30
"""Beyond it, in SI units, products of a robot's numbers leave floating point."""

_LIGHTEST = 1e-14  # kg, kg m²: MuJoCo refuses moving bodies below 1e-15
_INSIDE = 1e-10  # of the trace: MuJoCo's own eigenvalues are only so exact


def tensor(phi: ArrayLike) -> Array:
    """Return the 3x3 inertia tensor about the frame's origin of parameters (..., 10), or of XX ...

    ZZ (..., 6).
    """
    return np.asarray(phi, dtype=float)[..., _TENSOR]


def from_body(mass: float, com: ArrayLike, inertia: ArrayLike) -> Array:
    """Return the ten parameters (10,) of a body of mass, kg, and centre of mass in the link frame
    (3,), m.

    The inertia (3, 3), kg m², is about the centre of mass, axes parallel to the link frame.
    """
    c = np.asarray(com, dtype=float)
    about = {
        "mass": np.asarray(mass, dtype=float),
        "centre of mass": c,
        "inertia": np.asarray(inertia, dtype=float),
    }
    for what, values in about.items():
        if (size := float(np.abs(values).max())) > LARGEST_PARAMETER:
            raise DescriptionError(
                f"{what} of a body: {size:.6g}; expected at most {LARGEST_PARAMETER:g} (SI units)"
            )
    about_origin = about["inertia"] + mass * (c @ c * np.eye(3) - np.outer(c, c))
    return np.concatenate([about_origin[_ROW, _COLUMN], mass * c, [mass]])


def to_body(phi: ArrayLike) -> tuple[float, Array, Array]:
    """Return (mass, com, inertia about the centre of mass) of ten parameters.

    A body of mass 0 without first moments has its centre at the origin; one with first moments has
    none (NaN).
    """
    values = np.asarray(phi, dtype=float)
    mass, first = float(values[9]), values[6:9]
    if mass == 0.0:
        com = np.where(first == 0.0, 0.0, np.nan)
        return mass, com, tensor(values)
    com = first / mass
    return mass, com, tensor(values) - mass * (com @ com * np.eye(3) - np.outer(com, com))


def to_pinocchio(phi: ArrayLike) -> Array:
    """Return (..., 10) in Pinocchio's order (`Inertia.toDynamicParameters`)."""
    return np.asarray(phi, dtype=float)[..., _PINOCCHIO]


def from_pinocchio(values: ArrayLike) -> Array:
    """Return our order from Pinocchio's (..., 10)."""
    return np.asarray(values, dtype=float)[..., np.argsort(_PINOCCHIO)]


def to_mujoco(phi: ArrayLike) -> tuple[float, Array, Array]:
    """Return (mass, pos, fullinertia) as MJCF's `<inertial>` takes them.

    fullinertia is (xx, yy, zz, xy, xz, yz) about the centre of mass, axes parallel to the body
    frame.
    """
    mass, com, inertia = to_body(phi)
    return mass, com, inertia[_DIAGONAL_FIRST]


def from_mujoco(mass: float, pos: ArrayLike, fullinertia: ArrayLike) -> Array:
    """Return the ten parameters from MJCF's mass, pos and fullinertia (xx, yy, zz, xy, xz, yz)."""
    return from_body(mass, pos, tensor(np.asarray(fullinertia, dtype=float)[_FROM_DIAGONAL_FIRST]))


def to_lumeng16(phi: ArrayLike) -> Array:
    """Return the sixteen parameters of LuMeng1993 for one link.

    Order: m, m px, m py, m pz, m px², m py², m pz², m px py, m px pz, m py pz, Ixx, Iyy, Izz, Ixy,
    Ixz, Iyz, the last six about the centre of mass with Ixy = +∫xy dm.

    Implements: LuMeng1993 eq. (27)-(32), the parameter vector.
    """
    mass, p, inertia = to_body(phi)
    about_com = inertia[_DIAGONAL_FIRST] * _PRODUCTS
    return np.concatenate([[mass], mass * p, mass * np.outer(p, p)[_DIAGONAL_FIRST], about_com])


def from_lumeng16(theta: ArrayLike) -> Array:
    """Return the ten parameters from the sixteen of LuMeng1993 (a linear map: its rank is 10)."""
    t = np.asarray(theta, dtype=float)
    moments, own = t[..., 4:10], t[..., 10:] * _PRODUCTS
    others = np.stack(
        [moments[..., i] + moments[..., j] for i, j in ((1, 2), (0, 2), (0, 1))], axis=-1
    )
    about_origin = np.concatenate([own[..., :3] + others, own[..., 3:] - moments[..., 3:]], axis=-1)
    return np.concatenate(
        [about_origin[..., _FROM_DIAGONAL_FIRST], t[..., 1:4], t[..., :1]], axis=-1
    )


def to_pseudo_inertia(phi: ArrayLike) -> Array:
    """Return the 4x4 pseudo-inertia [[Σ, m c], [m cᵀ, m]], Σ = ½ tr(I) 1 - I, of parameters (...,
    10).
    """
    values = np.asarray(phi, dtype=float)
    inertia = tensor(values)
    J = np.empty((*values.shape[:-1], 4, 4))
    half_trace = 0.5 * np.trace(inertia, axis1=-2, axis2=-1)
    J[..., :3, :3] = half_trace[..., None, None] * np.eye(3) - inertia
    J[..., :3, 3] = J[..., 3, :3] = values[..., 6:9]
    J[..., 3, 3] = values[..., 9]
    return J


def from_pseudo_inertia(J: ArrayLike) -> Array:
    """Return the ten parameters (..., 10) of pseudo-inertias (..., 4, 4)."""
    pseudo = np.asarray(J, dtype=float)
    sigma = pseudo[..., :3, :3]
    inertia = np.trace(sigma, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - sigma
    return np.concatenate(
        [inertia[..., _ROW, _COLUMN], pseudo[..., :3, 3], pseudo[..., 3:4, 3]], axis=-1
    )


def transform(phi: ArrayLike, T: ArrayLike) -> Array:
    """Return the parameters seen from frame A of a body given in frame B, with T = T_AB (4, 4)."""
    matrix = np.asarray(T, dtype=float)
    return from_pseudo_inertia(matrix @ to_pseudo_inertia(phi) @ matrix.T)


def body_parameters(body: Mapping[str, Any], where: str, extra: Sequence[str] = ()) -> Array:
    """Return the ten parameters of a dict with mass, com and inertia, and perhaps `extra` keys.

    Without mass NaN. mass (kg), com (3,) (m; default origin), inertia (3, 3) about the centre of
    mass (kg m²; default 0).
    """
    for key in body:
        if key not in ("mass", "com", "inertia", *extra):
            raise UnknownName(
                f"key in the parameters of {where}:", key, ("mass", "com", "inertia", *extra)
            )
    if "mass" not in body:
        if "com" in body or "inertia" in body:
            raise DescriptionError(f"{where}: com or inertia given without mass")
        return np.full(10, np.nan)
    mass = shaped_array(body["mass"], (), f"{where}, mass")
    com = shaped_array(body.get("com", np.zeros(3)), (3,), f"{where}, com")
    inertia = shaped_array(body.get("inertia", np.zeros((3, 3))), (3, 3), f"{where}, inertia")
    return from_body(float(mass), com, symmetric(inertia, f"{where}, inertia"))


def symmetric(inertia: Array, where: str) -> Array:
    """Return a tensor (3, 3) without its asymmetry of rounding.

    One that is not symmetric is refused.
    """
    if np.abs(inertia - inertia.T).max() > 1e-9 * max(np.abs(inertia).max(), 1e-300):
        raise DescriptionError(f"{where}: the tensor must be symmetric")
    return np.asarray(0.5 * (inertia + inertia.T))


def ten_parameters(given: ArrayLike | Mapping[str, Any] | None, where: str) -> Array:
    """Return ten parameters (10,) given as such or as a dict with mass, com and inertia.

    None: unknown.
    """
    if given is None:
        return np.full(10, np.nan)
    if isinstance(given, Mapping):
        return body_parameters(given, where)
    ten = real_array(given, f"{where}, parameters")
    if ten.shape != (10,):
        raise ShapeError(f"{where}: expected 10 parameters XX ... M, got shape {ten.shape}")
    return ten


def shaped_array(values: Any, shape: tuple[int, ...], where: str, finite: bool = True) -> Array:
    """Return real numbers of a shape; `where` begins the message where they are not."""
    array = real_array(values, where)
    if array.shape != shape:
        raise DescriptionError(f"{where}: expected shape {shape}, got {array.shape}")
    if finite and not np.all(np.isfinite(array)):
        raise DescriptionError(f"{where}: expected finite numbers, got NaN or infinity")
    return array


@dataclass(frozen=True)
class Realizability:
    """Whether a rigid body can have certain parameters.

    Attributes:
        realizable: True, False, or None where parameters are unknown.
        smallest_eigenvalue: Of the 4x4 pseudo-inertia, after scaling lengths by the body's own
            size.
        reason: Plain words; "" where nothing is wrong.
    """

    realizable: bool | None
    smallest_eigenvalue: float
    reason: str


def possible_body(ten: Array, link: str) -> Array:
    """Return the ten parameters as simulators take them, a little inside of what bodies can have.

    Those of a body that moves nothing get 1e-14 kg.
    """
    mass, com, inertia = to_body(ten)
    if not ten.any():
        return from_body(_LIGHTEST, np.zeros(3), _LIGHTEST * np.eye(3))
    moments = np.linalg.eigvalsh(inertia) if np.isfinite(inertia).all() else np.full(3, np.nan)
    size = float(np.abs(moments).sum())
    lacking = max(float(moments[2] - moments[1] - moments[0]), -float(moments[0]))
    if not mass > 0 or not lacking <= 1e-6 * size:
        raise DescriptionError(
            f"link {link!r}: no body has these parameters (mass {mass:.4g} kg, moments "
            f"{', '.join(f'{value:.4g}' for value in moments)} kg m²), and simulators refuse them; "
            "make the model consistent"
        )
    margin = max(2 * _INSIDE * size, 2 * _LIGHTEST)
    lift = max(0.0, lacking + margin, margin - float(moments[0])) if lacking > -margin else 0.0
    heavy = max(mass, _LIGHTEST)
    return from_body(heavy, com, inertia + lift * np.eye(3)) if lift or heavy != mass else ten


def realizability(phi: ArrayLike) -> Realizability:
    """Say whether some body of non-negative density has these ten parameters.

    Pseudo-inertia not negative. Point masses, rods and massless links (singular pseudo-inertia) are
    realizable; rounding of 1e-9 of the largest entry is forgiven.
    """
    values = np.asarray(phi, dtype=float)
    if np.isnan(values).any():
        missing = [name for name, value in zip(STANDARD, values) if np.isnan(value)]
        return Realizability(None, float("nan"), "unknown: " + " ".join(missing))
    J = to_pseudo_inertia(values)
    smallest = float(np.linalg.eigvalsh(J)[0])
    if smallest >= -1e-9 * max(float(np.abs(J).max()), 1e-300):
        return Realizability(True, smallest, "")
    mass, _, inertia = to_body(values)
    if mass < 0:
        return Realizability(False, smallest, f"negative mass ({mass:.6g} kg)")
    if mass == 0:
        reason = "mass is zero but first moments or inertia are not those of a massless body"
        return Realizability(False, smallest, reason)
    low, middle, high = np.linalg.eigvalsh(inertia)
    reason = f"negative principal moment of inertia about the centre of mass ({low:.6g} kg m²)"
    if low >= 0:
        reason = (
            "triangle inequality violated: principal moments about the centre of mass "
            f"{low:.6g} + {middle:.6g} < {high:.6g} kg m² (by {high - low - middle:.3g})"
        )
    return Realizability(False, smallest, reason)


@dataclass(frozen=True, slots=True)
class Column:
    """One standard parameter.

    Its symbol ("XX", "Ia", ...), the joint it belongs to (from 0), its place.
    """

    symbol: str
    joint: int
    index: int

    @property
    def name(self) -> str:
        """Symbol and number, as in "ZZ1"."""
        return f"{self.symbol}{self.joint + 1}"

    @property
    def joined(self) -> str:
        """The name of a base parameter that it leads and others join, as in "ZZR1"."""
        return f"{self.symbol}R{self.joint + 1}"

    @property
    def is_inertial(self) -> bool:
        """One of the ten of a link."""
        return self.symbol in STANDARD

    @property
    def is_rigid(self) -> bool:
        """One of the ten of a link, the rotor's inertia, or of a balancer.

        It stays whatever friction is asked for.
        """
        return self.is_inertial or self.symbol in STAYING

    @property
    def is_friction(self) -> bool:
        """A friction term, or a spring (neither of a link nor an inertia of the drive)."""
        return not self.is_inertial and self.symbol not in INERTIAS


@dataclass(frozen=True)
class Layout:
    """Named columns in storage order; the only way from a parameter's name to its index."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, drives: Iterable[Drive]) -> Layout:
        """Return the layout of joints with these drives."""
        return _layout(tuple(drive.columns for drive in drives))

    @classmethod
    def full(cls, joints: int) -> Layout:
        """Return the layout of so many joints that have every drive term."""
        return cls.of([Drive(True, tuple(TERMS))] * joints)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names in storage order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Return the place of a parameter; where there is none an error with near names."""
        try:
            return self._index[name]
        except (KeyError, TypeError):
            raise UnknownName("parameter", name, self.names) from None

    def column(self, name: str) -> Column:
        """Return the column of a parameter: its symbol, joint and place."""
        return self.columns[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def indices(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the places of several parameters."""
        return tuple(self.index(name) for name in names)

    def vector(
        self, tens: Iterable[ArrayLike | None], terms: Iterable[Mapping[str, float]]
    ) -> Array:
        """Return the parameters (p,) from the ten of each link and each joint's drive terms by
        symbol; else NaN.
        """
        values = np.full(len(self), np.nan)
        for part, columns, ten, given in zip(self.links, self.drives, tens, terms):
            if ten is not None:
                values[part] = ten
            for column in columns:
                values[column.index] = given.get(column.symbol, np.nan)
        return values

    @cached_property
    def links(self) -> tuple[slice, ...]:
        """For each link, where its ten inertial parameters stand."""
        starts = [column.index for column in self.columns if column.symbol == STANDARD[0]]
        return tuple(slice(start, start + len(STANDARD)) for start in starts)

    @cached_property
    def drives(self) -> tuple[tuple[Column, ...], ...]:
        """For each joint, its drive columns."""
        found: list[list[Column]] = [[] for _ in self.links]
        for column in self.columns:
            if not column.is_inertial:
                found[column.joint].append(column)
        return tuple(tuple(columns) for columns in found)


@lru_cache(maxsize=256)
def _layout(drives: tuple[tuple[str, ...], ...]) -> Layout:
    """Return the layout of joints by the symbols of their drive columns; equal robots share it."""
    columns: list[Column] = []
    for joint, symbols in enumerate(drives):
        for symbol in (*STANDARD, *symbols):
            columns.append(Column(symbol, joint, len(columns)))
    return Layout(tuple(columns))
