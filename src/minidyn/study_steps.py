"""The steps of a study: each writes files into a folder and returns a summary of plain values."""

from __future__ import annotations

from minidyn.study_context import Maker
from minidyn.study_experiment import base, plan, simulate
from minidyn.study_models import compare, export, identify, payload, report, validate

__all__ = ["MAKERS"]

MAKERS: dict[str, Maker] = {
    "simulate": simulate,
    "base": base,
    "plan": plan,
    "identify": identify,
    "validate": validate,
    "payload": payload,
    "compare": compare,
    "export": export,
    "report": report,
}
"""The function of each kind of step."""
