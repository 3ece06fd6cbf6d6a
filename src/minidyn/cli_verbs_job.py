"""Verbs around whole jobs: completion."""

from __future__ import annotations

import click

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print the script as a JSON string.")
def completion(shell: str, as_json: bool) -> None:
    """Print the script that completes verbs, options and robots in a SHELL.

    Example: minidyn completion bash > ~/.local/share/bash-completion/completions/minidyn

    Example: minidyn completion zsh > ~/.zfunc/_minidyn

    Example: minidyn completion fish > ~/.config/fish/completions/minidyn.fish
    """
    from minidyn.cli_completion import completion_script

    click.echo(completion_script(shell, as_json))
