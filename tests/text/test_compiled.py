"""The compiled tokenizer and its source are one."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings

from service.text import folding, scan, tokenizer
from tests.text.strategies import texts

COMPILED = (folding, scan, tokenizer)


def source(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__).parent / f"{module.__name__.rpartition('.')[2]}.py"


@pytest.fixture(scope="module")
def pure() -> Iterator[ModuleType]:
    """The tokenizer from its source, on pure modules below it, beside the compiled one."""
    if any(module.__file__ == str(source(module)) for module in COMPILED):
        reason = "no compiled tokenizer here: nothing to compare the source with"
        print(reason)
        pytest.skip(reason)
    kept = {module.__name__: sys.modules[module.__name__] for module in COMPILED}
    try:
        for module in COMPILED:  # each finds the pure ones below it
            spec = importlib.util.spec_from_file_location(module.__name__, source(module))
            assert spec is not None
            assert spec.loader is not None
            loaded = sys.modules[module.__name__] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
        yield sys.modules[tokenizer.__name__]
    finally:
        sys.modules.update(kept)


def test_the_pure_one_is_pure(pure: ModuleType) -> None:
    assert pure is not tokenizer
    assert str(pure.__file__).endswith(".py")
    assert pure.scan is not scan.scan


@settings(max_examples=1500, deadline=None)
@given(text=texts)
def test_compiled_equals_source(pure: ModuleType, text: str) -> None:
    assert pure.index_columns(text) == tokenizer.index_columns(text)
    assert pure.tokenize(text) == tokenizer.tokenize(text)


def test_all_characters_equal(pure: ModuleType) -> None:
    for start in range(0, 0x110000, 0x1000):
        text = "a".join(map(chr, range(start, start + 0x1000)))
        assert pure.index_columns(text) == tokenizer.index_columns(text)


def test_versions_equal(pure: ModuleType) -> None:
    assert pure.TOKENIZER_VERSION == tokenizer.TOKENIZER_VERSION
