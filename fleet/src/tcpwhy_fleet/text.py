"""What is shown on a terminal or in HTML: names come from hosts, and a terminal obeys what it is given."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Control, format, surrogate, private use, unassigned; and what breaks lines.
ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def shown(text: object) -> str:
    """A text with nothing that a terminal would obey, or that would reorder what is around it."""
    return "".join(_escaped(c) for c in str(text))


def _escaped(char: str) -> str:
    if char.isascii():
        return char if char.isprintable() else f"\\u{ord(char):04x}"
    return f"\\u{ord(char):04x}" if unicodedata.category(char) in ACTING else char


def number(value: float) -> str:
    """A number with as many digits as tell something."""
    if value == 0 or not abs(value) < 1e15:
        return f"{value:g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def lost(seconds: float | None) -> str:
    """Seconds that were lost."""
    return "cost unknown" if seconds is None else f"{number(seconds)} s lost"


def plural(count: int, what: str) -> str:
    """`1 host`, `2 hosts`."""
    ending = "es" if what.endswith(("s", "x", "ch")) else "s"
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}{ending}"


def joined(words: Sequence[str], most: int | None = None) -> str:
    """`a, b and c`; of more than so many the first, and how many more."""
    if most is not None and len(words) > most + 1:
        return joined([*words[:most], f"{len(words) - most:,} more"])
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def milliseconds(ns: float) -> str:
    """A length of time."""
    return f"{number(ns / 1e6)} ms" if abs(ns) < 1e9 else f"{number(ns / 1e9)} s"
