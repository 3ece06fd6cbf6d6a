"""Draw the figures of docs/minimal-combinations.md: plain SVG, no library needed.

Run `python docs/figures/make_composite_figures.py`; the files are written next to this script.
"""

from __future__ import annotations

import math
from pathlib import Path

INK, SOFT, PAPER = "#1f2933", "#7b8794", "#ffffff"
BLUE, GREEN, ORANGE = "#2563eb", "#0f8a5f", "#c2570c"
BLUE_FILL, GREEN_FILL, ORANGE_FILL, GREY_FILL = "#e3ecff", "#dcf5ea", "#fdebdc", "#f1f3f5"


class Drawing:
    """A list of SVG elements and a few shapes."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def line(
        self,
        a: tuple[float, float],
        b: tuple[float, float],
        color: str = INK,
        width: float = 2,
        dash: str = "",
    ) -> None:
        """Draw a straight line."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
            f'stroke="{color}" stroke-width="{width}" stroke-linecap="round"{dashes}/>'
        )

    def arrow(
        self, a: tuple[float, float], b: tuple[float, float], color: str = INK, width: float = 2
    ) -> None:
        """Draw an arrow from a to b."""
        angle = math.atan2(b[1] - a[1], b[0] - a[0])
        size = 5 + 2 * width
        back = (b[0] - 0.7 * size * math.cos(angle), b[1] - 0.7 * size * math.sin(angle))
        self.line(a, back, color, width)
        tips = [
            (b[0] + size * math.cos(angle + t), b[1] + size * math.sin(angle + t))
            for t in (math.pi - 0.4, math.pi + 0.4)
        ]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (b, *tips))
        self.parts.append(f'<polygon points="{points}" fill="{color}"/>')

    def circle(
        self,
        c: tuple[float, float],
        r: float,
        fill: str = PAPER,
        color: str = INK,
        width: float = 2,
        dash: str = "",
    ) -> None:
        """Draw a circle."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<circle cx="{c[0]:.1f}" cy="{c[1]:.1f}" r="{r}" fill="{fill}" stroke="{color}" '
            f'stroke-width="{width}"{dashes}/>'
        )

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str,
        color: str = "none",
        radius: float = 8,
    ) -> None:
        """Draw a box with round corners."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{radius}" fill="{fill}" '
            f'stroke="{color}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        color: str = INK,
        size: int = 14,
        anchor: str = "middle",
        bold: bool = False,
    ) -> None:
        """Write words."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" font-size="{size}" '
            f'text-anchor="{anchor}"{weight}>'
            f"{words}</text>"
        )

    def hull(
        self, a: tuple[float, float], b: tuple[float, float], radius: float, fill: str
    ) -> None:
        """Draw a thick rounded band from a to b."""
        self.parts.append(
            f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
            f'stroke="{fill}" stroke-width="{2 * radius}" stroke-linecap="round"/>'
        )

    def save(self, name: str) -> None:
        """Write the file next to this script."""
        body = "\n  ".join(self.parts)
        Path(__file__).with_name(name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" font-family="sans-serif">\n'
            f"  <title>{self.title}</title>\n"
            f'  <rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>\n  {body}\n'
            "</svg>\n"
        )


def composite_bodies() -> None:
    """Composite body 2 of a three-joint arm, and what of link 3 is constant in it."""
    d = Drawing(760, 330, "Composite body 2 and the constant and varying parts of its first moment")
    base, one, two, three = (80, 290), (80, 215), (190, 120), (320, 165)
    tip = (375, 75)
    d.text(210, 28, "composite body 2 = link 2 and all it carries", bold=True)
    for a, b in ((two, three), (three, tip)):
        d.hull(a, b, 30, BLUE_FILL)
    d.line((50, 295), (110, 295), SOFT, 4)
    for a, b in ((base, one), (one, two), (two, three), (three, tip)):
        d.line(a, b, INK, 7)
    for k, joint in enumerate((one, two, three), 1):
        d.circle(joint, 9)
        d.text(joint[0] - 8, joint[1] - 15, str(k), SOFT)
    d.text(108, 165, "link 1", SOFT, anchor="end")
    d.text(250, 188, "link 2", SOFT)
    d.text(318, 72, "link 3", SOFT, anchor="start")
    heavy = (290, 118)
    d.arrow(two, heavy, BLUE, 2.5)
    d.circle(heavy, 5, BLUE, BLUE)
    d.text(255, 92, "ĉ₂ = k₂ + l₂", BLUE, bold=True)

    x = 600
    d.line((430, 40), (430, 300), "#d9dee3", 1)
    d.text(x, 28, "what turning joint 3 cannot change", bold=True)
    origin, joint = (470, 250), (590, 180)
    d.line(origin, joint, INK, 7)
    radius = 75
    d.circle(joint, radius, "none", SOFT, 1.5, "4 5")
    for angle, faint in ((-1.1, False), (0.2, True), (-2.3, True)):
        end = (joint[0] + radius * math.cos(angle), joint[1] + radius * math.sin(angle))
        d.line(joint, end, "#c9d1d9" if faint else INK, 7)
        d.circle(end, 8, "#e6eaee" if faint else ORANGE, "#c9d1d9" if faint else ORANGE)
        if not faint:
            d.arrow(joint, (end[0] - 6, end[1] + 10), ORANGE, 2.5)
            d.text(end[0] + 18, end[1] - 6, "varies", ORANGE, anchor="start", bold=True)
            d.text(end[0] + 18, end[1] + 12, "into l₂, V₂", ORANGE, anchor="start")
    d.circle(joint, 10, GREEN_FILL, GREEN, 3)
    d.arrow(origin, (joint[0] - 11, joint[1] + 7), GREEN, 2.5)
    d.circle(origin, 9)
    d.text(452, 256, "2", SOFT)
    d.text(596, 210, "3", SOFT)
    d.text(600, 290, "constant", GREEN, bold=True)
    d.text(600, 310, "mass m̂₃ on the axis of joint 3, into k₂, U₂", GREEN, size=13)
    d.save("composite-bodies.svg")


def r_and_s() -> None:
    """A chain with its first rotational joint r and the first one not parallel to it, s."""
    d = Drawing(760, 360, "Joints r and s divide a chain into three parts")
    zones = (
        (20, 130, GREY_FILL, SOFT, "before r", "nothing turns"),
        (156, 300, GREEN_FILL, GREEN, "from r to s", "everything turns about one direction"),
        (462, 278, BLUE_FILL, BLUE, "from s on", "bodies turn every way"),
    )
    for x, w, fill, color, name, words in zones:
        d.box(x, 50, w, 290, fill)
        d.text(x + w / 2, 76, name, color, 15, bold=True)
        d.text(x + w / 2, 96, words, color, 12)
    y = 200
    xs = {1: 85, 2: 200, 3: 305, 4: 410, 5: 515, 6: 605, 7: 695}
    d.line((40, y), (720, y), INK, 5)
    axes = {
        1: (30, -30),
        2: (0, -52),
        3: (28, -40),
        4: (0, -52),
        5: (44, -16),
        6: (34, 34),
        7: (0, -52),
    }
    kinds = "PRPRRPR"
    for k, kind in enumerate(kinds, 1):
        x = xs[k]
        dx, dy = axes[k]
        color = SOFT if k == 1 else GREEN if k < 5 else BLUE
        d.arrow((x - 0.5 * dx, y - 0.5 * dy), (x + dx, y + dy), color, 2)
        if kind == "R":
            d.circle((x, y), 12, PAPER, color, 3)
        else:
            d.box(x - 12, y - 12, 24, 24, PAPER, color, 2)
        d.text(x, y + 5, kind, color, 13, bold=True)
    d.text(200, 134, "r", GREEN, 17, bold=True)
    d.text(545, 172, "s", BLUE, 17, bold=True)
    d.text(404, 134, "parallel to r", GREEN, 12)
    rows = {
        1: ("m̂",),
        2: ("U33", "kx ky if δ = 1"),
        3: ("m̂", "κ1 κ2 if σ = 1"),
        4: ("U33", "kx ky if δ = 1"),
        5: ("U33 U11-22", "U12 U13 U23", "kx ky"),
        6: ("m̂", "kx ky kz"),
        7: ("U33 U11-22", "U12 U13 U23", "kx ky"),
    }
    for k, lines in rows.items():
        color = SOFT if k == 1 else GREEN if k < 5 else BLUE
        for i, words in enumerate(lines):
            d.text(xs[k], 272 + 20 * i, words, color, 12)
    d.text(
        380,
        28,
        "arrows are joint axes; below each joint, what the motion can show of its composite body",
        SOFT,
        13,
    )
    d.save("r-and-s.svg")


def tree() -> None:
    """Two branches on one stem: the rule goes along each path."""
    d = Drawing(760, 320, "On a tree the rule goes along the path from the base to each joint")
    base, one, left, left2, right, right2 = (
        (380, 295),
        (380, 225),
        (270, 155),
        (170, 90),
        (490, 155),
        (600, 105),
    )
    for a, b in (
        (one, left),
        (left, (120, 55)),
        (one, right),
        (right, right2),
        (right2, (655, 80)),
    ):
        d.hull(a, b, 26, GREY_FILL)
    for a, b in ((left, left2), (left2, (120, 55))):
        d.hull(a, b, 18, GREEN_FILL)
    for a, b in ((right, right2), (right2, (655, 80))):
        d.hull(a, b, 18, BLUE_FILL)
    d.line((350, 300), (410, 300), SOFT, 4)
    for a, b in (
        (base, one),
        (one, left),
        (left, left2),
        (left2, (120, 55)),
        (one, right),
        (right, right2),
        (right2, (655, 80)),
    ):
        d.line(a, b, INK, 6)
    for point, number, color in (
        (one, 1, INK),
        (left, 2, GREEN),
        (left2, 3, GREEN),
        (right, 4, BLUE),
        (right2, 5, BLUE),
    ):
        d.circle(point, 11, PAPER, color, 3)
        d.text(point[0], point[1] + 5, str(number), color, 13, bold=True)
    d.text(380, 120, "composite body 1", SOFT, 13)
    d.text(380, 138, "has both branches", SOFT, 13)
    d.text(30, 200, "path 1, 2, 3: its own r and s", GREEN, anchor="start")
    d.text(30, 220, "joint 2 is parallel to joint 1,", GREEN, 12, anchor="start")
    d.text(30, 236, "joint 3 is not: r = 1, s = 3", GREEN, 12, anchor="start")
    d.text(545, 200, "path 1, 4, 5: its own r and s", BLUE, anchor="start")
    d.text(545, 220, "joint 4 is not parallel", BLUE, 12, anchor="start")
    d.text(545, 236, "to joint 1: r = 1, s = 4", BLUE, 12, anchor="start")
    d.save("rule-on-a-tree.svg")


def meeting_point() -> None:
    """Without gravity a wrist whose axes meet shows its inertia about that point only."""
    d = Drawing(
        760, 260, "Axes that meet in one point P, and the height h of a frame's origin above it"
    )
    P = (200, 140)
    for angle, name in ((math.pi / 2, "axis 1"), (0.35, "axis 2")):
        dx, dy = 105 * math.cos(angle), -105 * math.sin(angle)
        d.line((P[0] - dx, P[1] - dy), (P[0] + dx, P[1] + dy), SOFT, 2, "7 5")
        d.text(P[0] + 1.12 * dx + 14, P[1] + 1.12 * dy + 4, name, SOFT, 13)
    u = (math.cos(-0.55), -math.sin(-0.55))
    far = (P[0] + 190 * u[0], P[1] + 190 * u[1])
    d.line((P[0] - 60 * u[0], P[1] - 60 * u[1]), far, BLUE, 2, "7 5")
    origin = (P[0] + 120 * u[0], P[1] + 120 * u[1])
    d.circle(P, 6, INK)
    d.text(P[0] - 10, P[1] + 26, "P", bold=True)
    d.arrow(origin, (origin[0] + 55 * u[0], origin[1] + 55 * u[1]), BLUE, 3)
    d.circle(origin, 6, PAPER, BLUE, 3)
    d.text(origin[0] - 6, origin[1] + 26, "O_j", BLUE, bold=True)
    d.text(far[0] + 22, far[1] + 6, "u_j", BLUE)
    d.text((P[0] + origin[0]) / 2 + 16, (P[1] + origin[1]) / 2 - 6, "h", ORANGE, 16, bold=True)
    d.line(P, origin, ORANGE, 3)
    d.text(420, 92, "All joints turn about P, and nothing pulls:", INK, 14, "start")
    d.text(420, 114, "only the inertia about P can be seen.", INK, 14, "start")
    d.text(420, 146, "kx, ky leave the set;", ORANGE, 14, "start", bold=True)
    d.text(420, 168, "U13 becomes U13 - h kx,", ORANGE, 14, "start", bold=True)
    d.text(420, 190, "U23 becomes U23 - h ky.", ORANGE, 14, "start", bold=True)
    d.save("axes-that-meet.svg")


if __name__ == "__main__":
    composite_bodies()
    r_and_s()
    tree()
    meeting_point()
