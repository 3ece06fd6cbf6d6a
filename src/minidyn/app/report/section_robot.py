"""The robot, its composite bodies, and its base parameters as formulas."""

from __future__ import annotations

import re

from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Html, Section, folded, table, tag
from minidyn.app.report.robot_figure import body_figure, robot_figure, subtree
from minidyn.app.report.robot_scene import Scene
from minidyn.model.joint import unit_of
from minidyn.text import number, short, visible

_OWNER = re.compile(r"^(?:[km](\d+)[xyz]?|.*?(\d+))$")


def robot_section(facts: Facts, scene: Scene) -> Section:
    """Return the drawing, what r and s are, the joints, and the composite bodies."""
    robot = facts.estimate.robot
    marked = _marked(facts)
    rows = []
    for index, joint in enumerate(robot.joints):
        kind = "fixed load" if joint.kind == "fixed" else "slides" if joint.slides else "turns"
        role = marked.get(index, "")
        rows.append((str(index + 1), short(joint.name, 60), kind, role or "", short(robot.link_names[index], 60)))
    headings = ("No.", "joint", "moves", "rule", "link")
    joints = table("Joints of the robot", headings, rows, class_="numbered")
    side = tag("div", *_turning(facts), joints)
    content = [tag("div", robot_figure(scene, marked), side, class_="two")]
    if facts.rule.constants:
        content.append(_bodies(facts, scene))
    lead = (
        f"{visible(robot.name) or 'The robot'}: {robot.n} joints, {len(robot.layout)} parameters. The figure shows the "
        "geometry the model was made from; check it before anything else."
    )
    return Section("robot", "The robot", lead, tuple(content))


def _turning(facts: Facts) -> list[Html]:
    """What r and s are, and why; or why the rule does not say."""
    structure = facts.rule.structure
    if structure is None:
        return [tag("p", f"The closed-form rule does not apply here: {visible(facts.rule.why_not)}.", class_="quiet")]
    reasons = []
    for line in structure.describe().splitlines():
        head, _, tail = line.partition(": ")
        reasons.append(tag("li", tag("strong", _greek(head)), ": ", tail, "."))
    text = (
        "r is the first joint that turns. s is the first one after it that turns about another direction. From s on, a "
        "link can be turned every way, so more of its inertia shows."
    )
    return [tag("h3", "What turns what"), tag("p", text), tag("ul", *reasons, class_="reasons")]


def _greek(text: str) -> str:
    return text.replace("delta_", "δ").replace("sigma_", "σ")


def _marked(facts: Facts) -> dict[int, str]:
    structure = facts.rule.structure
    if structure is None:
        return {}
    found = {}
    for name, value in (("r", structure.r), ("s", structure.s)):
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None:
                found[one - 1] = name
    return found


def _bodies(facts: Facts, scene: Scene) -> Html:
    robot = facts.estimate.robot
    owned: dict[int, list[str]] = {}
    for name in facts.rule.names:
        match = _OWNER.match(name)
        if match:
            owned.setdefault(int(match[1] or match[2]) - 1, []).append(name)
    items = []
    moving = [index for index, joint in enumerate(robot.joints) if joint.kind != "fixed"]
    for index, constants in zip(moving, facts.rule.constants):
        count = len(subtree(scene, index))
        items.append(
            tag(
                "li",
                body_figure(scene, index),
                tag("p", tag("strong", f"Body {index + 1}"), f"{count} link{'s' if count > 1 else ''}"),
                tag("p", f"m̂ = {number(constants.mass)} kg", class_="num-line"),
                tag("p", "shows " + (", ".join(owned.get(index, [])) or "nothing new"), class_="quiet"),
            )
        )
    return tag(
        "div",
        tag("h3", "Composite bodies"),
        tag(
            "p",
            "A joint moves all that it carries as if it were one body. The constants of these bodies are what the "
            "motion can show; each body adds the ones named below it (U inertia, k first moment, m mass, then drive "
            "terms).",
        ),
        tag("ul", *items, class_="bodies"),
    )


def base_section(facts: Facts) -> Section:
    """Return the base parameters as formulas of standard ones, and what has no effect."""
    base = facts.estimate.base
    layout = base.robot.layout
    rows = []
    for relation, kept in zip(base.relations(), base.kept):
        column = layout.columns[layout.index(kept)]
        unit = unit_of(column.symbol, base.robot.joints[column.joint]) if base.rows is None else ""
        alone = len(relation.terms) == 1 and relation.name == kept
        formula = tag("span", "itself", class_="quiet") if alone else relation.formula().replace(" - ", " − ")
        rows.append((relation.name, formula, unit))
    reasons: dict[str, list[str]] = {}
    for name in base.eliminated:
        reasons.setdefault(base.statuses[name].partition(": ")[2], []).append(name)
    nothing = tag("ul", *(tag("li", tag("strong", ", ".join(names)), f": {why}") for why, names in reasons.items()))
    lead = (
        f"Of {len(layout)} parameters, {base.rank} combinations decide every torque. {len(base.regrouped)} more act "
        f"only inside these combinations and cannot be told apart, {len(base.eliminated)} have no effect at all. No "
        "experiment that measures joint torques can find more."
        if base.method == "exact"
        else f"{base.rank} combinations of {len(layout)} parameters, found by method {base.method}."
    )
    content = [
        folded(
            f"All {base.rank} base parameters as formulas",
            table("Base parameters", ("base parameter", "made of", "unit"), rows, class_="formulas"),
            open_=base.rank <= 24,
        )
    ]
    if reasons:
        content.append(folded(f"{len(base.eliminated)} parameters without effect, and why", nothing))
    return Section("base", "Base parameters", lead, tuple(content))
