"""Elimination modulo a prime: which columns are independent, and what the others are made of. No tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


class Echelon:
    """Reduced row echelon form of a matrix modulo a prime.

    Attributes:
        pivots: Columns that do not depend on those before them, ascending.
        others: The remaining columns, ascending.
        K: (pivots, others) with column[others] = column[pivots] K modulo the prime.
    """

    def __init__(self, pivots: list[int], others: list[int], K: Words, prime: int) -> None:
        self.pivots = pivots
        self.others = others
        self.K = K
        self.prime = prime

    def explains(self, rows: Words) -> bool:
        """Whether further rows (r, columns) obey the relations found: then they add nothing to the rank."""
        p = np.uint64(self.prime)
        left = rows[:, self.pivots]
        total = np.zeros((len(rows), len(self.others)), dtype=np.uint64)
        for k in range(len(self.pivots)):
            total += _reduced(left[:, k : k + 1] * self.K[k], p)
        return bool(np.array_equal(total % p, rows[:, self.others]))


def echelon(matrix: Words, prime: int) -> Echelon:
    """Return the reduced row echelon form of a matrix (rows, columns) of residues.

    Columns are taken from left to right, so that each dependent column is expressed by columns before it: the choice
    that a QR factorisation without pivoting makes. Rows that hold zeros only in a column are left alone, which is
    most of them where joints do not feel the links before them.

    Implements: Gautier1991 eq. (13), (17), choice of columns, over a finite field.
    """
    A = matrix.copy()
    p = np.uint64(prime)
    rows, columns = A.shape
    pivots: list[int] = []
    others: list[int] = []
    for column in range(columns):
        rank = len(pivots)
        below = np.flatnonzero(A[rank:, column])
        if len(below) == 0:
            others.append(column)
            continue
        below += rank
        first = int(below[0])
        if first != rank:
            A[[rank, first]] = A[[first, rank]]
        A[rank, column:] = A[rank, column:] * np.uint64(pow(int(A[rank, column]), -1, prime)) % p
        rest = below[1:]
        if len(rest):
            factors = p - A[rest, column]
            A[rest, column:] = _reduced(A[rest, column:] + factors[:, None] * A[rank, column:], p)
        pivots.append(column)
        if len(pivots) == rows:
            others.extend(range(column + 1, columns))
            break
    K = A[: len(pivots)][:, others].copy()
    U = A[: len(pivots)][:, pivots]
    for k in range(len(pivots) - 1, 0, -1):
        above = np.flatnonzero(U[:k, k])
        if len(above) and K.shape[1]:
            K[above] = _reduced(K[above] + (p - U[above, k])[:, None] * K[k], p)
    return Echelon(pivots, others, K, prime)


def _reduced(values: Words, p: np.uint64) -> Words:
    """Values modulo p; dividing by one number is several times quicker than taking remainders."""
    result: Words = values - (values // p) * p
    return result


def chinese_remainder(residues: list[int], primes: tuple[int, ...]) -> tuple[int, int]:
    """Return (x, modulus) with x = residues[i] modulo primes[i]."""
    x, modulus = 0, 1
    for residue, prime in zip(residues, primes):
        x += modulus * ((residue - x) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    return x, modulus


def rational(x: int, modulus: int, slack: int = 1 << 20) -> tuple[int, int] | None:
    """Return the fraction (a, b) with a = b x modulo `modulus` that is simple enough to be no accident, else None.

    A random residue passes with a probability of about 1/slack.

    Implements: Wang's rational reconstruction by the Euclidean algorithm.
    """
    a0, a1, b0, b1 = modulus, x % modulus, 0, 1
    best: tuple[int, int] | None = None
    limit = modulus // slack
    while a1:
        if abs(a1 * b1) <= limit and (best is None or abs(a1 * b1) < abs(best[0] * best[1])):
            best = (a1, b1)
        quotient = a0 // a1
        a0, a1, b0, b1 = a1, a0 - quotient * a1, b1, b0 - quotient * b1
    if x % modulus == 0:
        return 0, 1
    if best is None:
        return None
    return best if best[1] > 0 else (-best[0], -best[1])
