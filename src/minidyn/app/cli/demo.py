"""`minidyn demo`: the whole job on the built-in Stanford arm."""

from __future__ import annotations

import click

from minidyn.app.cli.options import json_option, output_option
from minidyn.app.cli.text import print_json


@click.command()
@output_option("minidyn-out/demo")
@json_option
def demo(output: str, as_json: bool) -> None:
    """Do the whole job on the built-in Stanford arm, in a minute.

    Plan, log, model, tests, exports, report. Example: minidyn demo --output demo
    """
    from minidyn.app.cli.demo_story import run_demo

    facts, target, seconds = run_demo(output, quiet=as_json)
    if as_json:
        files = sorted(str(path) for path in target.rglob("*") if path.is_file())
        print_json(facts | {"seconds": seconds, "files": files})
