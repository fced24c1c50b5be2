"""The forward pass: memory allocated once, every launch bound once, nothing else per token.

Weights stay quantised as the file holds them. A `Step` handles a fixed number of tokens at once;
running it writes their keys and values into the cache and leaves their logits.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from iron.kernels.gemm.qmv import qmv
from iron.kernels.gemm.qmv_q8 import qmv_codes
from iron.kernels.kv_cache.kv_append import kv_append
from iron.kernels.norm.rms_norm import add_rms_norm, rms_norm
from iron.kernels.ops.gated_activation import gated_activation
from iron.kernels.quant.dequant_gather import dequant_gather
from iron.kernels.quant.quantize_blocks import quantize_blocks
from iron.kernels.rope.rope import rope, turns
from iron.kernels.sdpa.decode import sdpa_decode
from iron.lang import KernelFunction
from iron.quant.read_gguf import GgufFile, read_gguf
from iron.quant.repack import to_tiles
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


SIZES = {
    "layers": "block_count",
    "width": "embedding_length",
    "inner": "feed_forward_length",
    "heads": "attention.head_count",
    "groups": "attention.head_count_kv",
    "head": "rope.dimension_count",
    "eps": "attention.layer_norm_rms_epsilon",
    "theta": "rope.freq_base",
}


def shape_of(file: GgufFile) -> SimpleNamespace:
    """The sizes that the file's metadata state. Raises ValueError for another kind of model."""
    for key in SIZES.values():
        if f"llama.{key}" not in file.metadata:
            raise ValueError(f"the file is no Llama model: it says nothing about {key}")
    return SimpleNamespace(**{name: file.metadata[f"llama.{k}"] for name, k in SIZES.items()})


class Model:
    """An open model with a cache of `capacity` positions; the head shares the embedding.

    With `codes`, products take activations in 8-bit codes (`qmv_q8`), else in f32.
    """

    def __init__(self, path: Path, capacity: int = 1024, *, codes: bool = False) -> None:
        self.path, self.file = path, read_gguf(path)
        self.shape = s = shape_of(self.file)
        self.capacity, self.codes = capacity, codes
        cells = (s.layers, s.groups, capacity, s.head)
        self.keys, self.values = self.zeros(cells), self.zeros(cells)
        self.turns = self.put(turns(s.theta ** (-2.0 * np.arange(s.head // 2) / s.head)))
        self.embedding = self.weight("token_embd.weight")
        self._steps: dict[int, Step] = {}

    def gain(self, layer: int, name: str) -> Array:
        """The weight of a norm; after the last layer, that of the output norm."""
        last = layer == self.shape.layers
        return self.put(
            self.file.array("output_norm.weight" if last else f"blk.{layer}.{name}.weight")
        )

    # What depends on where arrays live; `DeviceModel` and `VulkanModel` have other answers.

    def zeros(self, shape: Any, dtype: Any = np.float32) -> Array:
        """New memory."""
        return np.zeros(shape, dtype)

    def put(self, array: Array) -> Array:
        """An array of the file where kernels can read it."""
        return array

    def weight(self, name: str) -> QTensor:
        """A weight of the file where kernels can read it."""
        return self.file.weight(name)

    def matrix(self, name: str) -> QTensor:
        """A weight of the file as products take it: its rows laid side by side, once."""
        return to_tiles(self.file.weight(name))

    def spread(self, array: Array, count: int) -> Array:
        """`array` as a batch of `count`, without a copy."""
        return np.broadcast_to(array, (count, *array.shape))

    def write(self, array: Array, values: Any) -> None:
        """Sets every element of a small array."""
        array[:] = values

    def read(self, array: Array) -> Array:
        """A small array as the host sees it."""
        return array

    def move(self, row: Array, to: Array) -> None:
        """Copies a row to another array."""
        to[...] = row

    def copy(self, row: Array) -> Array:
        """A row that later steps leave alone."""
        return row.copy()

    def run(self, step: "Step") -> None:
        """Every launch of a step, in order."""
        for launch in step.launches:
            launch()

    def step(self, count: int) -> "Step":
        """The bound launches for `count` tokens at once, made on first use."""
        if count not in self._steps:
            self._steps[count] = Step(self, count)
        return self._steps[count]

    def forward(self, tokens: Sequence[int], start: int) -> Array:
        """Runs `tokens` at positions start, start + 1, ...; their logits, valid until the next run.

        At most 8 tokens at once, all inside the capacity.
        """
        if start + len(tokens) > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} positions")
        step = self.step(len(tokens))
        self.write(step.tokens, tokens)
        self.write(step.position, range(start, start + len(tokens)))
        self.write(step.used, range(start + 1, start + len(tokens) + 1))
        self.run(step)
        return step.logits


class Step:
    """The buffers and bound launches for a fixed number of tokens; every buffer serves all layers.

    Token i sees the cache up to its own position, so the tokens of one step are a batch of single
    queries over one shared cache. The residual stream alternates between two buffers.
    """

    def __init__(self, model: Model, count: int) -> None:
        s, self.model, self.count = model.shape, model, count
        self.tokens, self.position, self.used = (model.zeros(count, np.uint32) for _ in range(3))
        self.hidden, self.next, self.normed, self.out = (self._floats(s.width) for _ in range(4))
        self.query, self.turned, self.seen = (self._floats(s.heads, s.head) for _ in range(3))
        self.key, self.turned_key, self.value = (self._floats(s.groups, s.head) for _ in range(3))
        self.sums = self._floats(s.heads)
        self.gate, self.up, self.inner = (self._floats(s.inner) for _ in range(3))
        self.logits = self._floats(model.embedding.rows)
        self.coded: dict[int, dict[str, Any]] = {}
        self.launches: list[Callable[[], Any]] = []
        self._launch(dequant_gather, w=model.embedding, idx=self.tokens, y=self.hidden)
        gain = model.gain(0, "attn_norm")
        self._launch(rms_norm, x=self.hidden, w=gain, y=self.normed, eps=s.eps)
        for layer in range(s.layers):
            self._attention(layer)
            self._norm(layer, "ffn_norm")
            self._feed_forward(layer)
            self._norm(layer + 1, "attn_norm")
        self._code(self.normed)
        self._multiply("token_embd", self.normed, self.logits)

    def _floats(self, *extents: int) -> Array:
        return self.model.zeros((self.count, *extents))

    def _launch(self, kernel: KernelFunction, **arguments: Any) -> None:
        self.launches.append(kernel.bind(**arguments))

    def _code(self, x: Array) -> None:
        """Makes the codes of `x`, which products of `x` take until it changes."""
        if self.model.codes:
            x = x.reshape(self.count, -1)
            blocks = (self.count, x.shape[1] // 32)
            made = self.coded.setdefault(
                x.shape[1],
                {
                    "code": self.model.zeros(x.shape, np.int8),
                    "scale": self.model.zeros(blocks),
                    "total": self.model.zeros(blocks, np.int32),
                },
            )
            self._launch(quantize_blocks, x=x, **made)

    def _project(self, layer: int, name: str, x: Array, y: Array) -> None:
        self._multiply(f"blk.{layer}.{name}", x, y)

    def _multiply(self, name: str, x: Array, y: Array) -> None:
        x, y = x.reshape(self.count, -1), y.reshape(self.count, -1)
        weight = self.model.matrix(f"{name}.weight")
        if self.model.codes:
            self._launch(qmv_codes, **self.coded[x.shape[1]], w=weight, y=y)
        else:
            self._launch(qmv, x=x, w=weight, y=y)

    def _attention(self, layer: int) -> None:
        model, s = self.model, self.model.shape
        keys, values = model.keys[layer], model.values[layer]
        self._code(self.normed)
        for name, y in (("q", self.query), ("k", self.key), ("v", self.value)):
            self._project(layer, f"attn_{name}", self.normed, y)
        place = {"position": self.position, "frequency": model.turns, "scale": 1.0}
        for x, y in ((self.query, self.turned), (self.key, self.turned_key)):
            self._launch(rope, x=x, y=y, PAIRING="adjacent", **place)
        new = {"key": self.turned_key, "value": self.value, "position": self.position}
        self._launch(kv_append, keys=keys, values=values, **new)
        k, v = (model.spread(a, self.count) for a in (keys, values))
        made = {"o": self.seen, "lse": self.sums}
        options = {"scale": s.head**-0.5, "softcap": 0.0, "window": 0, "first": 0}
        self._launch(sdpa_decode, q=self.turned, k=k, v=v, used=self.used, **made, **options)
        self._code(self.seen)
        self._project(layer, "attn_output", self.seen, self.out)

    def _feed_forward(self, layer: int) -> None:
        self._code(self.normed)
        self._project(layer, "ffn_gate", self.normed, self.gate)
        self._project(layer, "ffn_up", self.normed, self.up)
        options = {"limit": 0.0, "alpha": 0.0, "VARIANT": "swiglu"}
        self._launch(gated_activation, g=self.gate, u=self.up, y=self.inner, **options)
        self._code(self.inner)
        self._project(layer, "ffn_down", self.inner, self.out)

    def _norm(self, layer: int, name: str) -> None:
        """next = hidden + out, normed = next normalised; then next becomes hidden."""
        given = {"x": self.out, "residual": self.hidden, "w": self.model.gain(layer, name)}
        made = {"y": self.normed, "h": self.next}
        self._launch(add_rms_norm, **given, **made, eps=self.model.shape.eps)
        self.hidden, self.next = self.next, self.hidden
