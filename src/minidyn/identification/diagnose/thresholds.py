"""Numbers that diagnoses share: what counts as large, as most, as another size, as chance.

How many standard errors make a difference certain is `score.MIN_STANDARD_ERRORS`.
"""

LARGE = 0.1
"""Share from which a part counts: a joint's torque beside the largest one, a cause beside the whole
difference, a standard deviation beside its value, a scale beside one, an angle in rad."""

FAIR = 0.3
"""Relative standard deviation up to which a value is known fairly, and well up to `LARGE`."""

HALF = 0.5
"""Share that is the larger part: the rest is less."""

MOST = 0.75
"""Share that is nearly all: what else is there does not decide."""

FACTOR = 1.3
"""Ratio up to which log and robot file agree: no file is exact. The large joints of measured logs
have ratios from 0.92 to 1.09."""

FAR = 3.0
"""Ratio beyond which something is of another unit, or of another robot."""

STDS = 3.0
"""Standard deviations beyond which one value among many is not the expected one."""

LEVEL = 0.05
"""Probability below which chance is not the reason."""

SAMPLES = 1500  # size: samples of a recording that are compared
