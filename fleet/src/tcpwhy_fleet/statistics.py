"""The statistics of `blame`: chance, many comparisons, and two modes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Deviations that the emptiness between two modes is beyond chance by.
SIGMAS = 3.0


def log_choose(n: int, k: int) -> float:
    """Logarithm of n over k."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def by_chance(hits: int, drawn: int, bad: int, of: int) -> float:
    """Probability that of `drawn` items out of `of`, `bad` of them bad, at least `hits` are bad (Fisher, one side)."""
    most = min(drawn, bad)
    if hits <= max(0, drawn - (of - bad)):
        return 1.0
    if hits > most:
        return 0.0
    total = log_choose(of, drawn)
    first = log_choose(bad, hits) + log_choose(of - bad, drawn - hits) - total
    # Each term is the one before times a ratio that falls: the sum ends where it no longer grows.
    term = summed = 1.0
    for k in range(hits, most):
        term *= (bad - k) * (drawn - k) / ((k + 1) * (of - bad - drawn + k + 1))
        summed += term
        if term < summed * 1e-12:
            break
    return min(1.0, math.exp(min(0.0, first + math.log(summed))))


def holm(chances: Sequence[float]) -> list[float]:
    """The same corrected for having looked at so many (Holm)."""
    order = sorted(range(len(chances)), key=lambda i: chances[i])
    corrected, worst = [0.0] * len(chances), 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, chances[i] * (len(chances) - rank)))
        corrected[i] = worst
    return corrected


def at_least(count: float, z: float = 2.0) -> float:
    """The rate that is at least behind a count (Poisson, two deviations)."""
    return max(0.0, count - z * math.sqrt(count))


def valley(histogram: Sequence[int]) -> int | None:
    """Where a histogram falls into two modes: the first step of the upper one; none when it has one mode.

    Of a distribution with one mode no stretch is emptier than both the fullest as long on its left and that on its
    right. It has two where such a stretch holds at most a quarter of the lesser of those, beyond SIGMAS deviations of
    their difference (Poisson): of normal, skewed, flat and heavy-tailed samples with one mode that is 1 in 100 or less.
    """
    counts = np.asarray(histogram, dtype=np.int64)
    sums = np.concatenate([[0], np.cumsum(counts)])
    best, cut = 0.0, None
    for width in range(1, len(counts) // 3 + 1):
        windows = sums[width:] - sums[:-width]
        between = windows[width:-width]
        left = np.maximum.accumulate(windows)[: -2 * width]
        right = np.maximum.accumulate(windows[::-1])[::-1][2 * width :]
        peak = np.minimum(left, right)
        apart = (peak - between) / np.sqrt(np.maximum(peak + between, 1))
        apart[between * 4 > peak] = 0.0
        at = int(apart.argmax())
        if apart[at] > best:
            best, cut = float(apart[at]), at + width + width // 2
    return cut if best >= SIGMAS else None
