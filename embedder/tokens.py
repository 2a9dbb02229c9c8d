"""Texts into token ids, with the model's own tokenizer."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass

# One thread: tokenizing shares the cores that the model counts on.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import Tokenizer

from embedder.catalog import ModelSpec
from embedder.errors import ModelInvalid


@dataclass(frozen=True, slots=True)
class Tokens:
    """One text, ready for the model: ids with prefix and special tokens."""

    ids: array[int]
    truncated: bool

    def __len__(self) -> int:
        return len(self.ids)


class TextTokenizer:
    """The tokenizer of one model. Safe to share between threads."""

    def __init__(self, spec: ModelSpec) -> None:
        """Load it.

        Raises:
            ModelInvalid: the file is missing or damaged.
        """
        self._spec = spec
        try:
            self._tokenizer = Tokenizer.from_file(str(spec.tokenizer_path))
        except Exception as error:  # the library raises bare Exception for every damaged file
            raise ModelInvalid(f"{spec.tokenizer_path} cannot be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.special_tokens: int = self._tokenizer.num_special_tokens_to_add(False)
        prefixes = (spec.query_prefix, spec.passage_prefix)
        #: Tokens that a text may have beside its prefix and the special tokens.
        self.room = spec.window_tokens - self.special_tokens - max(map(self.count, prefixes))
        if self.room < 1:
            raise ModelInvalid(f"a window of {spec.window_tokens} tokens holds only the prefix")

    def query(self, text: str) -> Tokens:
        """A query's ids, cut at the window."""
        return self._tokens(self._spec.query_prefix + text)

    def passage(self, text: str) -> Tokens:
        """A passage's ids, cut at the window."""
        return self._tokens(self._spec.passage_prefix + text)

    def count(self, text: str) -> int:
        """Tokens of a text without prefix and special tokens."""
        return len(self.offsets(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text lies, in code points; no prefix, no special tokens."""
        if not text:
            return []
        # The batch call, for one text: it is the one that lets other threads run meanwhile.
        [encoding] = self._tokenizer.encode_batch([text], add_special_tokens=False)
        found: list[tuple[int, int]] = encoding.offsets
        return found

    def _tokens(self, text: str) -> Tokens:
        [encoding] = self._tokenizer.encode_batch([text])
        ids = array("q", encoding.ids)
        if not ids:  # a tokenizer without special tokens, and an empty text
            ids.append(self._spec.pad_id)
        window = self._spec.window_tokens
        if len(ids) <= window:
            return Tokens(ids, truncated=False)
        # The text's end goes, the special tokens after it stay.
        ending = next(
            n for n, special in enumerate(reversed(encoding.special_tokens_mask)) if not special
        )
        return Tokens(ids[: window - ending] + ids[len(ids) - ending :], truncated=True)
