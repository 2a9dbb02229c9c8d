"""SentencePiece vocabularies as `tokenizer.json` (the unigram model, Kudo 2018)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

SPACE = "\u2581"


def stock_charsmap() -> bytes:
    """SentencePiece's built-in normalization `nmt_nfkc`, compiled.

    It comes out of the library by training a model on nothing much with that rule.
    """
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some words to have a vocabulary of"] * 20),
        model_writer=out,
        vocab_size=30,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    return charsmap(read_model(out.getvalue()))


def read_model(data: bytes) -> Any:
    """A SentencePiece model file, as its `ModelProto`."""
    return sentencepiece_model_pb2.ModelProto.FromString(data)  # type: ignore[attr-defined]


def charsmap(model: Any) -> bytes:
    """A model's compiled normalization."""
    found: bytes = model.normalizer_spec.precompiled_charsmap
    return found


def unigram(
    vocabulary: Sequence[tuple[str, float]],
    charsmap: bytes,
    *,
    unknown_id: int,
    start_id: int,
    end_id: int,
    special: Sequence[str],
    strip: bool,
) -> Tokenizer:
    """A tokenizer that puts `<s>` and `</s>` around a text.

    Args:
        vocabulary: pieces with their log probabilities, by id.
        charsmap: compiled normalization.
        unknown_id: id of what no piece covers.
        start_id: id of `<s>`.
        end_id: id of `</s>`.
        special: pieces that no text can spell.
        strip: drop space around a text.
    """
    made = Tokenizer(models.Unigram(list(vocabulary), unk_id=unknown_id, byte_fallback=False))
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(charsmap)]
    if strip:
        steps.append(normalizers.Strip())
    steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    made.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", start_id), ("</s>", end_id)]
    )
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    return made
