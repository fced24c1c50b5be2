"""Kernels built by hand for tests: a builder that knows the parameters and the launch."""

from typing import Any

from iron.dtypes import DType, i32
from iron.errors import Loc
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Param, Value
from iron.ir.types import Type, tensor


class Handmade:
    """Emits the body of one kernel whose grid is passed to the interpreter directly."""

    def __init__(
        self,
        *,
        threads: int = 4,
        simd: int = 4,
        rank: int = 1,
        fold: bool = True,
        index: DType = i32,
        file: str = "kernel.py",
    ) -> None:
        self.threads, self.simd, self.rank, self.index, self.file = threads, simd, rank, index, file
        self.params: list[Param] = []
        self.body = Block()
        self.b = Builder(fold=fold)
        self._open = self.b.into(self.body, {})
        self._open.__enter__()
        self.values: dict[str, Value] = {}

    def param(self, name: str, role: str, t: Type) -> Value:
        """A parameter; give tensors first, then scalars, then dims."""
        self.params.append(Param(name, role, t))
        self.values[name] = Value(t, None, name)
        return self.values[name]

    def tensor(self, name: str, elem: DType, space: str = "in", rank: int = 1) -> Value:
        return self.param(name, "tensor", tensor(elem, rank, space))

    def scalar(self, name: str, t: DType) -> Value:
        return self.param(name, "scalar", t)

    def dim(self, name: str) -> Value:
        return self.param(name, "dim", self.index)

    def at(self, line: int) -> None:
        """What is emitted next stands on this line."""
        self.b.loc = Loc(self.file, line, 4, 9)

    def emit(self, name: str, *args: Value, attrs: tuple[Any, ...] = (), **rest: Any) -> Value:
        return self.b.emit(name, *args, attrs=attrs, **rest)

    def do(self, name: str, *args: Value, attrs: tuple[Any, ...] = (), regions: Any = ()) -> Any:
        return self.b.emit_all(name, args, attrs, regions)

    def const(self, value: Any, t: Type = i32) -> Value:
        return self.b.const(value, t)

    def thread(self) -> Value:
        return self.emit("thread", attrs=(self.index,))

    def group(self, axis: int = 0) -> Value:
        return self.emit("group", attrs=(axis, self.index))

    def place(self) -> Value:
        """group * threads + thread."""
        start = self.emit("mul", self.group(), self.const(self.threads, self.index))
        return self.emit("add", start, self.thread())

    def load(self, buffer: Value, *at: Value, count: int = 0) -> Value:
        return self.emit("load", buffer, *at, attrs=(count,))

    def store(self, buffer: Value, *rest: Value) -> None:
        self.do("store", buffer, *rest)

    def function(self, name: str, t: Type) -> Block:
        """The region `name(a, b)` of a reduction."""
        a, b = Value(t), Value(t)
        with self.b.block((a, b)) as block:
            self.do("yield", self.emit(name, a, b))
        return block

    def done(self) -> Kernel:
        """The kernel, launched with one group on each axis by its own host block."""
        self._open.__exit__(None, None, None)
        self.body.params = tuple(self.values[p.name] for p in self.params)
        host_params = tuple(Value(p.type, None, p.name) for p in self.params if p.role != "tensor")
        with self.b.block(host_params) as host:
            self.do("yield", *(self.const(1, self.index) for _ in range(self.rank)))
        return Kernel(
            "handmade",
            tuple(self.params),
            self.body,
            host,
            self.rank,
            self.threads,
            self.simd,
            (),
            self.index,
        )
