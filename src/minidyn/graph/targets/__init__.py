"""Programs printed from a recorded function: C99, Python, JAX, machine code."""
