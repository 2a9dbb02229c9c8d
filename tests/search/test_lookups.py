from __future__ import annotations

from pathlib import Path

import pytest

from tests.search.world import World


@pytest.mark.parametrize(
    ("q", "ways"),
    [
        ("gateway", {("gateway", "exact"), ("gateways", "inflection")}),
        ("gatewya", {("gateway", "typo")}),
        ("agteway", {("gateway", "typo")}),
        ("gatewa", {("gateway", "prefix"), ("gateways", "prefix")}),
        ("dock hub", {("dockhub", "compound")}),
        ("OPS-2041", {("ops-2041", "exact"), ("2041", "part")}),
        ("ops 2042", {("ops", "exact")}),
    ],
)
def test_what_is_looked_up_for_a_word(tmp_path: Path, q: str, ways: set[tuple[str, str]]) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "a", "title": "gateway gateways dockhub OPS-2041"},
            {"ref": "b", "title": "tulip"},
        ],
    )
    explained = world.search(q, explain=True).explain
    assert explained is not None
    assert {(found["term"], found["way"]) for found in explained["lookups"]} == ways


def test_common_words_are_not_bent_beside_others(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": "a", "title": "the thing about gateways, where and why"}])
    explained = world.search("where is the gateway", explain=True).explain
    assert explained is not None
    bent = {found["term"] for found in explained["lookups"] if found["way"] != "exact"}
    assert bent == {"gateways"}


def test_an_ideograph_of_no_known_pair_is_looked_up_alone(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [{"ref": "fish", "title": "䲟"}, {"ref": "other", "title": "又叫做什么名字"}],
    )
    result = world.search("䲟又叫", explain=True)
    assert result.explain is not None
    found = {lookup["term"] for lookup in result.explain["lookups"]}
    assert found == {"䲟", "又叫"}
    assert {hit.ref for hit in result.hits} == {"fish", "other"}


def test_a_korean_word_is_found_by_its_stem_before_its_ending(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [{"ref": "ending", "title": "노래를"}, {"ref": "stem", "title": "기타가"}],
    )
    assert world.refs("기타를 잡고")[0] == "stem"
    assert world.refs("기타를")[0] == "stem"


def test_a_korean_noun_of_one_syllable_is_found_with_any_particle(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "typed", "title": "개가 달린다"},
            {"ref": "object", "title": "개를 본다"},
            {"ref": "bare", "title": "해변의 개"},
            {"ref": "other", "title": "개념"},
        ],
    )
    assert world.refs("개가")[0] == "typed"
    assert set(world.refs("개가")) == {"typed", "object", "bare"}
    assert world.refs("개는 본다")[0] == "object"
