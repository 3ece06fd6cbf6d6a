"""From raw samples to speeds and accelerations: even stretches, filters, derivatives."""
