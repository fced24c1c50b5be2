"""ggml, the library inside llama.cpp, on the CPU, through its C interface.

It comes with llama-cpp-python, built for the machine it is installed on, or with libggml-python,
built for any x86-64. Weights lie in the order that ggml repacks them into. ggml rounds activations
to 8 bits before it multiplies them with quantised weights.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

from iron.bench.peers.record import Attempt, Library, Subject
from iron.check.tolerance import Array
from iron.dtypes import DType, bf16, f16, f32
from iron.quant.format.tiled import SUFFIX
from iron.quant.pack import unpack
from iron.quant.repack import repack
from iron.quant.tensor import QTensor

PLACES: Final = (("llama_cpp", "lib", "llama-cpp-python"), ("libggml", "lib64", "libggml-python"))
EIGHT_BITS: Final = 2.0**-7
SUMS_IN_F16: Final = 2.0**-8
"""What adding up thousands of values in f16 costs, as its attention does with an f16 cache."""
F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30
DENSE: Final = {f32: F32, f16: F16, bf16: BF16}
BLOCKS: Final = (Q4_0, Q4_1, Q8_0)
FORMATS: Final = {
    "gguf_q4_0": Q4_0,
    "gguf_q4_1": Q4_1,
    "gguf_q8_0": Q8_0,
    "int4_sym_g32_f16_r32": Q4_0,
    "mlx_int4_g32_r32": Q4_1,
    "int8_sym_g32_f16_r32": Q8_0,
}
"""Formats of Iron and the ggml type of the same size and rule."""

POINTER: Final = ctypes.c_void_p
CONTEXT_BYTES: Final = 1 << 20
BUFFER_FIELD: Final = 8
"""Byte of `ggml_tensor` at which its buffer stands, after its type."""


class Parameters(ctypes.Structure):
    """`ggml_init_params`."""

    _fields_ = (
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", POINTER),
        ("no_alloc", ctypes.c_bool),
    )


@dataclass(frozen=True, slots=True)
class Api:
    """The functions used, by name, with their C types set."""

    base: Any
    cpu: Any

    def __call__(self, name: str, *arguments: Any, result: Any = POINTER) -> Any:
        """Calls a function of either library; integers and floats go as C int and float."""
        function = getattr(self.base, name, None) or getattr(self.cpu, name)
        function.restype = result
        return function(*(_c(a) for a in arguments))


def _c(value: Any) -> Any:
    if isinstance(value, float):
        return ctypes.c_float(value)
    return POINTER(value.value) if isinstance(value, Address) else value


@dataclass(frozen=True, slots=True)
class Address:
    """A pointer that ggml gave."""

    value: int | None


def _version(device: str) -> str | None:
    if device != "cpu":
        return None
    for module, folder, package in PLACES:
        found = importlib.util.find_spec(module)
        if found is None or found.origin is None:
            continue
        if (Path(found.origin).parent / folder).is_dir():
            level = "avx512" if api()("ggml_cpu_has_avx512", result=ctypes.c_int) else "avx2"
            return f"{package} {metadata.version(package)} {level}"
    return None


LIBRARY = Library("ggml", _version)


@cache
def api() -> Api:
    """Both libraries, of the first package that is installed."""
    for module, folder, _ in PLACES:
        found = importlib.util.find_spec(module)
        if found is None or found.origin is None:
            continue
        place = Path(found.origin).parent / folder
        base, cpu = (
            sorted(place.glob(f"libggml-{n}.so*"), key=_plainness) for n in ("base", "cpu")
        )
        if base and cpu:
            return Api(*(ctypes.CDLL(str(p[0]), os.RTLD_GLOBAL | os.RTLD_NOW) for p in (base, cpu)))
    raise ImportError("no package with ggml is installed")


def _plainness(path: Path) -> int:
    return len(path.name)


class Graph:
    """One computation: weights in their own buffer, inputs and the result in another."""

    def __init__(self, threads: int) -> None:
        self.ggml = api()
        self.backend = Address(self.ggml("ggml_backend_cpu_init"))
        self.ggml("ggml_backend_cpu_set_n_threads", self.backend, threads, result=None)
        self.weights, self.context = self._context(), self._context()
        self.pending: list[tuple[Address, Array]] = []

    def _context(self) -> Address:
        return Address(self.ggml("ggml_init", Parameters(CONTEXT_BYTES, None, True)))

    def tensor(self, kind: int, shape: Sequence[int], data: Array, weight: bool = False) -> Address:
        """A tensor of the numpy shape, innermost last, that will hold `data`'s bytes."""
        extents = [ctypes.c_int64(n) for n in (*reversed(shape), *[1] * (4 - len(shape)))]
        where = self.weights if weight else self.context
        made = Address(self.ggml("ggml_new_tensor_4d", where, kind, *extents))
        self.pending.append((made, data))
        return made

    def op(self, name: str, *arguments: Any) -> Address:
        """The result of an operation."""
        return Address(self.ggml(name, self.context, *arguments))

    def attempt(
        self, result: Address, s: Subject, output: str, rounds: DType | float | None
    ) -> Attempt:
        """The graph that ends in `result`, written to the kernel's output `output` as f32."""
        ggml = self.ggml
        graph = Address(ggml("ggml_new_graph", self.context))
        ggml("ggml_build_forward_expand", graph, result, result=None)
        self._allocate(result)
        for tensor, data in self.pending:
            size = ctypes.c_size_t(data.nbytes)
            address = POINTER(data.__array_interface__["data"][0])
            ggml("ggml_backend_tensor_set", tensor, address, ctypes.c_size_t(0), size, result=None)
        want = s.outputs[output]
        held = np.empty(want.shape, np.float32)

        def call() -> None:
            ggml("ggml_backend_graph_compute", self.backend, graph, result=ctypes.c_int)

        def results() -> dict[str, Array]:
            address = POINTER(held.__array_interface__["data"][0])
            size = ctypes.c_size_t(held.nbytes)
            ggml("ggml_backend_tensor_get", result, address, ctypes.c_size_t(0), size, result=None)
            return {output: held.astype(want.dtype)}

        return Attempt(call, results, rounds)

    def _allocate(self, result: Address) -> None:
        ggml = self.ggml
        kind = self._repacked(result)
        if kind is None:
            ggml("ggml_backend_alloc_ctx_tensors", self.weights, self.backend)
        else:
            ggml("ggml_backend_alloc_ctx_tensors_from_buft", self.weights, kind)
        ggml("ggml_backend_alloc_ctx_tensors", self.context, self.backend)

    def _repacked(self, result: Address) -> Address | None:
        """The kind of buffer that llama.cpp would put the weight into, where it is a special one.

        As there: the first whose device can compute `result` with the weight in such a buffer.
        """
        ggml = self.ggml
        weight = Address(ggml("ggml_get_first_tensor", self.weights))
        if weight.value is None:
            return None
        held = POINTER.from_address(weight.value + BUFFER_FIELD)
        for kind, device in self._special():
            buffer = Address(ggml("ggml_backend_buft_alloc_buffer", kind, ctypes.c_size_t(0)))
            held.value = buffer.value
            able = ggml("ggml_backend_dev_supports_op", device, result, result=ctypes.c_bool)
            held.value = None
            ggml("ggml_backend_buffer_free", buffer, result=None)
            if able:
                return kind
        return None

    def _special(self) -> Iterator[tuple[Address, Address]]:
        """The special kinds of buffers of the CPU, and the device."""
        ggml = self.ggml
        device = Address(ggml("ggml_backend_get_device", self.backend))
        registry = Address(ggml("ggml_backend_dev_backend_reg", device))
        name = b"ggml_backend_dev_get_extra_bufts"
        found = ggml("ggml_backend_reg_get_proc_address", registry, name)
        if not found:
            return
        kinds = ctypes.CFUNCTYPE(ctypes.POINTER(POINTER), POINTER)(found)(POINTER(device.value))
        at = 0
        while kinds and kinds[at]:
            yield Address(kinds[at]), device
            at += 1


def raw_blocks(w: QTensor, kind: int) -> Array:
    """The weights as the bytes of a ggml type, code for code."""
    if "blocks" in w.planes:
        return np.ascontiguousarray(w.planes["blocks"])
    stream = repack(w, w.fmt.name.removesuffix(SUFFIX))
    codes = unpack(stream.planes["codes"], stream.fmt.bits, stream.cols)
    parts = codes.reshape(stream.rows, -1, 32)
    if stream.fmt.bits == 4:
        parts = parts[..., :16] | (parts[..., 16:] << np.uint8(4))
    else:
        parts = parts ^ np.uint8(0x80)  # ggml's bytes are signed, these count from -128
    factors = [
        np.ascontiguousarray(stream.planes[n].astype(np.float16)).view(np.uint8)
        for n in ("scales", "biases")
        if n in stream.planes
    ]
    columns = [f.reshape(*parts.shape[:2], 2) for f in factors]
    return np.concatenate([*columns, parts.view(np.uint8)], -1)


def _product(s: Subject, kind: int, weight: Array, shape: tuple[int, ...], rounds: Any) -> Attempt:
    graph = Graph(s.threads)
    x = np.ascontiguousarray(s.x, np.float32)
    w = graph.tensor(kind, shape, weight, weight=kind in BLOCKS)
    result = graph.op("ggml_mul_mat", w, graph.tensor(F32, x.shape, x))
    return graph.attempt(result, s, "y", rounds)


@LIBRARY.peer("gemv")
def _(s: Subject) -> Attempt | None:
    if s.bias is not None:
        return None
    dtype = s.dtypes["T"]
    return _product(s, DENSE[dtype], s.w, s.w.shape, dtype)


@LIBRARY.peer("qmv")
@LIBRARY.peer("qmv_q8")
def _(s: Subject) -> Attempt | None:
    w = s.w
    kind = FORMATS.get(w.fmt.name) if isinstance(w, QTensor) else None
    if kind is None or s.bias is not None or s.residual is not None:
        return None
    return _product(s, kind, raw_blocks(w, kind), w.shape, EIGHT_BITS)


@LIBRARY.peer("sdpa_decode")
@LIBRARY.peer("sdpa_decode_two_pass")
def _(s: Subject) -> Attempt | None:
    plain = s.mask is None and s.sink is None and not s.softcap and not s.window
    whole = bool((np.asarray(s.used) == s.k.shape[2]).all())
    if not plain or not whole or s.dtypes["C"] is not f16:
        return None
    graph = Graph(s.threads)
    b, h, d = s.q.shape
    query = np.ascontiguousarray(s.q, np.float32).reshape(b, h, 1, d)
    q = graph.tensor(F32, query.shape, query)
    k, v = (graph.tensor(F16, a.shape, np.ascontiguousarray(a)) for a in (s.k, s.v))
    scale = float(s.arguments["scale"])
    result = graph.op("ggml_flash_attn_ext", q, k, v, None, scale, 0.0, 0.0)
    return graph.attempt(result, s, "o", SUMS_IN_F16)


def _rows(kernel: str) -> Callable[[Callable[[Subject, Graph], Address | None]], Any]:
    """Decorator: a peer on f32 arrays whose graph the function builds."""

    def add(build: Callable[[Subject, Graph], Address | None]) -> Any:
        def peer(s: Subject) -> Attempt | None:
            if any(t is not f32 for t in s.dtypes.values()):
                return None
            graph = Graph(s.threads)
            result = build(s, graph)
            return None if result is None else graph.attempt(result, s, "y", None)

        LIBRARY.peer(kernel)(peer)
        return build

    return add


@_rows("softmax")
def _(s: Subject, graph: Graph) -> Address | None:
    if s.mask is not None or s.arguments["scale"] != 1.0 or s.consts.get("LOG"):
        return None
    return graph.op("ggml_soft_max", graph.tensor(F32, s.x.shape, s.x))


@_rows("gated_activation")
def _(s: Subject, graph: Graph) -> Address | None:
    if s.consts.get("VARIANT", "swiglu") != "swiglu" or s.gate_bias is not None:
        return None
    g, u = (graph.tensor(F32, a.shape, a) for a in (s.g, s.u))
    return graph.op("ggml_swiglu_split", g, u)


@_rows("rms_norm")
def _(s: Subject, graph: Graph) -> Address | None:
    if s.residual is not None or s.w is None or s.consts.get("L2") or s.consts.get("ONE_PLUS"):
        return None
    unit = graph.op("ggml_rms_norm", graph.tensor(F32, s.x.shape, s.x), float(s.eps))
    return graph.op("ggml_mul", unit, graph.tensor(F32, s.w.shape, s.w))
