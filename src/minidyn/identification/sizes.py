"""Sizes and rounding that many files share: how often fits repeat, how long searches last."""

MAX_FITS = 8  # size: fits that repeat until what they depend on agrees with what they give
MAX_STEPS = 100  # size: of a nonlinear search
MAX_ROUNDS = 4  # size: corrections, each to first order
FAINT = 1e-6  # rounding: of the largest value: computed values that are smaller are none
ROUNDING = 1e-9  # rounding: of the largest value that it is compared with
