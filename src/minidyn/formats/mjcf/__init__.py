"""MJCF files: read, write, update."""
