"""The model in the memory of a Vulkan device: its arrays stay there, tokens and logits travel."""

from pathlib import Path
from typing import Any

import numpy as np

from examples.smollm2.model import Array, Model
from iron.kernels.ops.copy import copy
from iron.quant.tensor import QTensor
from iron.runtime.current import use
from iron.runtime.driver import driver


class VulkanModel(Model):
    """`Model` on a Vulkan device, the first one unless `opened` is given."""

    def __init__(self, path: Path, capacity: int = 1024, *, opened: Any = None) -> None:
        self.driver = opened or driver("vulkan")
        self._held: dict[str, QTensor] = {}
        self._moves: dict[tuple[int, int, int], Any] = {}
        use(self.driver)
        super().__init__(path, capacity)

    def zeros(self, shape: Any, dtype: Any = np.float32) -> Any:
        """New memory of the device."""
        return self.driver.upload(np.zeros(shape, dtype))

    def put(self, array: Array) -> Any:
        """A copy on the device."""
        return self.driver.upload(np.asarray(array))

    def weight(self, name: str) -> QTensor:
        """The planes of a weight, copied to the device once."""
        if name not in self._held:
            held = self.file.weight(name)
            planes: Any = {plane: self.put(array) for plane, array in held.planes.items()}
            self._held[name] = QTensor(held.fmt, planes, held.shape)
        return self._held[name]

    def matrix(self, name: str) -> QTensor:
        """The weight as the file holds it."""
        return self.weight(name)

    def spread(self, array: Any, count: int) -> Any:
        """A view with a stride of zero."""
        return array.spread(count)

    def write(self, array: Any, values: Any) -> None:
        """Copies from the host."""
        self.driver.write(array, np.array(list(values), array.dtype.np))

    def read(self, array: Any) -> Array:
        """A copy on the host."""
        return self.driver.download(array)

    def move(self, row: Any, to: Any) -> None:
        """Copies on the device; the same rows again without asking anew."""
        key = (row.seen.pointer, to.seen.pointer, row.shape[-1])
        if key not in self._moves:
            self._moves[key] = copy.bind(x=row, y=to)
        self._moves[key]()

    def copy(self, row: Any) -> Any:
        """A copy on the device."""
        made = self.driver.empty(row.shape, row.dtype)
        copy(x=row, y=made)
        return made
