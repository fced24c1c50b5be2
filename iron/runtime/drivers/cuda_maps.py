"""Tensor maps: how bulk copies of a kernel see its arguments, encoded once for each argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iron.backends.tensor_maps import ALIGNMENT, TensorMap
from iron.dtypes import DType, bf16, f16, f32
from iron.runtime.drivers.choice import Place
from iron.runtime.drivers.cuda_api import Api

MOST = 4096
"""Maps that are remembered; a program that makes more starts anew."""

Key = tuple[TensorMap, int, tuple[int, ...], tuple[int, ...]]


class Maps:
    """The maps of one device, by what they are made from."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._known: dict[Key, Any] = {}

    def map(self, wanted: TensorMap, place: Place, dims: Mapping[str, int]) -> Any:
        """The driver's map of an argument that lies at `place`; `int(map.getPtr())` is where."""
        sizes = [self._size(wanted, axis, place, dims) for axis in range(len(wanted.box))]
        key = (wanted, place.pointer, tuple(sizes), place.strides)
        if key not in self._known:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = self._encoded(wanted, place, sizes)
        return self._known[key]

    @staticmethod
    def _size(wanted: TensorMap, axis: int, place: Place, dims: Mapping[str, int]) -> int:
        """An empty axis is not copied from; the driver wants one element there."""
        size = wanted.extents[axis]
        if isinstance(size, str):
            size = int(dims[size]) if size else place.shape[axis]
        return max(1, size)

    def _encoded(self, wanted: TensorMap, place: Place, sizes: list[int]) -> Any:
        cu = self.api.binding
        # An axis of one element may have any stride; the driver wants multiples of 16 bytes.
        steps = [
            s * place.size if n > 1 else ALIGNMENT
            for n, s in zip(sizes[:-1], place.strides[:-1], strict=True)
        ]
        pointer, box = place.pointer, wanted.box
        if wanted.ended is not None:
            length, step = sizes[wanted.ended], steps[wanted.ended]
            pointer, box = pointer - length * step, (1, *box)
            sizes, steps = [length + 1, *sizes], [step, *steps]
        word, long = cu.cuuint32_t, cu.cuuint64_t
        return self.api.call(
            "cuTensorMapEncodeTiled",
            self._type(wanted.dtype),
            len(sizes),
            pointer,
            [long(n) for n in reversed(sizes)],
            [long(s) for s in reversed(steps)],
            [word(n) for n in reversed(box)],
            [word(1)] * len(sizes),
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            cu.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )

    def _type(self, dtype: DType) -> Any:
        names = {bf16: "BFLOAT16", f16: "FLOAT16", f32: "FLOAT32"}
        name = names.get(dtype, f"UINT{dtype.bits}")
        return getattr(self.api.binding.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}")
