"""Writing an ONNX graph, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT: Final = "com.microsoft"
"""Operators of onnxruntime's own: fused attention, 4-bit weights."""
OPSET: Final = 21
IR: Final = 10

Array = npt.NDArray[Any]


class Graph:
    """A graph under construction. Values are named; a node is named after its output."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: Array) -> str:
        """An array by its name; the same name again means the same array."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def scalar(self, value: float) -> str:
        """A float32 number."""
        return self.constant(f"scalar_{value!r}", np.asarray(value, np.float32).reshape(()))

    def ints(self, *values: int) -> str:
        """A vector of int64."""
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def nibbles(self, name: str, value: Array) -> str:
        """4-bit numbers, given as one byte each; the earlier of two is the lower half."""
        packed = (value[..., 0::2] | (value[..., 1::2] << 4)).astype(np.uint8)
        shape, raw = list(value.shape), packed.tobytes()
        tensor = helper.make_tensor(name, TensorProto.UINT4, shape, raw, raw=True)
        self._constants[name] = tensor
        return name

    def node(
        self, op: str, inputs: Sequence[str], output: str, *, domain: str = "", **attributes: Any
    ) -> str:
        """One node; returns its output's name."""
        self._nodes.append(
            helper.make_node(op, inputs, [output], name=output, domain=domain, **attributes)
        )
        return output

    def several(
        self, op: str, inputs: Sequence[str], outputs: list[str], **attributes: Any
    ) -> None:
        """One node with several outputs."""
        self._nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0], **attributes))

    def save(
        self,
        path: Path,
        *,
        inputs: Sequence[str],
        output: str,
        shape: Sequence[str | int],
    ) -> None:
        """Write the model.

        Args:
            path: where to.
            inputs: names of int64 inputs of shape (batch, sequence).
            output: name of the float32 output.
            shape: its shape.
        """
        sizes = ["batch", "sequence"]
        graph = helper.make_graph(
            self._nodes,
            "memlane",
            [helper.make_tensor_value_info(name, TensorProto.INT64, sizes) for name in inputs],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape))],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR, producer_name="memlane"
        )
        path.write_bytes(model.SerializeToString(deterministic=True))
