"""Plain counting: words, parts, prefixes and pieces of a small corpus."""

from __future__ import annotations

from golden.lexicon import Document, Lexicon, document, words

DOCS = [
    Document("task", "a", "Depot-sync 修复索引", "window v2.3.0", ("HBL-7",)),
    Document("note", "b", "depot handbook", "索引 and Windows", ()),
]


def test_words_keep_inner_separators_and_cut_scripts_apart() -> None:
    assert words("修复EventOperator的 v2.3.0, depot-sync!") == [
        "修复",
        "EventOperator",
        "的",
        "v2.3.0",
        "depot-sync",
    ]


def test_frequencies_count_documents_and_parts_in_any_case() -> None:
    lexicon = Lexicon(DOCS)
    assert lexicon.frequency("DEPOT") == 2
    assert lexicon.frequency("depot-sync") == 1
    assert lexicon.frequency("hbl-7") == 1
    assert lexicon.frequency("absent") == 0


def test_holders_hold_all_the_words() -> None:
    lexicon = Lexicon(DOCS)
    assert lexicon.holders(["depot", "handbook"]) == 1
    assert lexicon.holders(["depot", "absent"]) == 0
    assert lexicon.holders([]) == 0


def test_prefixes_and_pieces() -> None:
    lexicon = Lexicon(DOCS)
    assert lexicon.prefix_holders("wind") == 2
    assert lexicon.prefix_holders("zz") == 0
    assert lexicon.text_holders(["索引"], most=5) == 2
    assert lexicon.text_holders(["索引"], most=0) == 1
    assert lexicon.text_holders(["复索", "depot"], most=5) == 1


def test_a_corpus_line_may_lack_fields() -> None:
    assert document(b'{"kind": "note", "ref": "x"}') == Document("note", "x", "", "\n\n", ())
