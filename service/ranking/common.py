"""Words that carry a question rather than its subject.

They are dropped from nothing: a query of `this` finds `this`. Beside words that say more they only
weigh less, so that a chatty question ranks by its subject. An index's own frequencies tell a
common word too, but not in a small index, and not `something` from a rare subject in a large one.
"""

from __future__ import annotations

from collections.abc import Collection

#: What a common word counts beside others.
SHARE = 0.2
#: What a pair of characters counts beside the others of its run: a common word, or kana that
#: are grammar; the last of a Korean word, which is its ending; kana behind something else.
GRAMMAR_SHARE = 0.3
PARTICLE_SHARE = 0.5
ENDING_SHARE = 0.7

_ENGLISH = """
a about actually after again all also am an and any anybody anyone anything are around as ask at
be because been before being but by can cannot could did do does doing done dont each else ever
every everything exactly few find for from get give go got had has have having he hello help her
here hey hi him his how i if im in into is it its ive just kind know let like look looking lot
maybe me mean more most much must my need needs no not now of off ok okay on one only or other our
out over please put really remember remind right said same say see seen she should show so some
somebody someone something sometimes somewhere sort still such sure tell than thank thanks that
the their them then there these they thing things think this those through time to too told try up
us use used very want wanted was we well went were what whats when where which while who whom whose
why will with wondering would wrote yeah yes yet you your
"""
_CHINESE = """
的 了 吗 呢 吧 啊 是 在 有 和 与 或 我 你 他 她 它 我们 你们 他们 这 那 这个 那个 什么 为什么
怎么 怎样 如何 哪 哪个 哪些 哪里 谁 多少 几 会 能 可以 要 想 请 请问 一下 关于 有没有 是不是
為什麼 怎麼 嗎 哪裡 誰 什麼 這個 那個 這 會
"""
_JAPANESE = """
の は が を に で と も か や へ から まで より です ます する した して ください これ それ
あれ この その どう どの どれ どこ なぜ いつ 何 誰 ですか ますか とは について
"""
_KOREAN = """
은 는 이 가 을 를 에 에서 로 으로 와 과 도 의 무엇 왜 어떻게 어디 언제 누가 어떤 좀
것 수 있는 하는
"""

COMMON = frozenset(f"{_ENGLISH} {_CHINESE} {_JAPANESE} {_KOREAN}".split())


def shares(words: Collection[str]) -> list[float]:
    """What each word of a query counts: 1, or `SHARE` for a common one beside others."""
    if all(word in COMMON for word in words):
        return [1.0] * len(words)
    return [SHARE if word in COMMON else 1.0 for word in words]


def part_share(part: str, *, is_last: bool = False) -> float:
    """What a part of a word counts beside the others.

    Japanese writes its subjects in kanji and katakana and its grammar in hiragana; and what makes
    a question (`ですか`, `のは`) is rare in texts, which seldom ask, so rarity alone misleads. A
    Korean word ends in what changes from sentence to sentence (`기타를`, `기타가`).

    Args:
        part: a term of the `sub` stream.
        is_last: other parts of its word stand before it, none behind it.
    """
    if part.isascii():
        return 1.0
    first, last = ("\u3041" <= letter <= "\u309f" for letter in (part[0], part[-1]))
    if part in COMMON or (first and last):
        return GRAMMAR_SHARE
    if is_last and is_hangul(part[-1]):
        return PARTICLE_SHARE
    return ENDING_SHARE if last else 1.0


def is_hangul(letter: str) -> bool:
    """Whether a character is a Hangul syllable."""
    return "\uac00" <= letter <= "\ud7a3"
