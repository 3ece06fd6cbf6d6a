"""Case studies of the five papers: their tables and figures, computed again beside the printed ones."""
