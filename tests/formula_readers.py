"""Readers of printed formulas, for tests.

Text, LaTeX and sympy become numbers again without minidyn's own printers. Text and LaTeX are cut
into tokens, a star is put where factors stand side by side, and Python computes the rest.
"""

from __future__ import annotations

import math
import re
import sys
import types
from collections.abc import Mapping

import numpy as np

from minidyn import Formulas

FUNCTIONS = {
    "sin": math.sin,
    "cos": math.cos,
    "sqrt": math.sqrt,
    "atan2": math.atan2,
    "sign": lambda x: float(x > 0) - float(x < 0),
}
_TEXT = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<call>[A-Za-z_]\w*\()|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<mark>[-+/(),]))"
)
_ORDINARY = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def _joined(tokens: list[tuple[str, str]]) -> str:
    """Return Python source: a star between neighbours that are factors."""
    found = ""
    before = ""
    for kind, piece in tokens:
        starts = kind in ("number", "name", "call") or piece == "("
        ends = before in ("number", "name", "power", ")")
        found += f"*{piece}" if starts and ends else piece
        before = piece if kind == "mark" else kind
    return found


def compute(source: str, values: Mapping[str, float]) -> float:
    return float(eval(source, {"__builtins__": {}, **FUNCTIONS}, values))  # noqa: S307  (the tests' own text)


def text_value(text: str, values: Mapping[str, float]) -> float:
    """Return the value of a formula as minidyn writes it for terminals."""
    tokens, place = [], 0
    while place < len(text.rstrip()):
        match = _TEXT.match(text, place)
        assert match, text[place : place + 40]
        kind = str(match.lastgroup)
        token = match[kind]
        tokens.append((kind, f"**{token.translate(_ORDINARY)}" if kind == "power" else token))
        place = match.end()
    return compute(_joined(tokens), values)


def _arrays(formulas: Formulas, found: Mapping[str, float]) -> list[np.ndarray]:
    return [
        np.array([found.get(label.text, 0.0) for label in result.labels]).reshape(result.shape)
        for result in formulas.results
    ]


def read_text(formulas: Formulas, values: Mapping[str, float]) -> list[np.ndarray]:
    """Return the results that the text gives."""
    known = dict(values)
    body = formulas.text().partition("\n\n")[2].partition("\n\nwhere\n")[0]
    body = re.sub(r"\n +(?=[-+])", " ", body)  # lines that go on
    for line in body.splitlines():
        if " = " in line:
            *names, expression = line.split(" = ")
            for name in names:
                assert name not in known
            known |= dict.fromkeys(names, text_value(expression, known))
    return _arrays(formulas, known)


# -------------------------------------------------------------------- LaTeX


def _braced(text: str, place: int) -> int:
    """Return the place after the brace that closes the one at `place`."""
    assert text[place] == "{", text[place : place + 20]
    depth = 0
    for k in range(place, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0) if text[k - 1] != "\\" else 0
        if not depth:
            return k + 1
    raise AssertionError(f"unbalanced: {text[place:]}")


def _latex_source(text: str, names: Mapping[str, str], every: re.Pattern[str]) -> str:
    tokens: list[tuple[str, str]] = []
    place = 0
    calls = {
        r"\sin": "sin",
        r"\cos": "cos",
        r"\operatorname{sign}": "sign",
        r"\operatorname{atan2}": "atan2",
    }
    while place < len(text):
        rest = text[place:]
        if skipped := re.match(r"\s+|\\,|\\left(?=\()|\\right(?=\))|\\quad", rest):
            place += skipped.end()
        elif names and (match := every.match(rest)):
            tokens.append(("name", names[match[0]]))
            place = place + match.end()
        elif match := re.match(r"\d+(\.\d+)?", rest):
            tokens.append(("number", match[0]))
            place += match.end()
        elif match := re.match(r"\\cdot 10\^\{(-?\d+)\}", rest):
            tokens.append(("power", f"*10.0**({match[1]})"))
            place += match.end()
        elif match := re.match(r"\^\{(\d+)\}", rest):
            tokens.append(("power", f"**{match[1]}"))
            place += match.end()
        elif rest.startswith((r"\frac", r"\sqrt")):
            parts = []
            end = place + 5
            for _ in range(2 if rest.startswith(r"\frac") else 1):
                start, end = end, _braced(text, end)
                parts.append(_latex_source(text[start + 1 : end - 1], names, every))
            inner = f"(({parts[0]})/({parts[1]}))" if len(parts) == 2 else f"sqrt({parts[0]})"
            tokens.append(("number", inner))
            place = end
        elif call := next((name for name in calls if rest.startswith(name)), None):
            place += len(call)
            assert text.startswith(r"\left(", place)
            place += len(r"\left(")
            tokens.append(("call", f"{calls[call]}("))
        else:
            assert rest[0] in "+-(),", rest[:40]
            tokens.append(("mark", rest[0]))
            place += 1
    return _joined(tokens)


def read_latex(
    formulas: Formulas, values: Mapping[str, float], body: str | None = None
) -> list[np.ndarray]:
    """Return the results that the rows of the LaTeX give."""
    text = formulas.latex() if body is None else body
    text = text.partition(r"\begin{align" + ("*}" if body is None else "ed}"))[2].partition(
        r"\end{align"
    )[0]
    known = dict(values)
    names = {each.symbol.latex: each.symbol.text for each in formulas.meanings}
    names |= {own.latex: own.text for own, _ in formulas.lines}
    assert len(names) == len(formulas.meanings) + len(formulas.lines), "two symbols look the same"
    labels = {label.latex: label.text for result in formulas.results for label in result.labels}
    for result in formulas.results:  # small ones are printed whole
        head = f"{result.name.latex} &= \\begin{{bmatrix}}\n"
        if head in text:
            before, _, rest = text.partition(head)
            inner, _, after = rest.partition("\n\\end{bmatrix}")
            cells = [cell for row in inner.split("\\\\\n") for cell in row.split(" & ")]
            text = before.rstrip().removesuffix("\\\\") + after
            text += "".join(
                f" \\\\\n{label.latex} &= {cell}"
                for label, cell in zip(result.labels, cells, strict=True)
            )
    text = text.replace(" \\\\\n&\\quad ", " ")
    every = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    for row in text.split("\\\\\n"):
        if not row.strip():
            continue
        heads, _, expression = row.partition(" &= ")
        value = compute(_latex_source(expression, names, every), known)
        for head in heads.strip().split(" = "):
            known[labels[head] if head in labels else names[head]] = value
    return _arrays(formulas, known)


def check_latex(text: str) -> None:
    """Assert that LaTeX could read it.

    Braces and environments balanced, known commands only, ASCII.
    """
    assert text.isascii()
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\left(") == text.count(r"\right)")
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    known = """begin end paragraph texttt allowdisplaybreaks documentclass usepackage cos sin sqrt frac operatorname
        left right mathrm mathit dot ddot hat omega tau quad cdot beta text textbackslash textasciicircum textasciitilde
        textless textgreater textbar"""  # noqa: E501
    assert set(re.findall(r"\\([A-Za-z]+)", text)) <= set(known.split())
    outside = re.sub(r"\\.", "", text)
    assert outside.count("$") % 2 == 0
    assert not re.search(r"(?m)(?<!^)[#%]", outside)


# -------------------------------------------------------------------- sympy


def read_sympy(formulas: Formulas, values: Mapping[str, float]) -> list[np.ndarray]:
    """Return the results of the sympy program, run with the values in the place of its symbols.

    Where sympy is installed its own functions compute them. Numbers instead of symbols: the
    expressions of a listing grow with every line, and putting values into them afterwards takes
    minutes.
    """
    stand_in = types.ModuleType("sympy")
    try:
        import sympy

        stand_in.__dict__.update(
            vars(sympy), symbols=lambda name, real: sympy.Float(values[name], 30)
        )
    except ImportError:
        stand_in.__dict__.update(
            FUNCTIONS, Matrix=np.array, symbols=lambda name, real: values[name]
        )
    space: dict[str, object] = {}
    before = sys.modules.get("sympy")
    sys.modules["sympy"] = stand_in
    try:
        exec(formulas.sympy(), space)  # noqa: S102
    finally:
        del sys.modules["sympy"]
        if before:
            sys.modules["sympy"] = before
    return [np.array(space[r.name.text], dtype=float).reshape(r.shape) for r in formulas.results]


READERS = {"text": read_text, "latex": read_latex, "sympy": read_sympy}
READERS["markdown"] = lambda formulas, values: read_latex(formulas, values, formulas.markdown())


def state_values(**states: np.ndarray) -> dict[str, float]:
    """Return values of q1, dq2, ... from arrays."""
    return {
        f"{name}{k + 1}": float(x) for name, array in states.items() for k, x in enumerate(array)
    }
