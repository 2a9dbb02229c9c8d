"""The sidecar as people start it: a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import psutil
import pytest
from click.testing import CliRunner

from embedder.embed_pb2 import EmbedPassagesRequest, EmbedQueryRequest, InfoRequest, SplitRequest
from embedder.embed_pb2_grpc import EmbedderStub
from embedder.probe import serving
from service.cli import main
from tests.embedder.world import WAIT_S, copied

MIB = 1024 * 1024
MEMLANE = [sys.executable, "-m", "service"]


def failed(*arguments: object) -> str:
    command = [*MEMLANE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@contextmanager
def started(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A sidecar: its process, its address, what it said so far."""
    command = [*MEMLANE, "embedder", "--address", "127.0.0.1:0", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r" at (127\.0\.0\.1:\d+)$", line):
                    yield process, found[1], said
                    break
            else:
                pytest.fail("".join(said))
        finally:
            process.kill()


@pytest.fixture
def hurt(tiny: Path, tmp_path: Path) -> Path:
    return copied(tiny, tmp_path / "hurt")


def test_a_missing_model_is_two_lines(tmp_path: Path) -> None:
    told = failed("embedder", "--model", tmp_path / "none")
    assert "there is no model folder" in told
    assert "memlane model build" in told


def test_a_truncated_model_is_two_lines(hurt: Path) -> None:
    path = hurt / "model.onnx"
    path.write_bytes(path.read_bytes()[:1_000])
    told = failed("embedder", "--model", hurt)
    assert "model.onnx is not the file that model.json describes" in told
    assert "fetch or build it again" in told


def test_wrong_dims_are_two_lines(hurt: Path) -> None:
    said = json.loads((hurt / "model.json").read_text())
    (hurt / "model.json").write_text(json.dumps(said | {"dims": 384}))
    assert "not 384 dims" in failed("embedder", "--model", hurt)


def test_a_missing_tokenizer_is_two_lines(hurt: Path) -> None:
    (hurt / "tokenizer.json").unlink()
    assert "has no tokenizer.json" in failed("embedder", "--model", hurt)


def test_a_required_gpu_that_is_not_there_refuses_to_start(tiny: Path) -> None:
    told = failed("embedder", "--model", tiny, "--require-gpu")
    assert "CUDAExecutionProvider was asked for and is not there" in told
    assert "embedder-gpu" in told


def test_a_wished_gpu_that_is_not_there_is_said_in_log_and_info(tiny: Path) -> None:
    with started("--model", tiny, "--device", "cuda") as (_, address, said):
        assert "runs on CPUExecutionProvider" in said[0]
        with grpc.insecure_channel(address) as channel:
            info = EmbedderStub(channel).Info(InfoRequest(), timeout=WAIT_S)
        assert info.provider_asked == "CUDAExecutionProvider"
        assert (info.provider, info.device) == ("CPUExecutionProvider", "cpu")


def test_an_address_that_is_taken_is_two_lines(tiny: Path) -> None:
    with started("--model", tiny) as (_, address, _):
        told = failed("embedder", "--model", tiny, "--address", address)
        assert f"cannot listen on {address}" in told


def test_it_uses_the_cores_it_may_use(tiny: Path) -> None:
    with (
        started("--model", tiny, "--threads", 3) as (_, address, _),
        grpc.insecure_channel(address) as channel,
    ):
        assert EmbedderStub(channel).Info(InfoRequest(), timeout=WAIT_S).threads == 3


def test_sigterm_ends_it_cleanly(tiny: Path) -> None:
    with started("--model", tiny) as (process, address, _):
        with grpc.insecure_channel(address) as channel:
            EmbedderStub(channel).EmbedQuery(EmbedQueryRequest(text="x"), timeout=WAIT_S)
        assert serving(address)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        assert not serving(address)


def test_memory_stays_bounded_under_what_is_refused_and_what_is_long(tiny: Path) -> None:
    with (
        started("--model", tiny) as (process, address, _),
        grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)]) as channel,
    ):
        stub = EmbedderStub(channel)
        process_info = psutil.Process(process.pid)
        megabyte = "word " * 209_715
        stub.Split(SplitRequest(texts=[megabyte]), timeout=60)
        before = process_info.memory_info().rss
        for _ in range(2):
            for refused in (
                EmbedQueryRequest(text=megabyte),
                EmbedQueryRequest(text=megabyte * 40),
            ):
                with pytest.raises(grpc.RpcError):
                    stub.EmbedQuery(refused, timeout=WAIT_S)
            with pytest.raises(grpc.RpcError):
                stub.EmbedPassages(EmbedPassagesRequest(texts=["w"] * 10_000), timeout=WAIT_S)
            stub.EmbedPassages(EmbedPassagesRequest(texts=["word " * 2_000] * 256), timeout=60)
            stub.Split(SplitRequest(texts=[megabyte]), timeout=60)
        assert process_info.memory_info().rss - before < 100 * MIB
        assert len(stub.EmbedQuery(EmbedQueryRequest(text="x")).embedding.vector) == 32


def test_help_is_the_sidecars_own() -> None:
    for arguments, option in (
        (["embedder", "--help"], "--require-gpu"),
        (["model", "build", "--help"], "--variant"),
        (["model", "check", "-h"], "--json"),
    ):
        told = CliRunner().invoke(main, arguments)
        assert told.exit_code == 0
        assert option in told.output


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "service.commands.embedder.find_spec",
        lambda name: None if name == "onnxruntime" else found(name),
    )
    told = CliRunner().invoke(main, ["embedder", "--model", "x"])
    assert told.exit_code == 1
    assert "onnxruntime is not installed" in told.stderr
    assert "memlane[embedder]" in told.stderr
