"""Hostile queries are as long and as common as they say, and the same for the same corpus."""

from __future__ import annotations

from golden import heavy
from golden.answers import Answer, Backend
from golden.lexicon import Document

DOCUMENTS = [
    Document("note", str(number), "the depot" if number % 2 else "the", f"rare{number}", ())
    for number in range(40)
]


def test_loads_have_their_lengths() -> None:
    made = heavy.loads(DOCUMENTS, queries=5)
    assert {name: len(queries) for name, queries in made.items()} == {
        "words-200": 5,
        "common-1": 5,
        "common-30": 5,
    }
    assert {len(query.split()) for query in made["words-200"]} == {200}
    assert {len(set(query.split())) for query in made["common-30"]} == {30}
    assert made == heavy.loads(DOCUMENTS, queries=5)


def test_common_words_are_those_of_most_documents() -> None:
    assert heavy.loads(DOCUMENTS, queries=2)["common-1"] == ["the", "depot"]


def test_long_queries_mix_common_and_rare_words() -> None:
    words = heavy.loads(DOCUMENTS, queries=1)["words-200"][0].split()
    assert words.count("the") > 20
    assert len(set(words)) > 30


class Clocked:
    """Every search costs as many ms as it has words."""

    def search(self, query: str, limit: int, **_: object) -> Answer:
        return Answer([], cpu_ms=float(len(query.split())))

    def __enter__(self) -> Clocked:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_each_load_has_its_own_percentiles() -> None:
    backend: Backend = Clocked()
    report = heavy.run(backend, {"one": ["a", "b", "c"], "two": ["a b"]})
    assert report["loads"] == {
        "one": {"queries": 3, "cpu_ms": {"p50": 1.0, "p90": 1.0, "p99": 1.0}},
        "two": {"queries": 1, "cpu_ms": {"p50": 2.0, "p90": 2.0, "p99": 2.0}},
    }
