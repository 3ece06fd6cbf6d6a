"""Study files: whole jobs as TOML."""
