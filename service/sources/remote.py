"""What the service holds, as far as a sync must know it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from memlane import Client
from memlane.shapes import Digests

BUCKETS: Final = 256
EMPTY: Final = "0" * 16
MANY: Final = 32
"""So many changed buckets are asked for sixteen at a time."""
SIXTEENTH_MOST: Final = 20_000
"""But not where a sixteenth of all documents makes an answer of megabytes."""


@dataclasses.dataclass(slots=True)
class Remote:
    """A manifest, and the rows of those buckets that changed since the last run.

    Attributes:
        tenant: the key's.
        version: of the index.
        steady: whether everything below is of that version.
        digests: of each bucket.
        listed: the buckets whose rows are below.
        rows: key -> (`updated_at`, content hash).
    """

    tenant: str
    version: int
    steady: bool
    digests: list[str]
    listed: set[int]
    rows: dict[bytes, tuple[int, bytes]]


def look(client: Client, told: Digests, known: Mapping[int, str]) -> Remote:
    """Ask for the rows of those buckets of a manifest that are not as they were.

    Args:
        client: of the service.
        told: the manifest.
        known: the digests of the last run, by bucket.

    Raises:
        memlane.MemlaneError: the service did not answer, or with an error.
    """
    digests = told["digests"]
    remote = Remote(told["tenant"], told["version"], True, digests, set(), {})
    changed = [number for number in range(BUCKETS) if digests[number] != known.get(number)]
    remote.listed = set(changed)
    asked = [f"{number:02x}" for number in changed if digests[number] != EMPTY]
    if len(asked) > MANY and told["documents"] <= 16 * SIXTEENTH_MOST:
        asked = sorted({prefix[0] for prefix in asked})
    for prefix in asked:
        answer = client.bucket(prefix, min_version=remote.version)
        remote.steady = remote.steady and answer["version"] == remote.version
        for key, updated_at, content_hash in answer["rows"]:
            remote.rows[bytes.fromhex(key)] = updated_at, bytes.fromhex(content_hash)
    return remote
