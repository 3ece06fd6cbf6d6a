"""Draw docs/figures/walk.svg: which files the main walk touches, step by step.

Run it with the repository's Python. A file stands where it is touched first; below each step stands
how many files it touches in all.
"""

from __future__ import annotations

import os
from pathlib import Path
from xml.sax.saxutils import escape

import house

PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "walk.svg"
COLUMN, ROW, LEFT, TOP = 196, 15, 14, 64
COLOURS = {
    "graph": "#56b4e9",
    "model": "#999999",
    "formats": "#b8860b",
    "dynamics": "#0072b2",
    "base": "#009e73",
    "recording": "#cc79a7",
    "identification": "#d55e00",
    "app": "#8a5fb5",
}


def main() -> None:
    """Run the walk and write the picture."""
    seen: set[str] = set()
    columns: list[tuple[str, int, list[str]]] = []
    for step, touched in house.walk().items():
        files = {os.path.relpath(file, house.SOURCE).removesuffix(".py") for file in touched.files}
        new = sorted(files - seen, key=lambda name: (order(name), name))
        seen |= files
        columns.append((step, len(files), new))
    height = TOP + ROW * max(len(new) for _, _, new in columns) + 30
    width = LEFT + COLUMN * len(columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for index, (step, count, new) in enumerate(columns):
        x = LEFT + index * COLUMN
        parts.append(
            f'<text x="{x}" y="24" font-size="16" font-weight="bold" fill="#222222">{step}</text>'
        )
        parts.append(
            f'<text x="{x}" y="44" fill="#555555">{count} files, {len(new)} of them new</text>'
        )
        if index:
            parts.append(f'<text x="{x - 24}" y="24" font-size="16" fill="#999999">&#8594;</text>')
        for row, name in enumerate(new):
            y = TOP + ROW * row
            colour = COLOURS.get(name.split("/")[0], "#444444")
            parts.append(f'<rect x="{x}" y="{y}" width="8" height="10" rx="2" fill="{colour}"/>')
            parts.append(f'<text x="{x + 13}" y="{y + 9}" fill="#222222">{escape(name)}</text>')
    parts.append(
        f'<text x="{LEFT}" y="{height - 10}" fill="#555555">{len(seen)} files in all</text></svg>'
    )
    PICTURE.write_text("\n".join(parts) + "\n")


def order(name: str) -> int:
    """The stage of a file."""
    stage = name.split("/")[0]
    return house.STAGES.index(stage) if stage in house.STAGES else -1


if __name__ == "__main__":
    main()
