from __future__ import annotations

from service.ranking.common import SHARE, shares


def test_common_words_count_less_beside_others() -> None:
    assert shares(["why", "does", "the", "solver", "会"]) == [SHARE, SHARE, SHARE, 1.0, SHARE]


def test_common_words_alone_are_what_was_asked() -> None:
    assert shares(["what", "this"]) == [1.0, 1.0]
    assert shares([]) == []
