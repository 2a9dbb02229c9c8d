"""placeholder"""

from __future__ import annotations


def estimate_tokens(text: str) -> int:
    """Estimate."""
    return len(text.encode()) // 4 + 1 if text else 0
