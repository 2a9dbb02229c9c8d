"""Push an NDJSON file to a writer: in batches, with retries that are safe to repeat.

Each batch carries an `Idempotency-Key` made of its own content, so a batch whose answer was lost
is sent again without harm, and a push that was interrupted can simply be run again.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self

import httpx

from service.errors import InvalidDocument, SetupError, Unavailable

#: What one batch may hold; well below the service's own limits.
BATCH_LINES = 1_000
BATCH_BYTES = 4 * 1024 * 1024
ATTEMPTS = 8
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
TIMEOUT_S = 60.0
RETRIED = frozenset({408, 429, 502, 503, 504})
GZIP_MAGIC = b"\x1f\x8b"


@dataclasses.dataclass(slots=True)
class Summary:
    """What a push did: lines by result, the index version after it, bytes sent."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    version: int = 0
    bytes_sent: int = 0
    refused: list[dict[str, Any]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Some lines of a file; the first of them is number `first` of the file, from 1."""

    first: int
    lines: list[bytes]

    @property
    def body(self) -> bytes:
        """The lines as a request carries them."""
        return b"\n".join(self.lines) + b"\n"


def batches(lines: Iterable[bytes]) -> Iterator[Batch]:
    """Cut lines into batches; blank lines keep their numbers."""
    held: list[bytes] = []
    size, first = 0, 1
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip(b"\r\n")
        if held and (len(held) >= BATCH_LINES or size + len(line) > BATCH_BYTES):
            yield Batch(first, held)
            held, size, first = [], 0, number
        held.append(line)
        size += len(line) + 1
    if held:
        yield Batch(first, held)


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines, compressed by gzip or not.

    Raises:
        SetupError: it cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise SetupError(f"{path} cannot be read ({error.strerror})") from error
    if file.peek(2)[:2] == GZIP_MAGIC:
        return gzip.open(file, "rb")  # type: ignore[return-value]  # a GzipFile reads bytes
    return file


class Pusher:
    """Sends batches to one tenant.

    Args:
        url: the service; a reader that knows its writer says where to go.
        key: a key with the scope `sync`.
        keep_valid: whether the valid lines of a batch with bad ones are kept.
        durability: `local`, or `replicated` to wait for the object store.
        transport: for tests.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        keep_valid: bool = False,
        durability: str = "local",
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url.rstrip("/")
        self._sleep = sleep
        self._query = {"atomic": "false" if keep_valid else "true", "durability": durability}
        self._http = httpx.Client(
            headers={"authorization": f"Bearer {key}", "content-type": "application/x-ndjson"},
            timeout=TIMEOUT_S,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def push(self, batch: Batch, summary: Summary) -> None:
        """Send one batch until it is answered.

        Raises:
            InvalidDocument: the service refused lines; nothing of the batch was kept.
            SetupError: the key or the address is wrong.
            Unavailable: it did not get through in `ATTEMPTS`.
        """
        body = batch.body
        answer = self._send(body)
        if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            raise InvalidDocument(_refusals(answer.json(), batch))
        if answer.status_code != httpx.codes.OK:
            problem = _problem(answer)
            raise SetupError(
                f"{self._url} answered {answer.status_code}: {problem.get('detail', '')}",
                hint=str(problem.get("hint", "Check --url and --key.")),
            )
        told = answer.json()
        summary.counts.update(told["counts"])
        summary.version = max(summary.version, told["version"])
        summary.bytes_sent += len(body)
        summary.refused += [
            {**line, "line": line["line"] + batch.first - 1}
            for line in told["results"]
            if line["result"] == "refused"
        ]

    def _send(self, body: bytes) -> httpx.Response:
        key = hashlib.blake2b(body, digest_size=16).hexdigest()
        last = ""
        for attempt in range(ATTEMPTS):
            pause = min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S)
            try:
                answer = self._http.post(
                    f"{self._url}/v1/documents:batch",
                    params=self._query,
                    content=body,
                    headers={"idempotency-key": key},
                )
            except httpx.TransportError as error:
                last = type(error).__name__
            else:
                if answer.status_code == httpx.codes.MISDIRECTED_REQUEST:
                    self._url = self._writer(answer)
                    continue
                if answer.status_code not in RETRIED:
                    return answer
                last = f"{answer.status_code} {_problem(answer).get('detail', '')}"
                pause = max(pause, float(answer.headers.get("retry-after", 0)))
            # Jitter, so that many machines do not return at the same moment.
            self._sleep(min(pause, LONGEST_PAUSE_S) * random.uniform(0.5, 1.0))  # noqa: S311
        raise Unavailable(
            f"{self._url} did not take a batch in {ATTEMPTS} attempts: {last}",
            hint="Run the same push again; what is there already costs little.",
        )

    def _writer(self, answer: httpx.Response) -> str:
        url = _problem(answer).get("writer_url")
        if not isinstance(url, str) or url.rstrip("/") == self._url:
            raise SetupError(
                f"{self._url} only reads", hint="Give the writer's address with --url."
            )
        return url.rstrip("/")


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _refusals(problem: dict[str, Any], batch: Batch) -> str:
    shown = [
        f"line {line['line'] + batch.first - 1}: {line['error']}"
        for line in problem.get("lines", [])[:10]
    ]
    return "; ".join(shown) or str(problem.get("detail", "the batch was refused"))
