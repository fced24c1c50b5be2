"""ONNX Runtime on the CPU: one node or few, inputs and outputs bound once."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np

from iron.bench.peers.record import Attempt, Library, Subject
from iron.dtypes import f32

OPSET = 17
MODULES = ("onnxruntime", "onnx")


def _version(device: str) -> str | None:
    here = device == "cpu" and all(importlib.util.find_spec(m) for m in MODULES)
    return metadata.version("onnxruntime") if here else None


LIBRARY = Library("onnxruntime", _version)

Node = tuple[str, Sequence[str], Sequence[str], dict[str, Any]]


def _attempt(s: Subject, nodes: Sequence[Node], names: dict[str, str]) -> Attempt:
    """Runs `nodes`, whose inputs are the kernel's and whose outputs `names` maps to the kernel's.

    An input that is not an argument of the kernel is a constant of the nodes' own.
    """
    onnx, runtime = (importlib.import_module(m) for m in ("onnx", "onnxruntime"))
    helper = importlib.import_module("onnx.helper")
    kind = helper.np_dtype_to_tensor_dtype

    def value(name: str, array: Any) -> Any:
        return helper.make_tensor_value_info(name, kind(array.dtype), array.shape)

    inner = {name for _, _, outputs, _ in nodes for name in outputs}
    outer = {n for _, inputs, _, _ in nodes for n in inputs if n and n not in inner}
    arrays = {n: s.arguments[n] for n in sorted(outer)}
    results = {theirs: s.outputs[ours] for theirs, ours in names.items()}
    graph = helper.make_graph(
        [helper.make_node(op, list(a), list(b), **more) for op, a, b, more in nodes],
        "peer",
        [value(n, a) for n, a in arrays.items()],
        [value(n, a) for n, a in results.items()],
    )
    imports = [onnx.OperatorSetIdProto(version=OPSET)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = s.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    text = model.SerializeToString()
    session = runtime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in arrays.items():
        binding.bind_ortvalue_input(name, runtime.OrtValue.ortvalue_from_numpy(array))
    for name, array in results.items():
        address = array.__array_interface__["data"][0]
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, address)
    return Attempt(lambda: session.run_with_iobinding(binding), lambda: s.outputs)


def _plain(s: Subject) -> bool:
    return all(t is f32 for t in s.dtypes.values())


@LIBRARY.peer("softmax")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.mask is not None or s.arguments["scale"] != 1.0:
        return None
    op = "LogSoftmax" if s.consts.get("LOG") else "Softmax"
    return _attempt(s, [(op, ["x"], ["out"], {"axis": -1})], {"out": "y"})


@LIBRARY.peer("layer_norm")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.w is None:
        return None
    inputs = ["x", "w"] if s.b is None else ["x", "w", "b"]
    attributes = {"axis": -1, "epsilon": float(s.eps)}
    return _attempt(s, [("LayerNormalization", inputs, ["out"], attributes)], {"out": "y"})


@LIBRARY.peer("rms_norm")
def _(s: Subject) -> Attempt | None:
    plain = s.residual is None and s.w is not None
    if not _plain(s) or not plain or s.consts.get("L2") or s.consts.get("ONE_PLUS"):
        return None
    attributes = {"axis": -1, "epsilon": float(s.eps)}
    nodes = [("SimplifiedLayerNormalization", ["x", "w"], ["out"], attributes)]
    return _attempt(s, nodes, {"out": "y"})


UNARY = {"exp": "Exp", "abs": "Abs", "neg": "Neg", "sqrt": "Sqrt", "log": "Log", "tanh": "Tanh",
         "erf": "Erf", "sigmoid": "Sigmoid", "relu": "Relu"}  # fmt: skip


@LIBRARY.peer("unary")
def _(s: Subject) -> Attempt | None:
    if not _plain(s):
        return None
    if s.consts["OP"] == "silu":
        nodes: list[Node] = [
            ("Sigmoid", ["x"], ["half"], {}),
            ("Mul", ["x", "half"], ["out"], {}),
        ]
        return _attempt(s, nodes, {"out": "y"})
    op = UNARY.get(s.consts["OP"])
    return _attempt(s, [(op, ["x"], ["out"], {})], {"out": "y"}) if op else None


@LIBRARY.peer("gated_activation")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.consts.get("VARIANT", "swiglu") != "swiglu" or s.gate_bias is not None:
        return None
    nodes: list[Node] = [
        ("Sigmoid", ["g"], ["half"], {}),
        ("Mul", ["g", "half"], ["gate"], {}),
        ("Mul", ["gate", "u"], ["out"], {}),
    ]
    return _attempt(s, nodes, {"out": "y"})


BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min"}


@LIBRARY.peer("binary")
def _(s: Subject) -> Attempt | None:
    op = BINARY.get(s.consts["OP"])
    return _attempt(s, [(op, ["a", "b"], ["out"], {})], {"out": "z"}) if op and _plain(s) else None


@LIBRARY.peer("cast")
def _(s: Subject) -> Attempt | None:
    kinds = {s.x.dtype, s.outputs["y"].dtype}
    if kinds != {np.dtype(np.float32), np.dtype(np.float16)}:
        return None
    to = importlib.import_module("onnx.helper").np_dtype_to_tensor_dtype(s.outputs["y"].dtype)
    return _attempt(s, [("Cast", ["x"], ["out"], {"to": to})], {"out": "y"})


@LIBRARY.peer("logsumexp")
def _(s: Subject) -> Attempt | None:
    if not _plain(s):
        return None
    attributes = {"axes": [-1], "keepdims": 0}
    return _attempt(s, [("ReduceLogSumExp", ["x"], ["out"], attributes)], {"out": "y"})


@LIBRARY.peer("gemv")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.bias is not None:
        return None
    return _attempt(s, [("Gemm", ["x", "w"], ["out"], {"transB": 1})], {"out": "y"})
