"""Effects that a model may have: one file an effect."""
