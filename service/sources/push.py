"""Push an NDJSON file to a writer: in batches, with retries that are safe to repeat.

A push that was interrupted can simply be run again: what is there already costs little.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import httpx

import memlane
from memlane import Batch
from memlane.shapes import Durability
from service.errors import InvalidDocument, SetupError, Unavailable
from service.sources.lines import open_lines

__all__ = ["Batch", "Pusher", "Summary", "batches", "open_lines"]

REFUSALS_SHOWN = 10


@dataclasses.dataclass(slots=True)
class Summary:
    """What a push did: lines by result, the index version after it, bytes of lines sent."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    version: int = 0
    bytes_sent: int = 0
    refused: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def batches(lines: Iterable[bytes]) -> Iterator[Batch]:
    """Cut lines into batches; blank lines keep their numbers."""
    return memlane.cut(lines, memlane.Limits())


class Pusher:
    """Sends batches to one tenant.

    Args:
        url: the service; a reader that knows its writer says where to go.
        key: a key with the scope `sync`.
        keep_valid: whether the valid lines of a batch with bad ones are kept.
        durability: `local`, or `replicated` to wait for the object store.
        transport, sleep: for tests.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        keep_valid: bool = False,
        durability: Durability = "local",
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        more: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
        self._client = memlane.Client(url, key, transport=transport, **more)
        self._keep_valid = keep_valid
        self._durability = durability

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def push(self, batch: Batch, summary: Summary) -> None:
        """Send one batch until it is answered.

        Raises:
            InvalidDocument: the service refused lines; nothing of the batch was kept.
            SetupError: the key or the address is wrong.
            Unavailable: it did not get through.
        """
        body = batch.body
        try:
            told = self._client.batch(
                body, atomic=not self._keep_valid, durability=self._durability
            )
        except memlane.InvalidBatch as error:
            raise InvalidDocument(_refusals(error, batch)) from None
        except (memlane.Unreachable, memlane.Unavailable) as error:
            raise Unavailable(
                f"the service did not take a batch: {error.detail}",
                hint="Run the same push again; what is there already costs little.",
            ) from None
        except memlane.MemlaneError as error:
            hint = error.hint or "Check --url and --key."
            raise SetupError(f"the service refuses: {error.detail}", hint=hint) from None
        summary.counts.update(told["counts"])
        summary.version = max(summary.version, told["version"])
        summary.bytes_sent += len(body)
        summary.refused += [
            {**line, "line": line["line"] + batch.first - 1}
            for line in told["results"]
            if line["result"] == "refused"
        ]


def _refusals(error: memlane.InvalidBatch, batch: Batch) -> str:
    shown = [
        f"line {line['line'] + batch.first - 1}: {line['error']}"
        for line in error.lines[:REFUSALS_SHOWN]
    ]
    return "; ".join(shown) or error.detail
