"""The model in a GPU's memory: PyTorch holds the arrays, Iron's kernels do the work.

With `graphs` the launches of a step are recorded once and replayed as one CUDA graph.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from examples.smollm2.model import Array, Model, Step
from iron.quant.tensor import QTensor
from iron.runtime.driver import driver

KINDS = {np.dtype(np.float32): torch.float32, np.dtype(np.uint32): torch.uint32}


class DeviceModel(Model):
    """`Model` on the first NVIDIA GPU."""

    def __init__(self, path: Path, capacity: int = 1024, *, graphs: bool = True) -> None:
        self.graphs: dict[int, Any] | None = {} if graphs else None
        super().__init__(path, capacity)

    def zeros(self, shape: Any, dtype: Any = np.float32) -> Any:
        """New memory of the device."""
        return torch.zeros(shape, dtype=KINDS[np.dtype(dtype)], device="cuda")

    def put(self, array: Array) -> Any:
        """A copy on the device."""
        return driver("cuda").upload(np.asarray(array))

    def weight(self, name: str) -> QTensor:
        """The planes of a weight, copied to the device."""
        held = self.file.weight(name)
        planes: Any = {plane: self.put(array) for plane, array in held.planes.items()}
        return QTensor(held.fmt, planes, held.shape)

    def matrix(self, name: str) -> QTensor:
        """The weight as the file holds it."""
        return self.weight(name)

    def spread(self, array: Any, count: int) -> Any:
        """A view with a stride of zero."""
        return array.expand(count, *array.shape)

    def write(self, array: Any, values: Any) -> None:
        """Copies from the host."""
        array.copy_(torch.from_numpy(np.array(list(values), np.uint32)))

    def copy(self, row: Any) -> Any:
        """A copy on the device."""
        return row.clone()

    def run(self, step: Step) -> None:
        """The launches, or one graph of them: the first run compiles, the second is recorded."""
        if self.graphs is None or step.count not in self.graphs:
            super().run(step)
            if self.graphs is not None:
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    super().run(step)
                self.graphs[step.count] = graph
            return
        self.graphs[step.count].replay()
