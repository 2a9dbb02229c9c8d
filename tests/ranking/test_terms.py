from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ranking.terms import Alternative, Unit, group, prefix, quote, strict_expression


@pytest.mark.parametrize(
    ("orig", "sub", "units"),
    [
        ([], [], []),
        (["bug"], [], [Unit("bug")]),
        (
            ["acmeeventoperator", "bug"],
            ["acme", "event", "operator"],
            [Unit("acmeeventoperator", ("acme", "event", "operator")), Unit("bug")],
        ),
        (
            ["acme-gateway-dev", "acme"],
            ["acme", "gateway", "dev"],
            [Unit("acme-gateway-dev", ("acme", "gateway", "dev")), Unit("acme")],
        ),
        (
            ["event", "eventoperator"],
            ["event", "operator"],
            [Unit("event"), Unit("eventoperator", ("event", "operator"))],
        ),
        (
            ["要重试", "3", "次", "timeout"],
            ["要重", "重试", "次"],
            [Unit("要重试", ("要重", "重试")), Unit("3"), Unit("次", ("次",)), Unit("timeout")],
        ),
        (["修复", "x"], ["修复"], [Unit("修复", ("修复",)), Unit("x")]),
        (["a", "a"], [], [Unit("a")]),
    ],
)
def test_sub_terms_go_to_the_token_they_came_from(
    orig: list[str], sub: list[str], units: list[Unit]
) -> None:
    assert group(orig, sub) == units


@given(st.lists(st.text(max_size=5), max_size=6), st.lists(st.text(max_size=5), max_size=6))
def test_any_streams_can_be_grouped(orig: list[str], sub: list[str]) -> None:
    assert [unit.text for unit in group(orig, sub)] == list(dict.fromkeys(orig))


def test_compound_and_spaceless() -> None:
    assert Unit("acme-gateway", ("acme", "gateway")).compound
    assert Unit("重试次", ("重试", "试次")).spaceless
    assert not Unit("event").spaceless


@pytest.mark.parametrize(
    ("unit", "alternatives", "expression"),
    [
        (Unit("bug"), [], '"bug"'),
        (Unit('a"b'), [], '"a""b"'),
        (Unit("a-b", ("a", "b")), [], '("a-b" OR "a b")'),
        (Unit("试", ("试",)), [Alternative(prefix("试"), 1.0, "prefix")], '("试" OR "试" *)'),
        (Unit("x"), [Alternative("dock hub", 0.9, "compound")], '("x" OR "dock hub")'),
    ],
)
def test_the_strict_expression(
    unit: Unit, alternatives: list[Alternative], expression: str
) -> None:
    assert strict_expression(unit, alternatives) == expression


def test_quoting_leaves_no_syntax() -> None:
    assert quote(['NEAR("x")', "OR"]) == '"NEAR(""x"") OR"'
