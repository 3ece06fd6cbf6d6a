"""What `minidyn completion` prints."""

from __future__ import annotations

import json

import click
from click.shell_completion import get_completion_class

__all__ = ["completion_script"]


def completion_script(shell: str, as_json: bool) -> str:
    """Return the script a shell sources; with `as_json` as {"shell": ..., "script": ...}."""
    made = get_completion_class(shell)
    if made is None:  # the choices of the verb are click's own
        raise click.UsageError(f"no completion for {shell}")
    instance = made(click.Command("minidyn"), {}, "minidyn", "_MINIDYN_COMPLETE")
    # source_template % vars, not source(): that one runs bash to ask for its version
    script = instance.source_template % instance.source_vars()
    return json.dumps({"shell": shell, "script": script}, indent=1) if as_json else script
