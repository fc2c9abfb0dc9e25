"""The statistics of `blame`: chance, many comparisons, and two modes."""

from __future__ import annotations

import math
from collections.abc import Sequence


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


def no_more_by_chance(count: int, expected: float) -> float:
    """Probability, at most, of no more than `count` where more are expected (Poisson, Chernoff's bound)."""
    if count >= expected:
        return 1.0
    return math.exp(count - expected + (count * math.log(expected / count) if count else 0.0))


def valley(histogram: Sequence[int], apart: int, near: int, share: float = 0.02, chance: float = 0.01) -> int | None:
    """Where a histogram falls into two modes: the first step of the upper one; none when it has one mode.

    The modes hold at least `share` of all each; between them is a step that no more than a quarter of the lower peak
    falls into. They are at least `apart` steps from each other, or `near` where that step is that empty by more than
    chance: of one mode it would have as many as the lower peak.
    """
    total, best = sum(histogram), None
    for at in range(1, len(histogram)):
        low, high = histogram[:at], histogram[at:]
        if min(sum(low), sum(high)) < max(3, share * total):
            continue
        peak_low = max(range(len(low)), key=lambda i: (low[i], -i))
        peak_high = at + max(range(len(high)), key=lambda i: (high[i], i))
        if peak_high - peak_low < near:
            continue
        between = histogram[peak_low + 1 : peak_high]
        depth = sum(between) / max(1, len(between))
        lower = min(histogram[peak_low], histogram[peak_high])
        if min(between) * 4 > lower:
            continue
        by_luck = no_more_by_chance(min(between), lower) * len(histogram)
        if peak_high - peak_low < apart and by_luck > chance:
            continue
        # The emptiest place between the peaks, in the middle of where it is empty.
        if histogram[at] == min(between) and peak_low < at < peak_high:
            empty = [i for i in range(peak_low + 1, peak_high) if histogram[i] == min(between)]
            middle = empty[len(empty) // 2]
            score = (min(sum(low), sum(high)), -depth)
            if best is None or score > best[0]:
                best = (score, middle)
    return best[1] if best else None
