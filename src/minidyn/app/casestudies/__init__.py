"""Case studies of the five papers.

Their tables and figures, computed again beside the printed ones.
"""
