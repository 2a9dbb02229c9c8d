"""onnxruntime: open a graph on the device asked for, and say what it really runs on."""

from __future__ import annotations

import logging
import mmap
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal

import onnxruntime

from embedder.errors import ModelInvalid, SetupError

logger = logging.getLogger(__name__)

Device = Literal["auto", "cpu", "cuda"]
CPU: Final = "CPUExecutionProvider"
CUDA: Final = "CUDAExecutionProvider"
MIXING: Final = (b"DynamicQuantizeLinear", b"DynamicQuantizeMatMul")
"""Operators that scale activations over the whole batch: with them a text's vector depends on its
batch mates, so such a graph takes one text at a time."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """An open session.

    Attributes:
        session: onnxruntime's; `run` may be called from several threads.
        asked: provider asked for.
        provider: provider really in use; only the session knows it.
        threads: threads of one run.
        alone: texts must not share a run; see `MIXING`.
    """

    session: onnxruntime.InferenceSession
    asked: str
    provider: str
    threads: int
    alone: bool

    @property
    def on_gpu(self) -> bool:
        """Whether the session runs on CUDA."""
        return self.provider == CUDA


def cores() -> int:
    """Cores this process may use, by its CPU affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_runtime(
    path: Path, *, device: Device = "auto", require_gpu: bool = False, threads: int = 1
) -> Runtime:
    """Open a graph.

    Args:
        path: the ONNX file.
        device: `auto` asks for CUDA where this onnxruntime was built for it.
        require_gpu: refuse to run on anything but CUDA.
        threads: threads of one run on the CPU.

    Raises:
        ModelInvalid: the file is damaged or no graph that onnxruntime can run.
        SetupError: both wheels are installed, or a GPU is required and not there.
    """
    _one_wheel()
    wants_gpu = device == "cuda" or (device == "auto" and CUDA in _available()) or require_gpu
    asked = CUDA if wants_gpu else CPU
    session = _session(path, asked, threads)
    provider: str = session.get_providers()[0]
    if provider != asked:
        told = f"{asked} was asked for and is not there; the model runs on {provider}"
        hint = "Install the extra `embedder-gpu` (and not `embedder`), CUDA 13 and cuDNN 9."
        if require_gpu:
            raise SetupError(told, hint=hint)
        logger.warning("%s. %s", told, hint)
    return Runtime(session, asked, provider, threads=threads, alone=_mixes(path))


def versions() -> dict[str, str]:
    """Versions of what a vector depends on, package to version."""
    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu", "tokenizers", "grpcio"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _available() -> list[str]:
    found: list[str] = onnxruntime.get_available_providers()
    return found


def _one_wheel() -> None:
    if {"onnxruntime", "onnxruntime-gpu"} <= versions().keys():
        raise SetupError(
            "onnxruntime and onnxruntime-gpu are both installed; they own the same files",
            hint="Uninstall both, then install one of the extras `embedder` and `embedder-gpu`.",
        )


def _session(path: Path, asked: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # we tell what went wrong ourselves
    # A thread that waits by spinning takes a core that another lane of ours computes on.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if asked == CUDA and CUDA in _available() and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()
    providers = [asked, CPU] if asked in _available() and asked != CPU else [CPU]
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # its exceptions share no base but this
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelInvalid(
            f"{path} cannot be loaded: {told}",
            hint="The file may be truncated: fetch or build it again.",
        ) from error


def _mixes(path: Path) -> bool:
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as found:
        return any(found.find(name) >= 0 for name in MIXING)


def inputs(session: onnxruntime.InferenceSession) -> dict[str, tuple[str, list[Any]]]:
    """A graph's inputs: name to type and shape."""
    return {found.name: (found.type, list(found.shape)) for found in session.get_inputs()}
