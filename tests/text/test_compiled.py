"""What is compiled and its source are one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.strategies import texts

#: Each stands on those before it. (`service.text.spans` as an attribute is the function.)
NAMES = ("folding", "scan", "tokenizer", "spans", "snippets", "identifiers")
COMPILED = {name: importlib.import_module(f"service.text.{name}") for name in NAMES}


def source(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__).parent / f"{module.__name__.rpartition('.')[2]}.py"


@pytest.fixture(scope="module")
def pure() -> Iterator[dict[str, ModuleType]]:
    """The modules from their source, each on pure ones below it, beside the compiled ones."""
    if any(module.__file__ == str(source(module)) for module in COMPILED.values()):
        reason = "nothing is compiled here: nothing to compare the source with"
        print(reason)
        pytest.skip(reason)
    loaded: dict[str, ModuleType] = {}
    try:
        for name, module in COMPILED.items():  # each finds the pure ones below it
            spec = importlib.util.spec_from_file_location(module.__name__, source(module))
            assert spec is not None
            assert spec.loader is not None
            loaded[name] = sys.modules[module.__name__] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded[name])
        yield loaded
    finally:
        sys.modules.update({module.__name__: module for module in COMPILED.values()})


def test_the_pure_ones_are_pure(pure: dict[str, ModuleType]) -> None:
    for name, module in pure.items():
        assert module is not COMPILED[name]
        assert str(module.__file__).endswith(".py")
    assert pure["tokenizer"].scan is pure["scan"].scan
    assert pure["snippets"].pieces is pure["spans"].pieces


@settings(max_examples=1500, deadline=None)
@given(text=texts)
def test_compiled_equals_source(pure: dict[str, ModuleType], text: str) -> None:
    for name in ("index_columns", "tokenize"):
        expected = getattr(pure["tokenizer"], name)(text)
        assert getattr(COMPILED["tokenizer"], name)(text) == expected


@settings(max_examples=500, deadline=None)
@given(text=texts, width_chars=st.integers(1, 40))
def test_compiled_spans_and_snippets_equal_source(
    pure: dict[str, ModuleType], text: str, width_chars: int
) -> None:
    found = list(pure["spans"].spans(text))
    assert list(COMPILED["spans"].spans(text)) == found
    terms = {span.token for span in found[::3]}
    cut, expected = (
        modules["snippets"].snippet(text, terms, width_chars=width_chars)
        for modules in (COMPILED, pure)
    )
    assert (cut.text, cut.marks) == (expected.text, expected.marks)


def test_all_characters_equal(pure: dict[str, ModuleType]) -> None:
    for start in range(0, 0x110000, 0x1000):
        text = "a".join(map(chr, range(start, start + 0x1000)))
        expected = pure["tokenizer"].index_columns(text)
        assert COMPILED["tokenizer"].index_columns(text) == expected


def test_versions_equal(pure: dict[str, ModuleType]) -> None:
    assert pure["tokenizer"].TOKENIZER_VERSION == COMPILED["tokenizer"].TOKENIZER_VERSION


@settings(max_examples=500, deadline=None)
@given(text=texts | st.text("abOPS-_#019 ", max_size=40))
def test_compiled_identifiers_equal_source(pure: dict[str, ModuleType], text: str) -> None:
    for name in ("identifiers_in", "fold_identifier", "is_identifier"):
        expected = getattr(pure["identifiers"], name)(text)
        assert getattr(COMPILED["identifiers"], name)(text) == expected
