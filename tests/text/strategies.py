"""Texts as they come, and as nobody would write them."""

from __future__ import annotations

from hypothesis import strategies as st

#: Pieces whose neighbours matter: case, joiners, signs, marks, scripts, invisible characters.
PIECES = [
    *"aabBcCsStv12 -_.'+#@/\n\"(",
    *("The", "don't", "user's", ".net", ".NET", "C++", "C#", "v1.2", "API", "APIs", "getHTTPCode"),
    *(
        "é",
        "e\u0301",
        "か",
        "か\u3099",
        "ｶ",
        "ﾞ",
        "修",
        "复",
        "々",
        "ー",
        "𠮷",
        "한",
        "각",
        "ก",
        "ำ",
    ),
    *(
        "ि",
        "ह",
        "ё",
        "й",
        "\u0438\u0306",
        "أ",
        "\u064b",
        "İ",
        "ß",
        "ẞ",
        "Ａ",
        "．",
        "－",
        "²",
        "㍿",
    ),
    *(
        "\u200b",
        "\ufe0f",
        "\u00ad",
        "\u200d",
        "😀",
        "🇩",
        "🇪",
        "👍🏽",
        "，",
        "。",
        "—",
        "’",
        "ﬁ",
        "\x00",
    ),
    *(
        "\ud800",
        "\u1100",
        "\u1161",
        "\u11a8",
        "\u0338",
        "\u0345",
        "ǅ",
        "\u00a0",
        "x" * 300,
        "漢" * 300,
    ),
]
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=16).map("".join),
    st.text(max_size=40),
)
