"""The token estimate stays near what real encodings count."""

from __future__ import annotations

import bpe_openai
import pytest
from hypothesis import given

from golden.cases import DEMO_CORPUS
from golden.judged import documents
from service.text import estimate_tokens
from service.text.tokens import bound_tokens
from tests.text.strategies import texts

#: text, tokens in cl100k_base, tokens in o200k_base
COUNTED = [
    (
        (
            "The retry policy of the gateway waits a little longer after "
            "each failed attempt, up to one minute, and then gives up with an error that names the "
            "last cause."
        ),
        33,
        33,
    ),
    ("网关在失败后自动重试三次，每次等待的时间更长，最后返回错误。", 26, 22),
    ("本季度合同续签由法务负责，请在周五之前提交。", 23, 16),
    ("ゲートウェイは失敗した後に三回まで自動的に再試行し、最後にエラーを返します。", 38, 30),
    ("게이트웨이는 실패한 뒤 세 번까지 자동으로 다시 시도하고 마지막에 오류를 반환합니다.", 39, 23),
    (
        (
            "def resolve_tax_rate(order: Order, *, country: str) -> Decimal:\n"
            "    return rates[country].for_order(order)  # see POL-358\n"
        ),
        33,
        33,
    ),
    ("aafa79ac07f5 9095ea3851d2 db257d28f3d0 78e85e7149c6", 32, 32),
    (
        (
            "packages/vue-cli/packages/uni-cloud/dist/index.js "
            "src/platforms/mp-weixin/runtime/wrapper/component-parser.js"
        ),
        22,
        22,
    ),
    ("fix(core): 修复 EventOperator 的 bug (#6029)", 14, 13),
]


@pytest.mark.parametrize(("text", "cl100k", "o200k"), COUNTED)
def test_near_the_real_counts(text: str, cl100k: int, o200k: int) -> None:
    low, high = sorted((cl100k, o200k))
    assert 0.7 * low <= estimate_tokens(text) <= 1.35 * high


def test_chinese_is_not_a_quarter_token_a_character() -> None:
    text = "本季度合同续签由法务负责"
    assert len(text) <= estimate_tokens(text) <= 1.5 * len(text)


def test_nothing_is_nothing() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens(" ") == 1


@given(texts)
def test_bounds(text: str) -> None:
    assert bool(text) <= estimate_tokens(text) <= 2 * len(text) + 1


@given(texts, texts)
def test_parts_add_up(one: str, other: str) -> None:
    apart = estimate_tokens(one) + estimate_tokens(other)
    assert abs(estimate_tokens(f"{one} {other}") - apart) <= 2


@pytest.mark.parametrize(("text", "cl100k", "o200k"), COUNTED)
def test_the_bound_is_above_the_real_counts(text: str, cl100k: int, o200k: int) -> None:
    assert max(cl100k, o200k) <= bound_tokens(text) <= 3 * min(cl100k, o200k)


@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
def test_no_document_of_the_demo_memory_has_more_tokens_than_its_bound(encoding: str) -> None:
    count = bpe_openai.get_encoding(encoding).encode
    lines = [line.decode() for line in documents(DEMO_CORPUS)]
    over = [line for line in lines if len(count(line)) > bound_tokens(line)]
    assert over == []


@given(texts)
def test_the_bound_is_never_below_the_estimate(text: str) -> None:
    assert bound_tokens(text) >= estimate_tokens(text)
