"""`python -m embedder.generate`: make `embed_pb2*` from `embed.proto` again.

Needs grpcio-tools and mypy-protobuf, which nothing else here needs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Run the protocol compiler."""
    outputs = [f"--{kind}_out=." for kind in ("python", "mypy", "grpc_python", "mypy_grpc")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, "embedder/embed.proto"]
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
