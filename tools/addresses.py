"""Addresses of the project, from one place in pyproject.toml to the metadata of wheel and archive.

Hatchling calls `CustomMetadataHook`; `tools/dist.py` names the addresses that are empty.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LABELS = {"repository": "Repository", "documentation": "Documentation"}
"""Addresses that the metadata has, and their labels there."""


class CustomMetadataHook(MetadataHookInterface):
    """Fill in the URLs of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add each address that is not empty."""
        project = tomllib.loads((Path(self.root) / "pyproject.toml").read_text())
        owner = project["tool"]["minidyn"]["owner"]
        metadata["urls"] = {label: owner[key] for key, label in LABELS.items() if owner.get(key)}
