"""What a client does at most."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Attempts, times and sizes; units stand last in names.

    Attributes:
        attempts: most times a request is sent, the first one included.
        first_pause_s: before the second attempt; doubled before each further one.
        longest_pause_s: longest of these, and longest that a `Retry-After` is obeyed.
        timeout_s: longest silence of the service within one attempt.
        answer_bytes: largest answer that is read.
        batch_lines: most lines of one batch; the service takes 5,000.
        batch_bytes: most bytes of one batch; the service takes 64 MiB.
    """

    attempts: int = 8
    first_pause_s: float = 0.25
    longest_pause_s: float = 10.0
    timeout_s: float = 60.0
    answer_bytes: int = 64 * 1024 * 1024
    batch_lines: int = 1_000
    batch_bytes: int = 4 * 1024 * 1024
