from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.errors import InvalidCursor
from service.ranking import lanes, scoring
from tests.search.world import World


def test_the_best_hit_explains_itself(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "a", "title": "Gateway retries", "note": "The gateway retries three times."},
            {"ref": "b", "title": "Other", "note": "A gateway, in passing, among many words."},
            {"ref": "c", "title": "Holiday plans"},
        ],
    )
    result = world.search("gateway retries", explain=True)
    assert [hit.ref for hit in result.hits] == ["a", "b"]
    best = result.hits[0]
    assert set(best.components) == set(scoring.WEIGHTS)
    assert all(0 <= value <= 1 for hit in result.hits for value in hit.components.values())
    assert best.score == pytest.approx(
        sum(scoring.WEIGHTS[name] * value for name, value in best.components.items()), abs=1e-3
    )
    marked = [best.snippet[start:end].lower() for start, end in best.marks]
    assert marked == ["gateway", "retries"]
    assert best.tokens > 0
    assert result.explain is not None
    assert result.explain["strict"] == 1


def test_a_query_of_filters_alone_gives_the_newest_first(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": str(n), "title": "t", "updated_at": n} for n in range(5)])
    world.add({"ref": "x", "title": "t", "kind": "task", "updated_at": 9})
    assert world.refs("kind:note") == ["4", "3", "2", "1", "0"]
    assert world.refs("", kinds=("task",)) == ["x"]
    assert world.refs("") == []
    assert world.refs("***") == []


def test_scope_is_inside_the_lanes(tmp_path: Path) -> None:
    """The mistake of others: a filter after the cut finds nothing behind better hits."""
    many = lanes.TIER * 4 + 100
    world = World(
        tmp_path, [{"ref": f"s{n}", "title": "falcon", "kind": "session"} for n in range(many)]
    )
    world.add({"ref": "m", "kind": "memory", "note": "falcon " + "word " * 300, "updated_at": 7})
    assert world.refs("falcon", kinds=("memory",)) == ["m"]
    assert world.refs("falcon kind:memory") == ["m"]
    assert world.refs("falcon", updated_after_ms=7) == ["m"]
    assert world.refs("falcon", refs=("m",)) == ["m"]
    assert world.refs("falcon", updated_after_ms=8) == []


def test_quotes_require_and_minus_excludes(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "a", "title": "event operator design"},
            {"ref": "b", "title": "operator of the event"},
            {"ref": "c", "title": "AcmeEventOperator"},
        ],
    )
    assert set(world.refs('"event operator"')) == {"a", "c"}
    assert set(world.refs("operator event -design")) == {"b", "c"}
    assert world.refs('operator -"event operator"') == ["b"]


def test_a_phrase_that_nobody_wrote_is_read_as_words_and_said_to_be(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "a", "title": "the gateway retries twice"},
            {"ref": "b", "title": "twice the gateway"},
            {"ref": "c", "title": "nothing of the kind"},
        ],
    )
    found = world.search('"retries gateway twice" -kind')
    assert [hit.ref for hit in found.hits] == ["a", "b"]
    assert (found.read_as["phrases"], found.read_as["phrases_nowhere"]) == (
        [],
        ["retries gateway twice"],
    )
    found = world.search('"gateway retries"')
    assert [hit.ref for hit in found.hits] == ["a"]
    assert (found.read_as["phrases"], found.read_as["phrases_nowhere"]) == (["gateway retries"], [])


def test_an_excluded_word_excludes_identifier_hits_too(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "a", "title": "first", "identifiers": ("OPS-2041",)},
            {"ref": "b", "title": "second", "identifiers": ("OPS-2041",)},
        ],
    )
    assert set(world.refs("OPS-2041")) == {"a", "b"}
    assert world.refs("OPS-2041 -second") == ["a"]
    assert world.refs("OPS-2041", kinds=("task",)) == []


def test_own_ref_beats_prose_that_quotes_it_in_any_case(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "prose", "title": "ops-2041 ops-2041", "note": "OPS-2041 " * 20},
            {"ref": "OPS-2041", "title": "The ticket itself"},
        ],
    )
    for q in ("OPS-2041", "ops-2041", "ＯＰＳ-2041"):
        assert world.refs(q)[0] == "OPS-2041"


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_neither_repeat_nor_drop(tmp_path: Path, limit: int) -> None:
    many = lanes.TIER + 60
    world = World(
        tmp_path,
        [{"ref": str(n), "title": "common " + "x " * (n % 7), "note": "w"} for n in range(many)],
    )
    seen: list[str] = []
    cursor = None
    for _ in range(many):
        page = world.search("common", limit=limit, cursor=cursor)
        seen += [hit.ref for hit in page.hits]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == many
    assert seen == [ref for n in range(1, 3) for ref in seen[(n - 1) * lanes.TIER : n * lanes.TIER]]


def test_a_cursor_of_another_query_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": str(n), "title": "common"} for n in range(5)])
    cursor = world.search("common", limit=2).cursor
    assert cursor is not None
    with pytest.raises(InvalidCursor, match="another query"):
        world.search("other", cursor=cursor)
    for bad in ("", "!!", "é", "bnVsbA", cursor[:-4]):
        with pytest.raises(InvalidCursor):
            world.search("common", cursor=bad)


@pytest.mark.parametrize(
    ("q", "way"),
    [
        ("gatway", "typo"),
        ("kuberne", "prefix"),
        ("retrying", "inflection"),
        ("dock hub", "compound"),
        ("timeouthandling", "compound"),
    ],
)
def test_forgiveness_finds_and_scores_below_what_was_typed(
    tmp_path: Path, q: str, way: str
) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "typo", "title": "gateway"},
            {"ref": "prefix", "title": "kubernetes"},
            {"ref": "inflection", "title": "retry"},
            {"ref": "compound", "title": "dockhub timeout handling"},
        ],
    )
    result = world.search(q, explain=True)
    assert [hit.ref for hit in result.hits] == [way]
    assert result.hits[0].components["coverage"] < 1
    assert result.explain is not None
    assert way in {lookup["way"] for lookup in result.explain["lookups"]}


@pytest.mark.parametrize("q", ["2001", "cr-12346", "v23", "1.2.4"])
def test_numbers_and_identifiers_are_never_bent(tmp_path: Path, q: str) -> None:
    world = World(tmp_path, [{"ref": "a", "title": "2000 CR-12345 v24 1.2.3"}])
    if "-" in q or "." in q or q == "v23":
        hits = world.search(q).hits
        assert all(hit.components["coverage"] < 1 for hit in hits)
    else:
        assert world.refs(q) == []


def test_a_single_character_is_found_anywhere_in_a_run(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": "a", "note": "失败后自动重试三次"}])
    for character in "失败后自动重试三次":
        assert world.refs(character) == ["a"]


def test_a_missing_word_does_not_empty_the_answer(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": "a", "title": "Retries use backoff"}, {"ref": "b"}])
    assert world.refs("why do our retries use exponential backoff?") == ["a"]


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(q=st.text(max_size=60) | st.text(alphabet="abAND OR NOT\"()*:-^{}+'\\%_;.", max_size=40))
def test_no_query_raises(tmp_path_factory: pytest.TempPathFactory, q: str) -> None:
    world = _shared(tmp_path_factory)
    world.search(q, explain=True)


@settings(max_examples=200, deadline=None)
@given(text=st.text(min_size=1, max_size=40))
def test_a_text_finds_itself(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    world = _shared(tmp_path_factory)
    clean = text.replace("\0", "")
    world.add({"ref": "self", "title": "", "note": clean})
    result = world.search(clean)
    if result.read_as["terms"] and not result.read_as["excluded"] and not result.read_as["kinds"]:
        assert "self" in [hit.ref for hit in result.hits]


_worlds: dict[int, World] = {}


def _shared(factory: pytest.TempPathFactory) -> World:
    if id(factory) not in _worlds:
        documents = [{"ref": str(n), "title": f"word{n} common 重试{n}"} for n in range(20)]
        _worlds[id(factory)] = World(factory.mktemp("shared"), documents)
    return _worlds[id(factory)]


def test_a_long_paste_is_about_its_rare_words(tmp_path: Path) -> None:
    filler = [f"word{n}" for n in range(60)]
    world = World(
        tmp_path,
        [{"ref": f"f{n}", "note": " ".join(filler)} for n in range(300)]
        + [{"ref": "rare", "note": "the cassowary incident"}],
    )
    result = world.search(" ".join([*filler[:30], "cassowary", *filler[30:]]))
    assert result.hits[0].ref == "rare"
    assert "cassowary" not in result.read_as["dropped"]
    assert len(result.read_as["dropped"]) == 61 - 12  # of two parts each
