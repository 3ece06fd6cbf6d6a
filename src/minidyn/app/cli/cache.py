"""`minidyn cache`: the compiled functions that are kept between runs."""

from __future__ import annotations

import click

from minidyn.app.cli.options import json_option
from minidyn.app.cli.text import print_json
from minidyn.text import plain


@click.command()
@click.option("--clear", is_flag=True, help="Remove the files.")
@json_option
def cache(clear: bool, as_json: bool) -> None:
    """Show, or clear, the compiled functions that are kept between runs.

    The folder is $XDG_CACHE_HOME/minidyn or the system's equivalent; MINIDYN_CACHE=FOLDER names
    another one, MINIDYN_CACHE=0 switches it off. The files used longest ago go when it is full.

    Example: minidyn cache --clear
    """
    from minidyn.graph.targets.native import disk

    path = disk.folder()
    if path is None:
        reason = "switched off (MINIDYN_CACHE=0, or there is no folder for caches)"
        kept = disk.Usage(0, 0)
    else:
        reason = disk.refusal(path)
        kept = disk.Usage(0, 0) if reason else disk.clear(path) if clear else disk.usage(path)
    if as_json:
        return print_json(
            {
                "folder": None if path is None else str(path),
                "used": not reason,
                "reason": reason,
                "cleared": clear and not reason,
                "files": kept.files,
                "bytes": kept.size,
                "max_bytes": disk.MAX_BYTES,
            }
        )
    what = f"{kept.files} compiled functions, {kept.size / 1e6:.1f} MB"
    if path is None:
        line = f"no compiled functions are kept: {reason}"
    elif reason:
        line = f"{path}: not used, {reason}"
    else:
        limit = f" of at most {disk.MAX_BYTES / 1e6:.0f} MB"
        line = f"{path}: removed {what}" if clear else f"{path}: {what}{limit}"
    return click.echo(plain(line))
