"""Robustness: titles and bodies, rewritten as people type them, must still find their document.

A probe is a rewritten need and the one document it came from. The words before the rewrite stand
together in at most `RIVALS` documents and no other document has the same title, so that a place
among the first eight can be had; everything is chosen from a seed.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from golden import metrics, rewrites
from golden.answers import Backend
from golden.lexicon import CJK_RUN, Document, Lexicon, words

DEPTH = 8
RIVALS = 5
"""Most documents, the wanted one included, that the untouched words may match."""
WORDS_MOST = 4
COMPANIONS = 1
"""Most right words beside a misspelt one: with more, they would find the document without it."""
SEED = 20_260_101
PER_CLASS = 100
VERSION = re.compile(r"(?<![\w.])v?\d+\.\d+(?:\.\d+)*(?![\w.])")
_IDENTIFIER = re.compile(r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Probe:
    """One rewritten need and the document that must come."""

    family: str
    query: str
    kind: str
    ref: str


@dataclass(frozen=True, slots=True)
class _Need:
    """A document, words of its title that point at it, and the chance to rewrite them with."""

    document: Document
    lexicon: Lexicon
    words: tuple[str, ...]
    rng: random.Random

    def rarest(self, *, letters: int) -> str | None:
        """The rarest plain word of at least so many letters."""
        plain = [w for w in self.words if len(w) >= letters and rewrites.is_plain(w)]
        return min(plain, key=self.lexicon.frequency, default=None)

    def only(self, word: str) -> _Need | None:
        """The need cut down to a word and its most telling companion, so that the word counts.

        None when the few words left match more documents than a page could show.
        """
        others = sorted((w for w in self.words if w != word), key=self.lexicon.frequency)
        kept = {word, *others[:COMPANIONS]}
        few = tuple(w for w in self.words if w in kept)
        return replace(self, words=few) if self.lexicon.holders(few) <= RIVALS else None

    def with_word(self, old: str, new: str | None) -> str | None:
        """The words with one replaced; None when there is nothing new or it is a real word."""
        if new is None or self.lexicon.frequency(new):
            return None
        return " ".join(new if word == old else word for word in self.words)

    def neighbours(self) -> tuple[str, str] | None:
        """Two plain words that stand side by side in the title and are both in the need."""
        title = words(self.document.title)
        pairs = [
            (a, b)
            for a, b in itertools.pairwise(title)
            if a != b
            and {a, b} <= set(self.words)
            and all(map(rewrites.is_plain, (a, b)))
            and min(len(a), len(b)) >= 3
        ]
        return self.rng.choice(pairs) if pairs else None


Rewrite = Callable[[_Need], str | None]


def _changed(letters: int, change: Callable[[str, random.Random], str | None]) -> Rewrite:
    def rewrite(need: _Need) -> str | None:
        word = need.rarest(letters=letters)
        few = need.only(word) if word else None
        return few.with_word(word, change(word, few.rng)) if word and few else None

    return rewrite


def _joined(glue: str) -> Rewrite:
    def rewrite(need: _Need) -> str | None:
        pair = need.neighbours()
        if pair is None:
            return None
        one = need.with_word(pair[0], glue.join(pair))
        return None if one is None else " ".join(w for w in one.split() if w != pair[1])

    return rewrite


def _prefix(need: _Need) -> str | None:
    word = need.rarest(letters=7)
    head = rewrites.prefix(word) if word else None
    return head if head and need.lexicon.prefix_holders(head) <= RIVALS else None


def _unfinished(need: _Need) -> str | None:
    last = need.words[-1]
    if len(last) < 6 or not rewrites.is_plain(last) or len(need.words) < 2:
        return None
    return need.with_word(last, rewrites.unfinished(last, need.rng))


def _split(need: _Need) -> str | None:
    compounds = [w for w in need.words if len(rewrites.humps(w)) > 1 and w.isascii()]
    if not compounds:
        return None
    word = need.rng.choice(compounds)
    return need.with_word(word, " ".join(rewrites.humps(word)).lower())


def _reorder(need: _Need) -> str | None:
    shuffled = rewrites.reorder(list(need.words), need.rng)
    return None if shuffled is None else " ".join(shuffled)


def _single_rarest(need: _Need) -> str | None:
    rarest = min(need.words, key=need.lexicon.frequency)
    return rarest if need.lexicon.frequency(rarest) <= RIVALS else None


def _title_head(need: _Need) -> str | None:
    head = words(need.document.title)[:WORDS_MOST]
    return " ".join(head) if 0 < need.lexicon.holders(head) <= RIVALS else None


def _body_words(need: _Need) -> str | None:
    title = {word.casefold() for word in words(need.document.title)}
    body = list(dict.fromkeys(words(need.document.body)))
    body = [w for w in body if rewrites.is_plain(w) and len(w) > 3 and w.casefold() not in title]
    rare = sorted(body, key=need.lexicon.frequency)[:12]
    if len(rare) < 3:
        return None
    chosen = set(need.rng.sample(rare, 3))
    if need.lexicon.holders(chosen) > RIVALS:
        return None
    return " ".join(word for word in body if word in chosen)


def _identifiers(need: _Need) -> list[str]:
    """Identifiers of the document, in its list or its title, that few documents hold."""
    held = [*need.document.identifiers, *words(need.document.title)]
    return [
        word
        for word in dict.fromkeys(held)
        if _IDENTIFIER.fullmatch(word)
        and not rewrites.is_plain(word)
        and len(word) >= 5
        and need.lexicon.frequency(word) <= RIVALS
    ]


def _identifier(need: _Need) -> str | None:
    found = _identifiers(need)
    return need.rng.choice(found) if found else None


def _identifier_prefix(need: _Need) -> str | None:
    heads = [word[: max(6, len(word) * 3 // 5)] for word in _identifiers(need) if len(word) >= 9]
    heads = [h for h in heads if h[-1].isalnum() and need.lexicon.prefix_holders(h) <= RIVALS]
    return need.rng.choice(heads) if heads else None


def _version(need: _Need) -> str | None:
    found = VERSION.findall(need.document.title)
    if not found:
        return None
    other = rewrites.other_separators(found[0], need.rng)
    around = [word for word in need.words if word not in found[0]]
    return " ".join([*around[:2], other]) if around and other != found[0] else None


def _pieces(need: _Need, count: int, lengths: tuple[int, int]) -> list[str] | None:
    """Pieces of the title's CJK runs, in order, not overlapping, that few documents hold."""
    text = max(CJK_RUN.findall(need.document.title), key=len, default="")
    cut = []
    start = 0
    for left in range(count, 0, -1):
        length = need.rng.randint(*lengths)
        latest = len(text) - left * lengths[1]
        if latest < start:
            return None
        start = need.rng.randint(start, latest)
        cut.append(text[start : start + length])
        start += length
    held = need.lexicon.text_holders(cut, most=RIVALS)
    return cut if held <= RIVALS and len(set(cut)) == count else None


def _cjk_part(need: _Need) -> str | None:
    cut = _pieces(need, 1, (3, 6))
    return cut[0] if cut else None


def _cjk_reorder(need: _Need) -> str | None:
    cut = _pieces(need, 2, (2, 4))
    return cut[1] + cut[0] if cut else None


def _cjk_two_words(need: _Need) -> str | None:
    cut = _pieces(need, 2, (2, 4))
    return " ".join(cut) if cut else None


FAMILIES: dict[str, Rewrite] = {
    "control": lambda need: " ".join(need.words),
    "typo-1": _changed(5, lambda word, rng: rewrites.misspell(word, rng, edits=1)),
    "typo-2": _changed(8, lambda word, rng: rewrites.misspell(word, rng, edits=2)),
    "transposition": _changed(5, rewrites.transpose),
    "prefix": _prefix,
    "unfinished": _unfinished,
    "inflection": _changed(4, rewrites.inflect),
    "join": _joined(""),
    "split": _split,
    "hyphen": _joined("-"),
    "reorder": _reorder,
    "question": lambda need: rewrites.question(" ".join(need.words), need.rng),
    "chatty": lambda need: rewrites.chatty(" ".join(need.words), need.rng),
    "single-rarest": _single_rarest,
    "title-head": _title_head,
    "body-words": _body_words,
    "identifier": _identifier,
    "identifier-prefix": _identifier_prefix,
    "full-width": lambda need: rewrites.full_width(" ".join(need.words)),
    "case": lambda need: rewrites.other_case(" ".join(need.words)),
    "version": _version,
    "cjk-part": _cjk_part,
    "cjk-reorder": _cjk_reorder,
    "cjk-two-words": _cjk_two_words,
}


def probes(
    documents: Sequence[Document], *, seed: int = SEED, per_class: int = PER_CLASS
) -> Iterator[Probe]:
    """Up to `per_class` probes of each family, the same ones for the same corpus and seed.

    A document gives at most one probe a family; a family with fewer suitable documents is shorter.
    """
    lexicon = Lexicon(documents)
    order = [d for d in documents if lexicon.titles[d.title.casefold()] == 1]
    random.Random(seed).shuffle(order)  # noqa: S311  (chance, not secrets)
    left = dict.fromkeys(FAMILIES, per_class)
    for document in order:
        need_words = _need_words(document, lexicon)
        for family in [family for family in left if need_words]:
            rng = random.Random(f"{seed} {family} {document.kind} {document.ref}")  # noqa: S311
            query = FAMILIES[family](_Need(document, lexicon, need_words, rng))
            if query and (family == "control" or query != " ".join(need_words)):
                yield Probe(family, query, document.kind, document.ref)
                left[family] -= 1
                if not left[family]:
                    del left[family]
        if not left:
            return


def _need_words(document: Document, lexicon: Lexicon) -> tuple[str, ...]:
    """Up to `WORDS_MOST` of the title's words, the rarest ones, in the title's order."""
    title = [word for word in dict.fromkeys(words(document.title)) if len(word) > 1]
    rarest = set(sorted(title, key=lexicon.frequency)[:WORDS_MOST])
    chosen = tuple(word for word in title if word in rarest)
    return chosen if chosen and lexicon.holders(chosen) <= RIVALS else ()


def run(backend: Backend, chosen: Sequence[Probe]) -> dict[str, Any]:
    """Search every probe.

    Returns:
        `{"classes": {FAMILY: {"n", "at1", "at8", "mrr"}}, "misses": [{"family", "query", "wanted",
        "came"}]}`: shares in [0, 1] of probes whose document came first and among the first eight,
        and the mean reciprocal rank within eight.

    Raises:
        MemlaneError: a search failed.
    """
    ranks: dict[str, list[float]] = {}
    misses = []
    for probe in chosen:
        answer = backend.search(probe.query, DEPTH)
        found = [hit.name for hit in answer.hits]
        wanted = f"{probe.kind}:{probe.ref}"
        rank = found.index(wanted) + 1 if wanted in found else math.inf
        ranks.setdefault(probe.family, []).append(rank)
        if rank == math.inf:
            came = found[0] if found else None
            misses.append(
                {"family": probe.family, "query": probe.query, "wanted": wanted, "came": came}
            )
    return {
        "classes": {family: _shares(ranks[family]) for family in FAMILIES if family in ranks},
        "misses": misses,
    }


def _shares(ranks: Sequence[float]) -> dict[str, Any]:
    return {
        "n": len(ranks),
        "at1": round(metrics.mean([float(rank == 1) for rank in ranks]), 4),
        "at8": round(metrics.mean([float(rank <= DEPTH) for rank in ranks]), 4),
        "mrr": round(metrics.mean([1 / rank for rank in ranks]), 4),
    }
