"""What readers of the five papers look for: counts, formulations, equivalents."""
