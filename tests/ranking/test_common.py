from __future__ import annotations

import pytest

from service.ranking.common import PARTICLE_SHARE, SHARE, part_share, shares


def test_common_words_count_less_beside_others() -> None:
    assert shares(["why", "does", "the", "solver", "会"]) == [SHARE, SHARE, SHARE, 1.0, SHARE]


def test_common_words_alone_are_what_was_asked() -> None:
    assert shares(["what", "this"]) == [1.0, 1.0]
    assert shares([]) == []


@pytest.mark.parametrize(
    ("part", "share"),
    [
        ("です", 0.3),
        ("のは", 0.3),
        ("什么", 0.3),
        ("索引", 1.0),
        ("検索", 1.0),
        ("を検", 1.0),
        ("索を", 0.7),
        ("retry", 1.0),
    ],
)
def test_grammar_counts_less_than_its_subject(part: str, share: float) -> None:
    assert part_share(part) == share


def test_only_a_korean_words_last_pair_is_its_ending() -> None:
    assert part_share("타를") == 1.0
    assert part_share("타를", is_last=True) == PARTICLE_SHARE
    assert part_share("東京", is_last=True) == 1.0
