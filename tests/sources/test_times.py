from __future__ import annotations

import pytest

from service.sources.times import to_ms


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (1_767_225_600_000, 1_767_225_600_000),
        (1_767_225_600, 1_767_225_600_000),
        (1_767_225_600.5, 1_767_225_600_500),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00.250+01:00", 1_767_225_600_250),
        ("2026-01-01", 1_767_225_600_000),
        (0, 0),
        (None, None),
        (True, None),
        ("soon", None),
        ("", None),
        ([], None),
        (float("nan"), None),
        (float("inf"), None),
        (-5, None),
        (10**20, None),
        ("1850-01-01", None),
    ],
)
def test_times_are_read_as_programs_write_them(value: object, ms: int | None) -> None:
    assert to_ms(value) == ms
