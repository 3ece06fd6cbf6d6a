"""Every numbered item of the five papers, and where those live that no docstring names.

An item that is no function of this package stands here with the reason why.
`docs/make_equations.py` puts both kinds into docs/equations.md; a test counts the items.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")
EQUATIONS: dict[str, dict[str, int]] = {
    "Gautier1991": {"": 28},
    "Lin1992": {"": 66},
    "LuMeng1993": {"": 129},
    "Lin1994": {"": 65, "A": 16},
    "LinFang1999": {"": 55, "A": 10, "B": 12, "C": 3},
}
"""Number of numbered equations, of the text ("") and of each appendix."""

OTHERS: dict[str, dict[str, tuple[str, ...]]] = {
    "Gautier1991": {"Table": ROMAN[:5], "Fig.": ("1", "2")},
    "Lin1992": {
        "Theorem": ("2", "4"),
        "Lemma": ("1", "3"),
        "Property": ("1", "2"),
        "Algorithm": ("1", "2"),
        "Table": ROMAN[:2],
        "Fig.": ("1", "2"),
    },
    "LuMeng1993": {"Fig.": ("1", "2", "3", "4", "5")},
    "Lin1994": {
        "Theorem": ("1", "2", "3", "4", "5"),
        "Corollary": ("6",),
        "Property": ("1", "2", "3", "4"),
        "Lemma": ("A1", "A2"),
        "Fig.": ("1", "2"),
    },
    "LinFang1999": {"Theorem": ("1",), "Table": ROMAN},
}
"""Numbered items that are no equations."""


@dataclass(frozen=True)
class Home:
    """Where items live that no docstring names, or why they are not implemented."""

    items: str  # "eq. (1)-(4), Fig. 1"
    symbol: str  # "minidyn.dynamics.functions:regressor"; "" where there is none
    words: str


_PROOF = (
    "a step of a proof; what is proved is tested: numbers by the theorem against exact ranks on "
    "random chains"
)
_DRAWING = "a drawing of frames; the same frames are drawn in docs/notation.md"
HOMES: dict[str, tuple[Home, ...]] = {
    "Gautier1991": (
        Home(
            "eq. (1)-(4)",
            "minidyn.model.parameters:STANDARD",
            "order and names of the standard parameters",
        ),
        Home(
            "Table IV",
            "minidyn.base.base_map:BaseMap",
            "its matrix K; the table is missing in the print",
        ),
        Home("Fig. 1", "minidyn.formats.load:load", 'a drawing of the robot: md.load("puma560")'),
        Home("Fig. 2", "minidyn.formats.load:load", 'a drawing of the robot: md.load("hpr")'),
    ),
    "Lin1992": (
        Home(
            "eq. (1)",
            "minidyn.base.exact.exact:exact_base",
            "linear dependence is decided by exact rank",
        ),
        Home(
            "eq. (2)-(4)",
            "minidyn.dynamics.papers.chain:ChainJoint",
            "axis, shift and turn of a joint",
        ),
        Home(
            "eq. (5)-(7)",
            "minidyn.dynamics.papers.chain:composite_bodies",
            "mass, moments and inertia of what is behind",
        ),
        Home("eq. (8)", "minidyn.model.joint:Joint", "whether a joint turns or slides"),
        Home(
            "eq. (9)-(10)",
            "minidyn.dynamics.papers.formulations:formulation_2",
            "entries of the inertia matrix",
        ),
        Home(
            "eq. (11)",
            "minidyn.dynamics.functions:gravity_torque",
            "by recursion instead of composite bodies",
        ),
        Home(
            "eq. (12)-(17)",
            "minidyn.dynamics.papers.composite:varying_parts",
            "and inertia_constants_of, from the last link",
        ),
        Home("eq. (29)", "minidyn.dynamics.functions:inverse_dynamics", ""),
        Home("eq. (30)-(32)", "minidyn.dynamics.functions:coriolis_matrix", "Christoffel symbols"),
        Home(
            "eq. (33)-(35), Lemma 1",
            "",
            "coefficients without formulas, for the proof of Theorem 2 alone",
        ),
        Home("eq. (36)", "minidyn.dynamics.papers.composite:varying_parts", ""),
        Home("eq. (37)-(39), (41)-(42)", "", _PROOF),
        Home(
            "eq. (40), (43)",
            "minidyn.base.closed_form.combinations:combinations",
            "the constants κ1, κ2",
        ),
        Home(
            "eq. (44)-(50)",
            "minidyn.dynamics.newton_euler:link_wrench",
            "derivation of the wrench of a body",
        ),
        Home(
            "Theorem 2",
            "minidyn.base.closed_form.combinations:combinations",
            "corrected as in ERRATA A",
        ),
        Home(
            "Theorem 4, Lemma 3",
            "minidyn.excitation.one_joint_plan:one_joint_plan",
            "every constant of the set is shown by a run",
        ),
        Home(
            "Property 1, Property 2",
            "minidyn.excitation.one_joint_equations:Equations",
            "equations with one joint moving",
        ),
        Home("Fig. 1", "", _DRAWING),
    ),
    "LuMeng1993": (
        Home("eq. (1)", "minidyn.dynamics.functions:inverse_dynamics", ""),
        Home("eq. (2)", "minidyn.dynamics.functions:regressor", ""),
        Home(
            "eq. (5)-(7)",
            "minidyn.dynamics.regressor_forms:split_regressor",
            "with the estimate for the unknown part",
        ),
        Home(
            "eq. (8)-(14), (21)-(22), (24)-(26)",
            "minidyn.dynamics.papers.lagrangian:link_lagrangians",
            "link by link",
        ),
        Home("eq. (19)-(20)", "", "identities of vector products, used in derivations"),
        Home("eq. (60)", "minidyn.dynamics.functions:jacobian", "of the two-joint arm"),
        Home(
            "eq. (63)",
            "minidyn.app.casestudies.lu_meng_1993:lu_meng_1993",
            "the same entries as (61)",
        ),
        Home(
            "eq. (97)-(99)",
            "minidyn.dynamics.papers.lagrangian:link_lagrangians",
            "gravity of a link's first moments",
        ),
        Home("Fig. 1", "", _DRAWING),
        Home("Fig. 2", "minidyn.formats.load:load", 'the arm: md.load("two_link")'),
        Home("Fig. 3", "minidyn.formats.load:load", 'the arm: md.load("puma4")'),
    ),
    "Lin1994": (
        Home(
            "eq. (1)-(3), Theorem 1",
            "minidyn.base.base_parameters:base_parameters",
            "of a robot or of a regressor of one's own",
        ),
        Home("eq. (4), (8)", "minidyn.dynamics.functions:inverse_dynamics", ""),
        Home(
            "eq. (5)-(7)",
            "minidyn.dynamics.functions:coriolis_matrix",
            "Christoffel symbols; (7) corrected",
        ),
        Home(
            "eq. (9), Theorem 2",
            "minidyn.base.closed_form.partition:inertia_and_gravity",
            "the sets of inertia and gravity, and P1, P2 between them",
        ),
        Home(
            "eq. (10)-(11)", "minidyn.dynamics.papers.chain:ChainJoint", "shift and turn of a joint"
        ),
        Home("eq. (12)-(14)", "minidyn.dynamics.papers.chain:composite_bodies", ""),
        Home("eq. (15)", "minidyn.model.joint:Joint", "whether a joint turns or slides"),
        Home(
            "eq. (16)-(17)",
            "minidyn.dynamics.papers.formulations:formulation_2",
            "entries of the inertia matrix",
        ),
        Home("eq. (18)", "minidyn.dynamics.functions:gravity_torque", ""),
        Home("eq. (19)-(20)", "minidyn.dynamics.papers.composite:varying_parts", ""),
        Home(
            "eq. (27)-(29)",
            "minidyn.dynamics.papers.composite:inertia_constants_of",
            "parts of the placement",
        ),
        Home(
            "eq. (30)-(52), (55)-(61), Property 1, Property 2, Property 3, Property 4", "", _PROOF
        ),
        Home(
            "eq. (62)-(65)",
            "minidyn.base.equivalence:equivalence",
            "the transformation between two sets",
        ),
        Home("eq. (A1)-(A16), Lemma A1, Lemma A2", "", _PROOF),
        Home("Fig. 1, Fig. 2", "", _DRAWING),
    ),
    "LinFang1999": (
        Home(
            "eq. (1)-(2)", "minidyn.dynamics.papers.chain:ChainJoint", "shift and turn of a joint"
        ),
        Home("eq. (6)", "minidyn.model.joint:Joint", "whether a joint turns or slides"),
        Home(
            "eq. (18)",
            "minidyn.dynamics.papers.formulations:formulation_1",
            "a saving that constant folding finds",
        ),
        Home(
            "eq. (19)",
            "minidyn.dynamics.papers.formulations:formulation_2",
            "derivation of (20) and (21)",
        ),
        Home(
            "eq. (33)",
            "minidyn.dynamics.papers.composite:varying_parts",
            "derivation of (34) and (35)",
        ),
        Home(
            "eq. (A1)-(A8)",
            "minidyn.dynamics.papers.formulations:joint_wrench",
            "derivation of (7) and (8)",
        ),
        Home(
            "eq. (A9)-(A10)", "minidyn.dynamics.papers.formulations:read_axis", "derivation of (11)"
        ),
        Home(
            "eq. (B1)-(B2), (B4), (B12)",
            "minidyn.dynamics.papers.formulations:formulation_5",
            "another notation of it",
        ),
    ),
}
"""Items that no docstring names."""

_EQUATION = re.compile(r"\(([A-C]?)(\d+)\)(?:-\([A-C]?(\d+)\))?")
_NUMBER = r"(?:[A-Z]?\d+|[IVX]+)\b"
_OTHER = re.compile(
    r"\b(Theorem|Propert(?:y|ies)|Lemma|Corollary|Algorithm|Table|Fig)s?\.? "
    rf"({_NUMBER}(?:(?:, | and |-){_NUMBER})*)"
)


def every_item(paper: str) -> list[str]:
    """Return all numbered items of a paper: "(1)", "(A1)", "Theorem 2", "Table I", "Fig. 1"."""
    equations = [
        f"({part}{k})" for part, most in EQUATIONS[paper].items() for k in range(1, most + 1)
    ]
    return [
        *equations,
        *(f"{kind} {number}" for kind, numbers in OTHERS[paper].items() for number in numbers),
    ]


def items_in(text: str) -> set[str]:
    """Return the items that a text such as "eq. (5)-(8), Tables I-V and Theorem 5" names."""
    found = set()
    for part, first, last in _EQUATION.findall(text):
        found |= {f"({part}{k})" for k in range(int(first), int(last or first) + 1)}
    for word, numbers in _OTHER.findall(text):
        kind = {"Fig": "Fig.", "Properties": "Property"}.get(word, word)
        for group in re.split(r", | and ", numbers):
            first, _, last = group.partition("-")
            span = ROMAN[ROMAN.index(first) : ROMAN.index(last) + 1] if last else (first,)
            found |= {f"{kind} {number}" for number in span}
    return found
