"""Draw the picture of an explanation on docs/base-parameters.md.

Run `python docs/figures/make_explain_figure.py`; the file is written next to this script.
"""

from __future__ import annotations

from pathlib import Path

import minidyn as md


def main() -> None:
    """Write figures/explain.svg."""
    figure = md.base_parameters(md.load("puma560")).explain("YY3").plot()
    figure.savefig(Path(__file__).with_name("explain.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
