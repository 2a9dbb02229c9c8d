from __future__ import annotations

import os
import signal

import pytest

from service.replica import watchdog
from service.replica.counters import Counters
from service.replica.watchdog import Watchdog
from tests.replica.world import Writer, eventually


def test_a_litestream_that_hangs_is_killed_and_started_again(
    own_writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "CHECK_MS", 50)
    monkeypatch.setattr("service.replica.litestream.ALIVE_TIMEOUT_MS", 200)
    file = own_writer.create()
    own_writer.replicated(file)
    child = own_writer.litestream.child
    counters = Counters()
    dog = Watchdog(own_writer.data, child, silence_ms=500, counters=counters)

    def looked_after() -> None:
        own_writer.litestream.poll()
        dog.poll()

    looked_after()
    hung = child.pid
    assert hung is not None
    os.kill(hung, signal.SIGSTOP)
    own_writer.commit(file)

    def replaced() -> bool:
        looked_after()
        return child.pid not in (None, hung)

    eventually(replaced, "another process")
    assert counters.snapshot() == {"litestream_hung": 1}
    own_writer.replicated(file)
    for _ in range(20):
        looked_after()
    assert child.restarts == 1
