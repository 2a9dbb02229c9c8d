"""Writers and readers that know what must be there, and check each answer."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import orjson

from golden.fleet import records
from golden.fleet.world import OK, Fleet, Tenant
from service.errors import MemlaneError

DOCUMENTS = 40
"""Of each tenant, written again and again."""
BATCH = 4
PAUSE_S = 0.05
DURABLE_SHARE = 0.6
#: What a request takes on its way is not the node's staleness.
SLACK_S = 0.25
AUDIT_S = 60.0
RIGHTLY_REFUSED = (409, 503)
"""What a node answers that is behind, or has nothing yet; anything else is noted."""


class Load:
    """Two threads: one writes, one reads. `acknowledged` and `refused` fit any thread."""

    def __init__(
        self,
        fleet: Fleet,
        tenants: Sequence[Tenant],
        seed: int,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.acknowledged = self.refused = 0
        self._note = note
        self._fleet = fleet
        self._tenants = list(tenants)
        self._rng = random.Random(seed)  # noqa: S311  (chance, not secrets)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._round = 0
        # By tenant and document: the last round acknowledged, and the last one that is durable.
        self._acked: dict[tuple[str, int], int] = {}
        self._durable: dict[tuple[str, int], int] = {}
        # By tenant: durable versions with the moment of their acknowledgement.
        self._versions: dict[str, list[tuple[float, int]]] = {t.name: [] for t in tenants}
        self._counts: Counter[str] = Counter()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._write, self._read)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the request in flight."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def audit(self) -> dict[str, Any]:
        """Read every document from a reader and compare it with what was acknowledged."""
        lost_durable = lost_bounded = unread = 0
        for tenant in self._tenants:
            found = self._final(tenant)
            if found is None:
                unread += 1
                found = {}
            for (name, number), round_ in self._acked.items():
                if name != tenant.name:
                    continue
                there = found.get(number, -1)
                lost_durable += there < self._durable.get((name, number), -1)
                lost_bounded += there < round_
        return {
            "acknowledged": self.acknowledged,
            "refused": self.refused,
            "answers": self._counts["answers"],
            "unread_tenants": unread,
            "lost_durable": lost_durable,
            "lost_bounded": lost_bounded,
            "torn": self._counts["torn"],
            "foreign": self._counts["foreign"],
            "stale_silent": self._counts["stale_silent"],
            "errors": {k: n for k, n in sorted(self._counts.items()) if k.startswith("http ")},
        }

    # --- writing

    def _write(self) -> None:
        while not self._over.wait(PAUSE_S):
            tenant = self._rng.choice(self._tenants)
            durable = self._rng.random() < DURABLE_SHARE
            self._round += 1
            numbers = self._rng.sample(range(DOCUMENTS), BATCH)
            lines = b"\n".join(
                orjson.dumps(records.document(tenant.name, number, self._round))
                for number in numbers
            )
            try:
                version = self._fleet.write(
                    tenant, lines, durability="replicated" if durable else "local"
                )
            except MemlaneError:
                self.refused += 1
                continue
            with self._lock:
                self.acknowledged += 1
                for number in numbers:
                    self._acked[tenant.name, number] = self._round
                    if durable:
                        self._durable[tenant.name, number] = self._round
                if durable:
                    self._versions[tenant.name].append((time.monotonic(), version))

    # --- reading

    def _read(self) -> None:
        rng = random.Random(0)  # noqa: S311  (chance, not secrets)
        while not self._over.wait(PAUSE_S / 2):
            tenant = rng.choice(self._tenants)
            reader = rng.choice(self._fleet.readers)
            refs = [{"kind": records.KIND, "ref": records.ref(rng.randrange(DOCUMENTS))}]
            began = time.monotonic()
            try:
                answer = httpx.post(
                    f"{reader.url}/v1/documents:get",
                    json={"refs": refs},
                    headers=tenant.headers,
                    timeout=10,
                    trust_env=False,
                )
            except httpx.HTTPError:
                continue  # a node that is down says nothing wrong
            if answer.status_code != OK:
                self._counts[f"http {answer.status_code}"] += 1
                if answer.status_code not in RIGHTLY_REFUSED:
                    told = f"{tenant.name} on {reader.tree.name}: {answer.text[:160]}"
                    self._note(f"{answer.status_code} for {told}")
                continue
            self._check(tenant, answer.json(), began)

    def _check(self, tenant: Tenant, told: dict[str, Any], began: float) -> None:
        self._counts["answers"] += 1
        for found in told["documents"]:
            verdict = records.verdict(tenant.name, found)
            if verdict != "sound":
                self._counts[verdict] += 1
        claimed = began - told["index"]["age_ms"] / 1_000 - SLACK_S
        with self._lock:
            due = [version for at, version in self._versions[tenant.name] if at < claimed]
        if due and told["index"]["version"] < max(due):
            self._counts["stale_silent"] += 1

    def _final(self, tenant: Tenant) -> dict[int, int] | None:
        """Round by document on a reader that has the newest version; None when none answers."""
        refs = [{"kind": records.KIND, "ref": records.ref(number)} for number in range(DOCUMENTS)]
        deadline = time.monotonic() + AUDIT_S
        while time.monotonic() < deadline:
            writer = self._fleet.active_writer()
            if writer is None:
                time.sleep(0.2)
                continue
            try:
                index = self._fleet.http.get(f"{writer.url}/v1/index", headers=tenant.headers)
                wanted = index.json()["version"]
                for reader in self._fleet.readers:
                    answer = self._fleet.http.post(
                        f"{reader.url}/v1/documents:get",
                        json={"refs": refs},
                        headers=tenant.headers,
                    )
                    told = answer.json()
                    if answer.status_code == OK and told["index"]["version"] >= wanted:
                        return {
                            int(d["ref"].removeprefix("doc-")): records.round_of(d)
                            for d in told["documents"]
                        }
            except (httpx.HTTPError, KeyError, ValueError):
                pass  # asked again until the time is over; then the tenant counts as unread
            time.sleep(0.2)
        return None
