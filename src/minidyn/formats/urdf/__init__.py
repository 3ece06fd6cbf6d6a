"""URDF files: read, write, update."""
