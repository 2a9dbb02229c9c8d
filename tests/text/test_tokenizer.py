"""The tokenizer: pinned streams, what users type and expect to find, hostile input."""

from __future__ import annotations

import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.text import index_columns, tokenize
from service.text import tokenizer as module
from service.text.scan import TOKEN_CHARS
from tests.text.strategies import texts


def found_by(text: str, query: str) -> bool:
    """Whether every token of the query, or all its parts, are tokens of the text."""
    have = tokenize(text)
    known = {*have.orig, *have.sub, *have.edge}
    wanted = tokenize(query)
    whole = all(token in known for token in wanted.orig)
    return bool(wanted.orig) and (whole or (bool(wanted.sub) and known.issuperset(wanted.sub)))


@pytest.mark.parametrize(
    ("text", "orig", "sub"),
    [
        ("AcmeEventOperator", "acmeeventoperator", "acme event operator"),
        ("acme-gateway-dev", "acme-gateway-dev", "acme gateway dev"),
        ("修复EventOperator的bug", "修复 eventoperator 的 bug", "修复 event operator 的"),
        ("CR-291543784", "cr-291543784", "cr 291543784"),
        ("getHTTPResponseCode", "gethttpresponsecode", "get http response code"),
        ("要重试3次 timeout", "要重试 3 次 timeout", "要重 重试 次"),
    ],
)
def test_the_pinned_streams(text: str, orig: str, sub: str) -> None:
    streams = tokenize(text)
    assert (streams.orig, streams.sub) == (orig.split(), sub.split())


@pytest.mark.parametrize(
    ("text", "orig", "sub", "edge"),
    [
        # words
        ("plain Words HERE", "plain words here", "", ""),
        ("The end. Next", "the end next", "", ""),
        (
            "snake_case __init__ self._conn",
            "snake_case init self._conn",
            "snake case self conn",
            "",
        ),
        ("a--b ... - -- .", "a b", "", ""),
        ("DeLonghi iOS", "delonghi ios", "de longhi i os", ""),
        ("APIs and PRs", "apis and prs", "", ""),
        ("utf8 dev33", "utf8 dev33", "utf 8 dev 33", ""),
        ("aafa79ac07f5 e2e", "aafa79ac07f5 e2e", "", ""),
        ("user's don't we'll", "user don't we'll", "", "users dont don well we"),
        ("l'avion f'abc'", "l avion f abc", "", ""),
        # names made of signs
        ("C++ C# F# C g++", "c++ c# f# c g++", "", ""),
        ("i++ a+b notepad++", "i a b notepad", "", "i++ notepad++"),
        (".NET asp.net", ".net asp.net", "asp net", "net"),
        ("rm -rf --force x-y", "rm rf force x-y", "x y", "-rf --force"),
        ("@acme/core #17089 PR#12", "acme core 17089 pr 12", "", "@acme #17089 #12"),
        (".gitignore", "gitignore", "", ".gitignore"),
        ("v1.2.3 20.04", "v1.2.3 20.04", "v 1 2 3 20 04", "1.2.3"),
        ("docs/api/auth.md", "docs api auth.md", "auth md", ""),
        ("me@mail.example", "me mail.example", "mail example", ""),
        ("https://a.io/x?y=1", "https a.io x y 1", "a io", ""),
        # scripts
        ("次", "次", "次", ""),
        ("人々 サーバー ヶ月", "人々 サーバー ヶ月", "人々 サー ーバ バー ヶ月", "々 ー 月"),
        ("𠮷野家", "𠮷野家", "𠮷野 野家", "家"),
        ("테스트가", "테스트가", "테스 스트 트가", "가"),
        ("ใจดี", "ใจดี", "ใจ จด ดี", "ี"),
        ("हिन्दी में", "हिन्दी में", "", ""),
        ("ｱﾌﾟﾘ ＡＰＩ ﬁx ２０", "アプリ api fix 20", "アプ プリ", "リ"),
        ("Café İstanbul straße Łódź", "cafe istanbul strasse lodz", "", ""),
        ("ёж й", "еж й", "", ""),
        ("かが", "かが", "かが", "が"),
        ("🍭👍🏽 ❤️ 🇩🇪🇫🇷", "🍭 👍 ❤ 🇩🇪 🇫🇷", "", ""),
        ("zero\u200bwidth so\u00adft", "zerowidth soft", "", ""),
        ("“quoted” — ‘so’ it’s", "quoted so it", "", "its"),
        ("Foo™ 5€ → x", "foo 5 x", "", ""),
    ],
)
def test_what_a_text_is_cut_into(text: str, orig: str, sub: str, edge: str) -> None:
    streams = tokenize(text)
    assert streams.orig == orig.split()
    assert streams.sub == sub.split()
    assert sorted(streams.edge) == sorted(edge.split())


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("The AcmeEventOperator watch cache", "event operator|acmeeventoperator"),
        ("Blocked by CR-291543784 since Monday", "CR-291543784|291543784"),
        ("失败后自动重试三次", "自动重试"),
        ("本季度合同续签由法务负责", "合同续签|续签|法务"),
        ("重跑gen-itgc后50条悬空引用", "itgc|gen-itgc|悬空|50"),
        ("DeLonghi descaling", "delonghi|longhi"),
        ("getUserById returns null", "getuserbyid|user by id"),
        ("Theme-Amoled Theme_Test stat_crm_data", "amoled|test|crm"),
        ("appTableRecord XMLParser", "table record|xml|parser"),
        ("POL-358 approved, don't upgrade to 20.04 yet", "POL-358|don't|dont|20.04"),
        ("Bump @acme/core, see docs/api/auth.md first", "@acme/core|docs/api/auth.md"),
        ("call resolveTaxRateForOrder before checkout", "tax rate|resolve tax"),
        ("Never use rm -rf on shared disks", "rm -rf|rf"),
        ("the C++ build is slow", "C++"),
        ("C# client port", "C#"),
        ("for this in classes: yield this", "this|classes|for"),
        ("发布 MP 3.0 超级棒棒糖 🍭 贝塔", "🍭|3.0"),
        ("ＣＲ－２９１ ＡＣＭＥ", "cr-291|acme"),
    ],
)
def test_public_reports_that_the_tokenizer_decides(text: str, queries: str) -> None:
    missed = [query for query in queries.split("|") if not found_by(text, query)]
    assert missed == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("learning C on weekends", "C++"),
        ("learning C on weekends", "C#"),
        ("the C++ build", "C"),
        ("see CR-291543785", "CR-291543784"),
        ("Plans for 2000", "2001"),
        ("か", "が"),
    ],
)
def test_neighbours_stay_apart(text: str, query: str) -> None:
    assert not found_by(text, query)


def test_one_character_is_found_anywhere_in_a_run() -> None:
    streams = tokenize("自动重试")
    for char in "自动重试":  # the engine looks for `c*`
        assert any(token.startswith(char) for token in streams.sub + streams.edge), char


def test_the_flag_tells_its_document_from_the_words() -> None:
    assert "-rf" in tokenize("rm -rf").edge
    assert "-rf" not in tokenize("rm rf").edge


@pytest.mark.parametrize("query", ["", "*", "(((", "-", "--", "'", "^", "\x00", " \n ", "\ud800"])
def test_nothing_to_find_is_no_error(query: str) -> None:
    assert tokenize(query).orig == []
    assert index_columns(query)[0].split() == []


def test_a_long_word_is_cut_and_finds_itself() -> None:
    blob = "aB3" * TOKEN_CHARS
    streams = tokenize(f"key {blob} end")
    assert all(len(token) <= TOKEN_CHARS for token in streams.orig)
    assert "".join(streams.orig) == f"key{blob.lower()}end"
    assert streams.sub == []
    assert set(tokenize(blob).orig) <= set(streams.orig)


def test_a_long_path_of_words_keeps_its_words() -> None:
    streams = tokenize("-".join(["alpha", "beta"] * 100))
    assert {"alpha", "beta"} <= set(streams.edge)


def test_a_long_run_keeps_its_order_in_bigrams() -> None:
    run = "".join(chr(0x4E00 + at) for at in range(3 * TOKEN_CHARS))
    streams = tokenize(run)
    assert streams.sub == [run[at : at + 2] for at in range(len(run) - 1)]
    assert "".join(streams.orig) == run


@given(texts)
def test_columns_hold_the_streams(text: str) -> None:
    streams = tokenize(text)
    orig, rest = index_columns(text)
    assert orig.split() == streams.orig
    assert not set(orig + rest) & set("\n\t\r\x00")
    assert rest.split() == streams.sub + streams.edge


@given(st.lists(texts, max_size=4), st.sampled_from([" ", "\n", "\u3000", "，", "/"]))
def test_a_text_finds_itself(words: list[str], between: str) -> None:
    whole = tokenize(between.join(words))
    for word in words:
        alone = tokenize(word)
        assert set(alone.orig) <= set(whole.orig)
        assert set(alone.sub) <= set(whole.sub)
        assert set(alone.edge) <= set(whole.edge)


@given(texts)
def test_composed_and_decomposed_are_one(text: str) -> None:
    streams = tokenize(text)
    assert tokenize(unicodedata.normalize("NFD", text)) == streams
    assert tokenize(unicodedata.normalize("NFC", text)) == streams


@given(texts)
def test_a_token_is_a_word(text: str) -> None:
    for token in tokenize(text).orig:
        assert tokenize(token).orig == [token]


@given(st.text(st.characters(max_codepoint=0x24F), max_size=20))
def test_case_does_not_matter(text: str) -> None:
    assert tokenize(text.upper()).orig == tokenize(text.lower()).orig


def test_every_character_of_unicode_is_harmless() -> None:
    everything = "".join(map(chr, range(0x110000)))
    spread = " x".join(map(chr, range(0, 0x110000, 7)))
    for text in (everything, spread):
        assert all(0 < len(token) <= TOKEN_CHARS for token in tokenize(text).orig)


def test_what_is_remembered_is_bounded() -> None:
    module._memo.clear()
    for start in range(0, 3 * module.MEMO_CHUNKS, 10_000):
        index_columns(" ".join(f"a{number}b" for number in range(start, start + 10_000)))
        assert len(module._memo) <= module.MEMO_CHUNKS
    index_columns("x1" * 1000 + " y1")
    assert max(map(len, module._memo)) <= module.MEMO_CHUNK_BYTES
    assert b"y1" in module._memo


def test_threads_share_what_is_remembered() -> None:
    words = [f"a{number}Bx 修{chr(0x4E00 + number % 20_000)}Z" for number in range(40_000)]
    text = " ".join(words)
    expected = index_columns(text)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(index_columns, [text] * 8))
    assert answers == [expected] * 8


HOSTILE = (
    *("a", "A", "-", "_", "a-", "a_._", "aA", "a1", ".", "'", "a'", "+", "a+", "#1", " ", "a.B1_"),
    *("\u0301", "\u0301\u0316", "a\u0301", "ि", "漢", "한", "\u1100", "ก", "ั", "😀", "🇩"),
    *("\u200b", "，", "漢，", "𠮷", "ｶﾞ", "Ａ", "İ", "’s", "\x00"),
)


@pytest.mark.parametrize("piece", HOSTILE, ids=ascii)
def test_hostile_input_costs_linear_time_and_space(piece: str) -> None:
    def cost(size: int) -> tuple[float, int]:
        text = piece * (size // len(piece))
        took = []
        for _ in range(2):
            begun = time.process_time()
            columns = index_columns(text)
            took.append(time.process_time() - begun)
        return min(took), sum(map(len, columns))

    small, small_size = cost(40_000)
    large, large_size = cost(320_000)
    assert large_size <= 9 * small_size + 100
    # 8 times the text: 8 times the time, where a quadratic step would take 64 times
    assert large <= 24 * max(small, 0.001)


@settings(max_examples=20, deadline=None)
@given(st.text(st.sampled_from("aA1-_.'+#@ 漢ｶﾞ\u0301😀"), min_size=1, max_size=6))
def test_any_repetition_is_linear_in_space(piece: str) -> None:
    text = piece * (20_000 // len(piece))
    streams = tokenize(text)
    assert sum(map(len, streams.orig)) <= 2 * len(text)
    assert len(streams.sub) + len(streams.edge) <= 4 * len(text)
