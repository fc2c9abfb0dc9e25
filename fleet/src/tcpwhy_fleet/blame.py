"""What separates the slow or lossy from the rest, over all hosts: attributes with precision, recall, lift, support."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import outcomes
from .attributes import Attribute, of_connections, of_paths
from .fleet import Fleet
from .outcomes import Items
from .statistics import by_chance, holm
from .text import joined, number, plural, shown

# An attribute separates when chance would give it less than once in so many looks at such a fleet.
CHANCE = 0.01
LEAST_SUPPORT = 3
LEAST_PRECISION = 0.5
# Those that have it are bad so many times as often as those that have not.
LEAST_RATIO = 2.0
# Of several that separate equally well, these are one answer.
SAME = 0.9
# What nearly all that are bad have in common, though others have it as well.
ALSO = 0.98
MOST_ANSWERS = 5
# What is said of an answer holds for all of them from this share on; so many attributes of it are said.
ALL = 0.995
MOST_SAID = 8
Mask = npt.NDArray[np.bool_]


@dataclass
class Separates:
    """An attribute's value and how well it tells the bad ones."""

    attribute: str
    value: str
    precision: float
    recall: float
    lift: float
    support: int
    bad: int
    chance: float
    # Of the bad ones that the best of a cause has, the share that this has as well.
    shared: float = 1.0


@dataclass
class Cause:
    """What separates some of the bad ones: one cause, however many attributes go with it."""

    best: Separates
    # The same items, near enough.
    same: list[Separates] = field(default_factory=list)
    # What all of them share, and others have as well.
    also: list[Separates] = field(default_factory=list)


@dataclass
class Answer:
    """What was asked, and what separates."""

    question: str
    what: str
    says: str
    items: int
    bad: int
    looked_at: int
    separate: list[Cause] = field(default_factory=list)
    left: int = 0
    # Which paths those are.
    left_paths: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {"type": "blame", **asdict(self)}


QUESTIONS = {
    "lossy": outcomes.lossy_paths,
    "slow": outcomes.slow_connections,
    "connects": outcomes.slow_connects,
}


def ask(fleet: Fleet, question: str) -> list[Answer]:
    """Answers one question: of slow connections for each program that has some, else as one."""
    return [_answer(fleet, question, items) for items in QUESTIONS[question](fleet)]


def _answer(fleet: Fleet, question: str, items: Items) -> Answer:
    answer = Answer(question, items.what, items.says, items.total, items.total_bad, 0)
    if not items.rows or items.total_bad < LEAST_SUPPORT or items.total_bad == items.total:
        answer.left = items.total_bad
        return answer
    attributes = of_paths(fleet, items) if question == "lossy" else of_connections(fleet, items)
    answer.separate, answer.looked_at, left = separate(items, attributes)
    answer.left = sum(items.rows[at]["bad"] for at in left)
    if question == "lossy":
        answer.left_paths = [f"{items.rows[at]['host']} → {items.rows[at]['to']}" for at in left]
    return answer


def separate(items: Items, attributes: Iterable[Attribute]) -> tuple[list[Cause], int, list[int]]:
    """The attributes that separate, each cause once; how many were looked at; which bad rows stay unexplained."""
    n = np.array([row["n"] for row in items.rows], dtype=np.int64)
    bad = np.array([row["bad"] for row in items.rows], dtype=np.int64)
    candidates = [(a, a.mask(items.rows)) for a in attributes]
    candidates = [(a, mask) for a, mask in candidates if LEAST_SUPPORT <= n[mask].sum() < n.sum()]
    left: Mask = np.ones(len(n), dtype=np.bool_)
    found: list[Cause] = []
    while len(found) < MOST_ANSWERS and bad[left].sum() >= LEAST_SUPPORT:
        scored = _scored(candidates, n, bad, left)
        of, of_bad = int(n[left].sum()), int(bad[left].sum())
        good = [
            (s, m)
            for s, m in scored
            if s.chance < CHANCE
            and s.bad >= LEAST_SUPPORT
            and s.precision >= max(LEAST_PRECISION, LEAST_RATIO * _without(s, of, of_bad))
        ]
        if not good:
            break
        best, mask = max(good, key=lambda sm: (_f1(sm[0]), -sm[0].support))
        answer = Cause(best)
        for other, others in scored:
            if other is best:
                continue
            other.shared = _covers(others, mask & left, bad)
            if other.chance >= CHANCE:
                continue
            if _jaccard(mask & left, others & left, n) >= SAME:
                answer.same.append(other)
            elif other.shared >= ALSO and other.precision >= LEAST_RATIO * _without(other, of, of_bad):
                answer.also.append(other)
        answer.same.sort(key=lambda s: -_f1(s))
        answer.also.sort(key=lambda s: -s.lift)
        found.append(answer)
        left = left & ~mask
    return found, len(candidates), [int(at) for at in np.flatnonzero(left & (bad > 0))]


def _scored(
    candidates: list[tuple[Attribute, Mask]], n: npt.NDArray[np.int64], bad: npt.NDArray[np.int64], left: Mask
) -> list[tuple[Separates, Mask]]:
    of, of_bad = int(n[left].sum()), int(bad[left].sum())
    scored = []
    for attribute, mask in candidates:
        within = mask & left
        drawn, hits = int(n[within].sum()), int(bad[within].sum())
        if not drawn:
            continue
        precision, recall = hits / drawn, hits / of_bad
        chance = by_chance(hits, drawn, of_bad, of)
        lift = precision / (of_bad / of)
        scored.append((Separates(attribute.name, attribute.value, precision, recall, lift, drawn, hits, chance), mask))
    corrected = holm([s.chance for s, _ in scored])
    for (s, _), chance in zip(scored, corrected, strict=True):
        s.chance = chance
    return scored


def _without(s: Separates, of: int, of_bad: int) -> float:
    """The share that is bad of those that do not have it."""
    return (of_bad - s.bad) / (of - s.support) if of > s.support else 0.0


def _f1(of: Separates) -> float:
    total = of.precision + of.recall
    return round(2 * of.precision * of.recall / total, 3) if total else 0.0


def _jaccard(one: Mask, other: Mask, n: npt.NDArray[np.int64]) -> float:
    either = n[one | other].sum()
    return float(n[one & other].sum() / either) if either else 0.0


def _covers(other: Mask, mask: Mask, bad: npt.NDArray[np.int64]) -> float:
    of = bad[mask].sum()
    return float(bad[mask & other].sum() / of) if of else 0.0


def lines(answer: Answer) -> list[str]:
    """The answer for people."""
    said = [f"{answer.what.upper()}: {answer.says}"]
    if not answer.items or not answer.bad:
        return said
    if answer.bad < LEAST_SUPPORT:
        return [*said, f"{plural(answer.bad, 'case')} are too few to tell what separates them"]
    if not answer.separate:
        looked = plural(answer.looked_at, "attribute value")
        return [*said, f"nothing separates them: {looked} looked at, none beyond chance"]
    left = answer.bad
    for one in answer.separate:
        said.append(f"- {_sentence(one, answer.what, left, is_first=left == answer.bad)}")
        left -= one.best.bad
        said.append(f"  {_numbers(one.best)}")
        if nearly := [s for s in one.same if s.shared < ALL]:
            said.append(f"  nearly all of them {joined(_predicates(nearly[:MOST_SAID]))}")
        if one.also:
            said.append(f"  all of them also {joined(_predicates(one.also[:MOST_SAID]))}, as others did")
    if answer.left:
        stay = "stays" if answer.left == 1 else "stay"
        which = f": {joined([shown(path) for path in answer.left_paths], MOST_SAID)}" if answer.left_paths else ""
        said.append(f"- {answer.left:,} of {answer.bad:,} {stay} unexplained{which}")
    return said


def _sentence(one: Cause, what: str, left: int, *, is_first: bool) -> str:
    """One cause; what those before it explain is not counted again."""
    best = one.best
    together = [best, *(s for s in one.same if s.shared >= ALL)][:MOST_SAID]
    of = what if is_first else "that are left"
    whose = f"all {best.bad:,} {of}" if best.recall >= ALL else f"{best.bad:,} ({best.recall:.0%}) of the {left:,} {of}"
    return f"{whose} {joined(_predicates(together))}"


OPTIONS = ("SACK", "window scaling", "timestamps")
ENDS = ("client", "server", "sender", "receiver")


def _predicates(of: list[Separates]) -> list[str]:
    """What the cases do that have these: `lack SACK and window scaling`, `were made from SYN cookies`."""
    said: list[str] = []
    for verb, value in (("lack", "no"), ("have", "yes")):
        if options := [s.attribute for s in of if s.attribute in OPTIONS and s.value == value]:
            said.append(f"{verb} {joined(options)}")
    rest = []
    at_an_end = {s.value for s in of if s.attribute == "host at an end"}
    for s in of:
        place = s.attribute.removesuffix(" at an end")
        if s.attribute in OPTIONS or (s.attribute in ENDS and s.value in at_an_end):
            continue
        if s.attribute == "made from a SYN cookie":
            said.append("were made from SYN cookies" if s.value == "yes" else "were not made from SYN cookies")
        elif s.attribute == "server address":
            said.append(f"go to {shown(s.value)}")
        elif s.attribute == "backlog of the listener":
            said.append(f"came to listeners with backlog {shown(s.value)}")
        elif place != s.attribute:
            # An interface is said with its host.
            kind = "" if place in ("host", "interface") else f"{place} "
            said.append(f"have {kind}{shown(s.value)} at one end")
        else:
            rest.append(f"{shown(s.attribute)} {shown(s.value)}")
    return [*said, f"have {joined(rest)}"] if rest else said


def _numbers(s: Separates) -> str:
    return (
        f"precision {s.precision:.0%}, recall {s.recall:.0%}, lift {number(s.lift)},"
        f" support {s.support:,}, by chance {f'{s.chance:.1g}' if s.chance > 1e-99 else 'below 1e-99'}"
    )
