"""minidyn."""
