import stat
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRequest, SetupError, Unauthorized
from service.tenancy import keys
from service.tenancy.secret import load_or_create_secret, load_secret

BASE62 = string.digits + string.ascii_letters


def test_a_key_tells_its_widest_scope_and_carries_160_random_bits() -> None:
    key = keys.mint(["sync", "search"])
    assert key.kind == "sync"
    prefix, kind, rest = key.text.split("_")
    assert (prefix, kind, len(rest)) == ("ml", "sync", 33)
    assert 62 ** (len(rest) - 6) >= 2**160
    assert keys.parse(key.text) == key
    assert key.text not in repr(key)


def test_the_shape_of_keys_is_pinned_so_that_handed_out_ones_stay_valid() -> None:
    assert keys.parse("ml_search_" + "0" * 27 + "1VuMgg").kind == "search"


@given(st.integers(0, 42), st.sampled_from(BASE62))
def test_any_single_wrong_character_is_refused(position: int, character: str) -> None:
    key = keys.mint(["search"]).text
    broken = key[:position] + character + key[position + 1 :]
    if broken != key:
        with pytest.raises(Unauthorized):
            keys.parse(broken)


@given(st.text(max_size=60))
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(Unauthorized):
        keys.parse(text)


def test_a_stored_digest_matches_its_key_under_its_secret_only() -> None:
    key, other = keys.mint(["search"]), keys.mint(["search"])
    digest = key.digest(b"a" * 32)
    assert len(digest) == 32
    assert key.matches(digest, b"a" * 32)
    assert not other.matches(digest, b"a" * 32)
    assert not key.matches(digest, b"b" * 32)


def test_scopes_are_sorted_narrowest_first_and_unknown_ones_refused() -> None:
    assert keys.check_scopes(["admin", "search", "admin"]) == ("search", "admin")
    for scopes in ([], ["root"], ["search", ""]):
        with pytest.raises(InvalidRequest, match="scope"):
            keys.check_scopes(scopes)


def test_the_secret_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "node" / "secret"
    first = load_or_create_secret(path)
    assert len(first) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_secret(path) == first
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]


def test_a_missing_a_shared_and_a_cut_secret_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(SetupError) as missing:
        load_secret(path)
    assert "Copy the writer's secret" in missing.value.hint
    load_or_create_secret(path)
    path.chmod(0o644)
    with pytest.raises(SetupError, match="0644") as shared:
        load_or_create_secret(path)
    assert "chmod 600" in shared.value.hint
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(SetupError, match="5 bytes"):
        load_or_create_secret(path)
