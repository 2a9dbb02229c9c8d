import pytest

from service.text import is_code, names_only

NAMES = (
    "DirectoryStr parseURL HTTPServer node_bindings _private iops.zig useQueryParam.en.md src/main"
    " src\\main Vec::new self->next Foo#bar"
)
WORDS = "gateway Gateway GATEWAY well-known end. 2024 and/ … 東京タワー don't naïveCase"


@pytest.mark.parametrize("name", NAMES.split())
def test_names_in_code_are_known_by_their_shape(name: str) -> None:
    assert is_code(name)


@pytest.mark.parametrize("word", WORDS.split())
def test_words_are_not(word: str) -> None:
    assert not is_code(word)


def test_a_query_of_names_alone_means_its_letters() -> None:
    assert names_only("OPS-2041 parseURL")
    assert not names_only("why does parseURL fail")
    assert not names_only("")
