"""TOML robot files, minidyn's own format: read and write."""
