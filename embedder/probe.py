"""`python -m embedder.probe [ADDRESS]`: exit status 0 while a sidecar serves, for containers."""

from __future__ import annotations

import sys
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

ADDRESS: Final = "127.0.0.1:50051"
TIMEOUT_S: Final = 2.0


def serving(address: str) -> bool:
    """Whether a sidecar answers there and takes requests."""
    with grpc.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        except grpc.RpcError:
            return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


if __name__ == "__main__":
    sys.exit(0 if serving(sys.argv[1] if len(sys.argv) > 1 else ADDRESS) else 1)
