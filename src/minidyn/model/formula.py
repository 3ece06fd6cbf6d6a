"""Formulas such as "q3 - q4" or "atan2(0.3*sin(q1), 0.5 + 0.3*cos(q1))".

A passive joint as a function of others. Only arithmetic and a few functions are understood; nothing
in the text is ever executed as Python.
"""

from __future__ import annotations

import ast
import copy
import functools
import math
import operator
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import numpy as np

from minidyn.errors import DescriptionError, Unsupported, near_names

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS = ("sin", "cos", "sqrt", "atan2", "acos", "asin")


class Formula:
    """A parsed formula, which may use the `known` names.

    `where` says what it belongs to, for messages.
    """

    def __init__(self, text: str, where: str, known: Mapping[str, str]) -> None:
        self.text, self._where = text, where
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise DescriptionError(
                f"{where}: cannot read the formula {text!r}; write for example 'q3 - q4'"
            ) from None
        self._tree = tree
        self.variables: tuple[str, ...] = tuple(
            sorted(self._collect(tree, known), key=list(known).index)
        )
        self._require_values(tree)

    def _collect(self, node: ast.expr, known: Mapping[str, str]) -> set[str]:
        match node:
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
                return set()
            case ast.Name(id=name):
                if name == "pi":
                    return set()
                if name not in known:
                    hint = near_names(name, known)
                    raise DescriptionError(
                        f"{self._where}: unknown joint {name!r} in formula {self.text!r}{hint}"
                    )
                return {name}
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self._collect(operand, known)
            case ast.BinOp(
                op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), left=left, right=right
            ):
                return self._collect(left, known) | self._collect(right, known)
            case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=int(power))) if (
                1 <= power <= 9
            ):
                return self._collect(left, known)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                if len(args) != (2 if name == "atan2" else 1):
                    raise DescriptionError(
                        f"{self._where}: wrong number of arguments of {name} in {self.text!r}"
                    )
                return set().union(*(self._collect(arg, known) for arg in args))
        found = ast.unparse(node)
        raise DescriptionError(
            f"{self._where}: {found!r} is not allowed in a formula; use numbers, names, pi, + - * "
            f"/, whole powers to 9 (**) and {', '.join(FUNCTIONS)}"
        )

    def _require_values(self, node: ast.expr) -> None:
        """Refuse constant parts without a value, such as 1/0 or acos(2)."""
        if any(
            isinstance(part, ast.Name) and part.id not in ("pi", *FUNCTIONS)
            for part in ast.walk(node)
        ):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self._require_values(part)
            return
        if isinstance(node, ast.Name) and node.id != "pi":
            return  # the name of a function
        try:
            with np.errstate(all="ignore"):
                value = float(_evaluate(node, {}))
        except (ArithmeticError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise DescriptionError(
                f"{self._where}: {ast.unparse(node)!r} in formula {self.text!r} has no finite value"
            )

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the formula's value for scalars of any kind (float, array, graph node)."""
        return _evaluate(self._tree, values)

    def renamed(self, values: Mapping[str, str | float]) -> str:
        """Return the text with another name, or a number, for each of its variables."""
        return ast.unparse(_Renaming(values).visit(copy.deepcopy(self._tree)))

    def linear(self) -> tuple[dict[str, float], float] | None:
        """Return ({variable: coefficient}, constant) where the formula is linear, else None."""
        from minidyn.graph.polynomial import Atom, Monomial, Polynomial

        joints: dict[Monomial, str] = {
            ((Atom(k, "", name), 1),): name for k, name in enumerate(self.variables)
        }
        try:
            value = self.evaluate(
                {name: Polynomial({product: 1.0}) for product, name in joints.items()}
            )
        except (
            TypeError,
            ArithmeticError,
            Unsupported,
        ):  # a function of a joint, or divided by zero
            return None
        terms = dict(Polynomial.of(value).terms)
        constant = terms.pop((), 0.0)
        return (
            ({joints[p]: x for p, x in terms.items()}, constant)
            if set(terms) <= set(joints)
            else None
        )


class _Renaming(ast.NodeTransformer):
    """Puts names or numbers in the place of variables."""

    def __init__(self, values: Mapping[str, str | float]) -> None:
        self._values = values

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(one) for one in node.args]  # the function keeps its name
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id, node.id)
        if isinstance(value, str):
            return ast.Name(value, ast.Load())
        size = ast.Constant(abs(value))
        return ast.UnaryOp(ast.USub(), size) if value < 0 else size


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    from minidyn.graph import scalar

    match node:
        case ast.Constant(value=value):
            return float(value)  # type: ignore[arg-type]
        case ast.Name(id="pi"):
            return math.pi
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _evaluate(operand, values)
            return -inner if isinstance(op, ast.USub) else inner
        case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=int(power))):
            return functools.reduce(operator.mul, [_evaluate(left, values)] * power)
        case ast.BinOp(op=op, left=left, right=right):
            return _OPERATORS[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            inner = [_evaluate(arg, values) for arg in args]
            if name == "acos":
                return scalar.atan2(scalar.sqrt(1.0 - inner[0] * inner[0]), inner[0])
            if name == "asin":
                return scalar.atan2(inner[0], scalar.sqrt(1.0 - inner[0] * inner[0]))
            function: Callable[..., Any] = getattr(scalar, name)
            return function(*inner)
    raise AssertionError(f"formula node {node!r} passed the check at the door")


def formula_names(joints: Iterable[str], allowed: Container[str]) -> dict[str, str]:
    """Return what a formula may call joints: their names, and q1, q2, ...

    by number; only the allowed ones.
    """
    numbered = [(f"q{index}", name) for index, name in enumerate(joints, 1) if name in allowed]
    return dict(numbered) | {name: name for _, name in numbered if name.isidentifier()}
