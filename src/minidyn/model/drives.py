"""What drives a joint.

Rotor inertia, gear, coupling to other joints, and the drive terms that are switched on. Each drive
term adds one column to the dynamics. With v = q̇_j + Σ c_k q̇_k, the speed of drive j reduced to the
joint side (c from the coupling, empty for most joints), and s(v) the sign of v, turned round over
`sign_width`, drive j loads its own axis with

    Ia v̇ + Fv v + Fc s(v) + Fo + Fs s(v) / (1 + (v / v_s)²) + Fr s(v) √|v| + Fq |v| v + Fk v³ +
    Fa |v| + Fl |load| s(v)
    + Fx v / √(v² + x²) + Fy v / √(v² + y²) + Fp z + Fb w s(v) + Σ_k (Wa + Wc |v|) sin(k N p) +
      (Wb + Wd |v|) cos(k N p)

with x, y = CURVE_SPEEDS, p the position of the drive, N the order of its gear's ripple and k = 1,
2, 4 (other letters for the last two), and that torque acts on joint j and, through c, on the
coupled joints. z is a state of the drive, its presliding, which goes from -1 to 1 over some travel
after a reversal (`minidyn.dynamics.drives.presliding`), w another one, its breakaway: 1 after a
rest, and it decays with travel (`minidyn.dynamics.drives.breakaway`). Springs, counterbalances and
a joint's own terms act on the joint itself:

    Ks q_j + Bs sin q_j + Bc cos q_j + Ja q̈_j + Jv q̇_j + Jc s(q̇_j)

and so does a balancer, a spring or gas cylinder between given points (`minidyn.model.balancer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from minidyn.errors import UnknownName

if TYPE_CHECKING:
    from minidyn.model.balancer import Balancer

ROTOR = "Ia"
"""Column of the rotor inertia reduced to the joint side (motor inertia times gear ratio squared),
kg m².
"""

STRIBECK_SPEED = 0.1
"""Speed (rad/s or m/s) that is used where no Stribeck speed is given."""

CURVE_SPEEDS = (0.2, 0.8)
"""Speeds (rad/s or m/s) about which the free friction curve bends."""

RIPPLE_ORDER = 100.0
"""Order of a gear's ripple, waves in a turn of the joint, that is used where none is given."""

HARMONICS = (1, 2, 4)
"""Multiples of that order which a ripple may have."""

PRESLIDING_TRAVEL = 0.002
"""Travel (rad or m) that is used where none of presliding is given."""

BREAKAWAY_TRAVEL = 0.005
"""Travel (rad or m) that is used where none of breakaway is given."""

REST_SPEED, REST_TIME = 0.005, 0.1
"""A drive slower than this (rad/s) rests, and over so many seconds of it breakaway friction comes
back.
"""

SLIDING_REST_SPEED = 0.0005
"""The same of a drive that slides, m/s.

Slides crawl at what a joint that turns has left in a moment.
"""


Odd = Callable[[Any, Any, Any, Mapping[str, Callable[..., Any]]], Any]


@dataclass(frozen=True, slots=True)
class Motion:
    """What the column of a drive term is made of, in any numbers.

    Doubles, graph nodes, residues, sixty digits. What is not asked for is not computed.
    """

    symbol: str  # of the column
    joint: int  # its index
    v: Any  # speed of the drive
    own_v: Any  # speed of the joint itself
    a: Any  # acceleration of the drive
    own_a: Any  # acceleration of the joint itself
    stribeck_speed: float  # of the drive, a plain number
    shapes: Any  # what is no polynomial: `minidyn.dynamics.drives.Shapes`

    @property
    def s(self) -> Any:
        """The sign of v, which reverses over the smoothing width."""
        return self.shapes.sign(self.joint, self.v, self.a, False)

    @property
    def own_s(self) -> Any:
        """The sign of own_v."""
        return self.shapes.sign(self.joint, self.own_v, self.own_a, True)

    @property
    def q(self) -> Any:
        """Position, rad or m."""
        return self.shapes.angle(self.joint)

    @property
    def cos_sin_q(self) -> tuple[Any, Any]:
        """Cosine and sine of the position."""
        cosine, sine = self.shapes.cos_sin(self.joint)
        return cosine, sine

    def wave(self, harmonic: int) -> tuple[Any, Any]:
        """Cosine and sine of the gear's ripple at a multiple of its order, as the torque is
        seen.
        """
        cosine, sine = self.shapes.wave(self.joint, harmonic, self.v)
        return cosine, sine

    @property
    def load(self) -> Any:
        """Size of what the drive carries, N m or N."""
        return self.shapes.load(self.joint)

    @property
    def state(self) -> Any:
        """What the drive remembers for this column.

        Where it is not known, that of steady sliding.
        """
        return self.shapes.state(self.symbol, self.joint, self.v, self.a)

    def odd(self, function: Odd, *speeds: float) -> Any:
        """Return a function of v that changes sign with v and is no polynomial in v and s.

        It takes v, s, the size |v| (smoothed as s is) and {"sqrt": ..., "atan2": ...}, and compares
        v with the speeds; none where it is a power of the speed.
        """
        return self.shapes.odd(self.symbol, self.joint, self.v, self.a, function, speeds)


@dataclass(frozen=True, slots=True)
class Term:
    """A drive term that may be switched on.

    Its kind is "torque" where the column has no unit but that of a power of speed; "load" where it
    is a torque itself, "position" where it is a joint's position, "inertia" where it is an
    acceleration, "balancer" where it is a lever.
    """

    symbol: str  # of its column and parameter, "Fv"
    column: str  # the torque of a parameter of 1, as text
    unit: str  # of the parameter, for a joint that turns
    # whether a negative parameter is not physical: the term would feed power into the motion
    non_negative: bool
    speed_power: float = 0.0  # the column grows with this power of the speed
    kind: str = "torque"
    value: Callable[[Motion], Any] | None = (
        None  # the column, for numbers of every kind; None for an inertia
    )
    own: bool = False  # whether it acts on the joint itself, whatever turns its drive
    of_position: bool = False  # whether the column depends on the position
    memory: bool = False  # whether the column is a state that depends on the motion before
    shape: tuple[str, ...] = ()  # attributes of a Drive on which the column depends


def _stribeck(m: Motion) -> Any:
    """The form of Hess and Soom: rational, and close to the one with an exponential."""
    fall = 1.0 / m.stribeck_speed
    return m.odd(lambda v, s, size, ops: s / ((v * fall) * (v * fall) + 1.0), m.stribeck_speed)


def _root(m: Motion) -> Any:
    return m.odd(lambda v, s, size, ops: s * ops["sqrt"](size))


def _bend(speed: float) -> Callable[[Motion], Any]:
    """A knee of the friction curve.

    Rises with the speed, bends about the given one, and stays at 1. Sums of knees with coefficients
    that are not negative rise with the speed ever more slowly: no wiggles between the speeds that
    were seen, and beyond them nothing but viscous friction.
    """
    return lambda m: m.odd(lambda v, s, size, ops: v / ops["sqrt"](v * v + speed * speed), speed)


def _balance(m: Motion) -> Any:
    return m.shapes.balance(m.symbol, m.joint)


def _ripple(harmonic: int, letter: str) -> dict[str, Term]:
    """The four columns of a gear's ripple at a multiple of its order, symbols from a letter on: its
    waves, and |v|.
    """
    found = {}
    kinds = ((1, "sin", False), (0, "cos", False), (1, "sin", True), (0, "cos", True))
    for place, (part, name, grows) in enumerate(kinds):

        def value(m: Motion, part: int = part, grows: bool = grows) -> Any:
            wave = m.wave(harmonic)[part]
            return wave * (m.v * m.s) if grows else wave

        times = "" if harmonic == 1 else f"{harmonic} "
        column, unit = f"{name}({times}N p)", "N m s/rad" if grows else "N m"
        found[f"ripple{harmonic}_{'speed_' if grows else ''}{name}"] = Term(
            f"W{chr(ord(letter) + place)}",
            f"|v| {column}" if grows else column,
            unit,
            False,
            1.0 if grows else 0.0,
            value=value,
            of_position=True,
            shape=("ripple_order", "sign_width") if grows else ("ripple_order",),
        )
    return found


# |v| is v s(v), so that it reverses as the sign does
TERMS = {
    "viscous": Term("Fv", "v", "N m s/rad", True, 1.0, value=lambda m: m.v),
    "coulomb": Term("Fc", "s(v)", "N m", True, value=lambda m: m.s, shape=("sign_width",)),
    "offset": Term("Fo", "1", "N m", False, value=lambda m: 1.0),
    "stribeck": Term(
        "Fs",
        "s(v) / (1 + (v / v_s)²)",
        "N m",
        True,
        value=_stribeck,
        shape=("sign_width", "stribeck_speed"),
    ),
    "sqrt": Term("Fr", "s(v) √|v|", "N m (s/rad)^½", True, 0.5, value=_root, shape=("sign_width",)),
    "quadratic": Term(
        "Fq",
        "|v| v",
        "N m (s/rad)²",
        True,
        2.0,
        value=lambda m: m.v * m.v * m.s,
        shape=("sign_width",),
    ),
    "cubic": Term("Fk", "v³", "N m (s/rad)³", True, 3.0, value=lambda m: m.v * m.v * m.v),
    "asymmetric": Term(
        "Fa", "|v|", "N m s/rad", False, 1.0, value=lambda m: m.v * m.s, shape=("sign_width",)
    ),
    "load": Term(
        "Fl",
        "|load| s(v)",
        "1",
        True,
        0.0,
        "load",
        value=lambda m: m.load * m.s,
        of_position=True,
        shape=("sign_width",),
    ),
    "curve_low": Term(
        "Fx", f"v / √(v² + {CURVE_SPEEDS[0]:g}²)", "N m", True, value=_bend(CURVE_SPEEDS[0])
    ),
    "curve_high": Term(
        "Fy", f"v / √(v² + {CURVE_SPEEDS[1]:g}²)", "N m", True, value=_bend(CURVE_SPEEDS[1])
    ),
    "presliding": Term(
        "Fp", "z", "N m", True, value=lambda m: m.state, memory=True, shape=("presliding_travel",)
    ),
    "breakaway": Term(
        "Fb",
        "w s(v)",
        "N m",
        True,
        value=lambda m: m.state * m.s,
        memory=True,
        shape=("sign_width", "breakaway_travel"),
    ),
    **_ripple(1, "a"),
    **_ripple(2, "e"),
    **_ripple(4, "i"),
    "spring": Term(
        "Ks", "q", "N m/rad", False, 0.0, "position", lambda m: m.q, own=True, of_position=True
    ),
    "counterbalance_sin": Term(
        "Bs", "sin q", "N m", False, value=lambda m: m.cos_sin_q[1], own=True, of_position=True
    ),
    "counterbalance_cos": Term(
        "Bc", "cos q", "N m", False, value=lambda m: m.cos_sin_q[0], own=True, of_position=True
    ),
    "balancer_rate": Term(
        "Kb", "ℓ dℓ/dq", "N/m", False, 0.0, "balancer", _balance, own=True, of_position=True
    ),
    "balancer_force": Term(
        "Pb", "dℓ/dq", "N", False, 0.0, "balancer", _balance, own=True, of_position=True
    ),
    "balancer_gas": Term(
        "Gb", "(g / (g + ℓ0 - ℓ))ⁿ dℓ/dq", "N", False, 0.0, "balancer", _balance, True, True
    ),
    "own_inertia": Term("Ja", "q̈", "kg m²", True, 0.0, "inertia", own=True),
    "own_viscous": Term("Jv", "q̇", "N m s/rad", True, 1.0, value=lambda m: m.own_v, own=True),
    "own_coulomb": Term(
        "Jc", "s(q̇)", "N m", True, value=lambda m: m.own_s, own=True, shape=("sign_width",)
    ),
}
"""Drive terms by name, in storage order.

A new term is a line here, and a name in identification/terms/catalogue.py where friction="auto" is
to try it."""

BY_SYMBOL = {term.symbol: term for term in TERMS.values()}
"""Drive terms by the symbol of their column."""

FRICTION = {name: term.symbol for name, term in TERMS.items()}
"""Drive terms by name, and the column each adds."""

COULOMB = FRICTION["coulomb"]
"""Symbol of the column of Coulomb friction."""

PRESLIDING, BREAKAWAY = FRICTION["presliding"], FRICTION["breakaway"]
"""Symbols of the columns that are states."""

ALIASES = {
    "curve": ("curve_low", "curve_high"),
    **{
        f"ripple{k}": tuple(name for name in TERMS if name.startswith(f"ripple{k}_"))
        for k in HARMONICS
    },
    "ripple": tuple(name for name in TERMS if name.startswith("ripple")),
    "counterbalance": ("counterbalance_sin", "counterbalance_cos"),
    "balancer": ("balancer_rate", "balancer_force", "balancer_gas"),
    "own": ("own_inertia", "own_viscous", "own_coulomb"),
}
"""Names for several terms at once."""

RIPPLE = frozenset(TERMS[name].symbol for name in ALIASES["ripple"])
"""Symbols of the drive columns that are a gear's ripple."""

AUTO = "auto"
"""Friction whose terms are chosen."""

OWN = "own"
"""Friction with the terms of the robot's file."""

PLAIN = ("viscous", "coulomb", "offset")
"""What a choice of terms begins with."""

POSITION_TERMS = tuple(name for name, term in TERMS.items() if term.of_position)
"""Terms whose columns depend on the position."""

CURVED = tuple(
    term.symbol
    for name, term in TERMS.items()
    if name not in PLAIN
    and not (term.of_position or term.own or term.memory or term.kind == "inertia")
)
"""Symbols of the columns that bend friction over the speed, viscous and Coulomb friction aside."""

MEMORY = frozenset(term.symbol for term in TERMS.values() if term.memory)
"""Symbols of the drive columns that are states: they depend on the motion before."""

INERTIAS = frozenset({ROTOR, *(term.symbol for term in TERMS.values() if term.kind == "inertia")})
"""Symbols of the drive columns that are inertias; all others are called friction."""

STAYING = frozenset({ROTOR, *(TERMS[name].symbol for name in ALIASES["balancer"])})
"""Symbols of the drive columns that a choice of friction terms leaves as they are."""

NON_NEGATIVE = {ROTOR, *(term.symbol for term in TERMS.values() if term.non_negative)}
"""Symbols of the drive columns whose parameter cannot be negative.

The others may have either sign.
"""


BOUNDED = frozenset(
    term.symbol
    for term in TERMS.values()
    if term.non_negative and not (term.speed_power or term.memory or term.own or term.of_position)
) - {COULOMB, *INERTIAS}
"""Symbols of the drive columns that are functions of the speed and stay below 1, as Coulomb
friction's: beside it their
parameters may be negative where friction as a whole opposes the motion
(identification/consistency/certificate.py)."""


def add_term(name: str, term: Term) -> None:
    """Let drives have another term: robots, files, simulation, identification and code know it.

    Args:
        name: How it is called; not one that is known.
        term: Its symbol is two letters that no other column has. Its column is a function of the
            speed or the position: states of drives are `minidyn.dynamics.drives`'s own.

    Raises:
        UnknownName: The name or the symbol is taken.
    """
    if name in TERMS or name in ALIASES or term.symbol in BY_SYMBOL or term.symbol == ROTOR:
        raise UnknownName("name or symbol of a new drive term", name, ())
    TERMS[name], BY_SYMBOL[term.symbol], FRICTION[name] = term, term, term.symbol
    if term.non_negative:
        NON_NEGATIVE.add(term.symbol)


@dataclass(frozen=True, slots=True)
class Drive:
    """Which drive terms a joint has; their values are in the robot's parameter vector.

    Attributes:
        rotor_inertia: Whether the column Ia exists.
        friction: Names of the terms, in the order of TERMS.
        gear_ratio: Motor turns per joint turn (for reading motor-side logs; Ia is joint-side
            already).
        coupling: (joint name, coefficient) pairs: how much other joints turn this drive, joint
            side.
        sign_width: Smoothing width: speed (rad/s or m/s) over which friction reverses. v /
            sqrt(v² + sign_width²) replaces sign(v), and sqrt(v² + sign_width²) |v| under the root.
            Zero: at once.
        stribeck_speed: Speed (rad/s or m/s) at which the Stribeck term has fallen to a half. Zero:
            not given, STRIBECK_SPEED is used.
        presliding_travel: Travel of the drive (rad or m) over which presliding friction builds up
            after a reversal, to 1 - 1/e of what is left. Zero: not given, PRESLIDING_TRAVEL is
            used.
        breakaway_travel: Travel of the drive (rad or m) over which friction that a rest has raised
            decays, to 1/e. Zero: not given, BREAKAWAY_TRAVEL is used.
        ripple_order: Waves of the gear's ripple in a turn of the joint (in 2 pi m of a slide):
            often the gear ratio. Zero: not given, RIPPLE_ORDER is used.
        cutoff: Low-pass, Hz, that torques of a fit have passed: friction reverses more slowly
            there, and fast waves are smaller. Zero: none.
        balancer: Points and law of a spring or gas cylinder on the joint, whose terms are among
            `friction`; None: none.
    """

    rotor_inertia: bool = False
    friction: tuple[str, ...] = ()
    gear_ratio: float = 1.0
    coupling: tuple[tuple[str, float], ...] = ()
    sign_width: float = 0.0
    stribeck_speed: float = 0.0
    presliding_travel: float = 0.0
    ripple_order: float = 0.0
    cutoff: float = 0.0
    balancer: Balancer | None = None
    breakaway_travel: float = 0.0

    def balanced(self, balancer: Balancer) -> Drive:
        """Return the drive of a joint with this balancer."""
        others = (term for term in self.friction if term not in ALIASES["balancer"])
        return replace(
            self, friction=friction_symbols((*others, *balancer.terms)), balancer=balancer
        )

    def travel(self, symbol: str) -> float:
        """Return the travel (rad or m) over which the state of a column changes.

        Presliding or breakaway.
        """
        if symbol == BREAKAWAY:
            return self.breakaway_travel or BREAKAWAY_TRAVEL
        return self.presliding_travel or PRESLIDING_TRAVEL

    def without(self, *terms: str) -> Drive:
        """Return the drive without some friction terms."""
        return replace(self, friction=tuple(one for one in self.friction if one not in terms))

    @property
    def columns(self) -> tuple[str, ...]:
        """Symbols of the columns this drive adds, in storage order: Ia, then those of TERMS."""
        rotor = (ROTOR,) if self.rotor_inertia else ()
        return rotor + tuple(FRICTION[term] for term in self.friction)


def starting_terms(friction: Iterable[str] | str) -> Iterable[str] | None:
    """Return the terms that identification begins with: PLAIN ones for "auto".

    None (keep them) for "own".
    """
    return PLAIN if friction == AUTO else None if friction == OWN else friction


def friction_symbols(terms: object) -> tuple[str, ...]:
    """Return the names of drive terms in storage order.

    Each once, from a name or several of TERMS or ALIASES.
    """
    if isinstance(terms, str):
        terms = (terms,)
    try:
        wanted = list(terms)  # type: ignore[call-overload]
    except TypeError:
        raise UnknownName("friction term", terms, FRICTION) from None
    named: set[str] = set()
    for term in wanted:
        if term not in FRICTION and term not in ALIASES:
            raise UnknownName("friction term", term, (*FRICTION, *ALIASES))
        named.update(ALIASES.get(term, (term,)))
    return tuple(term for term in FRICTION if term in named)


def terms_that_fit(
    terms: Iterable[str], *, turns: bool, coupled: bool, balancer: Balancer | None = None
) -> tuple[str, ...]:
    """Return the terms that say something new on a joint.

    What is asked for all joints may not fit each. A counterbalance needs an angle; a joint's own
    friction is that of its drive unless other joints turn the drive too (it is `coupled`). A
    balancer stays with its joint, whatever friction is asked for: its points say that it is there.
    """
    unfit: tuple[str, ...] = () if turns else ALIASES["counterbalance"]
    unfit += (() if coupled else ALIASES["own"]) + ALIASES["balancer"]
    fitting = [term for term in terms if term not in unfit]
    return tuple(fitting) if balancer is None else friction_symbols((*fitting, *balancer.terms))
