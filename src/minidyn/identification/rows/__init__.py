"""Rows of linear systems from recordings, and their reduction to triangles."""
