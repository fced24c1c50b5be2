"""Calls: arguments checked, a specialisation chosen, outputs allocated, the kernel launched.

The only caller of a driver. No caller ever gives a grid or a thread count: both come from the
kernel's own expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from iron.errors import KernelError, error
from iron.front.bind import Binding, PackedArg, TensorArg
from iron.front.bind import bind as bind_arguments
from iron.front.specialise import traced
from iron.ir.core import Kernel, Require
from iron.ir.host import evaluate
from iron.lang.declare import KernelFunction, PlanFunction
from iron.lang.dim import evaluate as size_of
from iron.lang.parameter import ParamSpec
from iron.quant.tensor import QTensor
from iron.runtime import plan, tune
from iron.runtime.aliasing import check_overlaps, check_self_overlap
from iron.runtime.arguments import Arguments, Declared, arrange
from iron.runtime.arrays import Array, allocate, describe
from iron.runtime.current import for_arrays
from iron.runtime.driver import Driver, Executable
from iron.runtime.scalars import convert
from iron.runtime.specialisation import Specialised, candidates, load


@dataclass(frozen=True, slots=True)
class Handle:
    """A kernel or plan with everything checked, compiled and allocated; calling it launches again.

    `results` are the outputs in declared order, in the caller's own array type. The arguments'
    memory is kept alive and read afresh at each call.
    """

    launch: Callable[[], None]
    results: tuple[Any, ...]
    kept: tuple[Any, ...]
    executables: tuple[Executable, ...] = ()

    def __call__(self) -> Any:
        """Launches and returns the outputs: one itself, several as a tuple, none as None."""
        self.launch()
        return self.outputs

    @property
    def outputs(self) -> Any:
        """The outputs as a call returns them."""
        if len(self.results) == 1:
            return self.results[0]
        return self.results or None

    def resources(self) -> dict[str, int]:
        """The largest figure of each kind that the backend reports of the kernels launched.

        Such as registers, bytes spilled and bytes of group memory; nothing on a host.
        """
        out: dict[str, int] = {}
        for executable in self.executables:
            told = getattr(executable, "resources", None)
            for name, figure in (told() if told else {}).items():
                out[name] = max(figure, out.get(name, 0))
        return out


def call(
    fn: KernelFunction | PlanFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Launches `fn` and returns its outputs, allocated beside the inputs unless given.

    Errors, all before anything is launched: E0701 wrong argument, E0702 failed requirement, E0703
    missing or unknown argument, E0704 overlapping memory, E0705 mixed devices, E0707 a size or
    dtype that nothing gives; and whatever compiling the kernel reports.
    """
    handle = bind(fn, args, kwargs)
    opened = plan.recording()
    if opened is not None:
        opened.steps.append(handle)
        return handle.outputs
    return handle()


def bind(
    fn: KernelFunction | PlanFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Handle:
    """A handle whose call costs one launch; errors as for `call`."""
    arguments = arrange(fn, args, kwargs)
    arrays, described, numbers = _described(fn, arguments)
    driver = for_arrays(arrays.items(), fn.name)
    if isinstance(fn, PlanFunction):
        return _bind_plan(fn, driver, arguments, arrays, described, numbers)
    found = _remembered(fn, driver, arguments, described, numbers)
    _allocate_missing(fn, arguments, found.binding, arrays)
    _check_memory(fn, found, arrays)
    specs = _tensors(fn)
    results = tuple(arrays[n].source for n, s in specs.items() if s.kind == "out")
    memory = {n: _device_form(a) for n, a in arrays.items()}
    executable = found.loaded.executable
    launch = executable.bind(memory, numbers, found.binding.dims, found.extents)
    return Handle(launch, results, tuple(a.owner for a in arrays.values()), (executable,))


def place(fn: KernelFunction, kwargs: Mapping[str, Any]) -> str:
    """Where a call with these arguments stands among tuned ones; see `tune.place`."""
    arguments = arrange(fn, (), kwargs)
    return tune.place(fn, _described(fn, arguments)[1], arguments.consts)


def lowered(fn: KernelFunction, kwargs: Mapping[str, Any]) -> Kernel:
    """What a call with these arguments runs, lowered for its driver; compiled but not launched."""
    arguments = arrange(fn, (), kwargs)
    arrays, described, numbers = _described(fn, arguments)
    driver = for_arrays(arrays.items(), fn.name)
    return _remembered(fn, driver, arguments, described, numbers).loaded.kernel


def prepare(
    fn: KernelFunction | PlanFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Compiles for these arguments without launching."""
    bind(fn, args, kwargs)


def _bind_plan(
    fn: PlanFunction,
    driver: Driver,
    arguments: Arguments,
    arrays: dict[str, Array],
    described: dict[str, Any],
    numbers: dict[str, Any],
) -> Handle:
    target = driver.target()
    binding = bind_arguments(
        fn,
        described,
        arguments.consts,
        arguments.dtypes,
        scalars=tuple(numbers),
        simd=target.simd,
        shared_bytes=target.shared_bytes,
    )
    _allocate_missing(fn, arguments, binding, arrays)
    outputs = {n: arrays[n].source for n, s in _tensors(fn).items() if s.kind == "out"}
    parameters = {**arguments.given, **outputs, **binding.consts}
    beside = next((a.source for n, a in arrays.items() if "." not in n), None)
    steps = plan.record(fn, parameters, binding.dims, binding.dtypes, beside)
    kept = tuple(a.owner for a in arrays.values())
    made = tuple(e for step in steps if isinstance(step, Handle) for e in step.executables)
    return Handle(_in_order(steps), tuple(outputs.values()), kept, made)


def _in_order(steps: tuple[plan.Step, ...]) -> Callable[[], None]:
    def run() -> None:
        for step in steps:
            step()

    return run


@dataclass(frozen=True, slots=True)
class Found:
    """The specialisation of a call, its dims and its launch extents."""

    loaded: Specialised
    binding: Binding
    extents: tuple[int, ...]


def _tensors(fn: Declared) -> dict[str, ParamSpec]:
    return {n: s for n, s in fn.signature.items() if isinstance(s, ParamSpec)}


def _described(
    fn: Declared, arguments: Arguments
) -> tuple[dict[str, Array], dict[str, Any], dict[str, Any]]:
    """The arrays by tensor parameter, what `front` needs to know of each, and the scalars."""
    arrays: dict[str, Array] = {}
    described: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for name, spec in _tensors(fn).items():
        value = arguments.given.get(name)
        if value is None:
            if spec.optional and spec.kind != "out":
                described[name] = None
        elif spec.kind == "scalar":
            numbers[name] = value
        elif spec.kind == "packed":
            described[name] = _packed(value, name, fn.name, arrays)
        else:
            arrays[name] = describe(value, name, fn.name)
            described[name] = _tensor_arg(arrays[name])
    return arrays, described, numbers


def _packed(value: Any, name: str, kernel: str, arrays: dict[str, Array]) -> PackedArg:
    if not isinstance(value, QTensor):
        raise error(
            "E0701",
            f"`{name}` is a {type(value).__name__}; it takes a QTensor",
            kernel=kernel,
            help="see iron.quant for reading and packing weights",
        )
    planes = {n: describe(p, f"{name}.{n}", kernel) for n, p in value.planes.items()}
    arrays.update({f"{name}.{n}": a for n, a in planes.items()})
    return PackedArg(value.fmt, {n: _tensor_arg(a) for n, a in planes.items()}, value.shape)


def _tensor_arg(array: Array) -> TensorArg:
    return TensorArg(array.dtype, array.shape, array.strides)


_CHOSEN: WeakKeyDictionary[KernelFunction, dict[Hashable, Found]] = WeakKeyDictionary()
MOST_REMEMBERED = 1024


def _remembered(
    fn: KernelFunction,
    driver: Driver,
    arguments: Arguments,
    described: dict[str, Any],
    numbers: dict[str, Any],
) -> Found:
    """As `_choose`; an earlier call with equal shapes, dtypes, Consts and scalars answers."""
    known = _CHOSEN.setdefault(fn, {})
    given = (*arguments.consts.items(), *numbers.items())
    typed = tuple((name, *_by_type(value)) for name, value in given)
    key = (driver, tuple(described.items()), typed, tuple(arguments.dtypes.items()))
    try:
        found = known.get(key)
    except TypeError:  # a packed weight, or a Const that has no hash
        return _choose(fn, driver, arguments, described, numbers)
    if found is not None and found.loaded.traced.current:
        _convert(fn, found.binding, numbers)
        return found
    if len(known) >= MOST_REMEMBERED:
        known.clear()
    known[key] = found = _choose(fn, driver, arguments, described, numbers)
    return found


def _by_type(value: Any) -> tuple[type, Any]:
    """1, 1.0 and True are different arguments, and so are 0.0 and -0.0."""
    return type(value), repr(value) if isinstance(value, float | np.floating) else value


def _convert(fn: KernelFunction, binding: Binding, numbers: dict[str, Any]) -> None:
    for name, dtype in binding.scalars.items():
        numbers[name] = convert(numbers[name], dtype, name, fn.name)


def _choose(
    fn: KernelFunction,
    driver: Driver,
    arguments: Arguments,
    described: dict[str, Any],
    numbers: dict[str, Any],
) -> Found:
    """The first of the kernel's choices whose requirements hold. Errors: E0702.

    The kernel's own requirements are checked on what the front end read, so that only a choice
    which can serve is compiled; then those that the passes add.
    """
    failure: KernelError | None = None
    unread: KernelError | None = None  # what failed for its Consts alone says less about the call
    target = driver.target()
    tuned = tune.known(fn, driver, described, arguments.consts)
    for consts in candidates(fn, target, arguments.consts, tuned):
        binding = bind_arguments(
            fn,
            described,
            consts,
            arguments.dtypes,
            scalars=tuple(numbers),
            simd=target.simd,
            shared_bytes=target.shared_bytes,
        )
        try:
            read = traced(fn, binding, target.simd)
        except KernelError as refused:
            if refused.id != "E0702":
                raise
            unread = unread or refused
            continue
        _convert(fn, binding, numbers)
        _, failed = evaluate(read.kernel, numbers, binding.dims)
        if not failed:
            loaded = load(read, driver)
            extents, failed = evaluate(loaded.kernel, numbers, binding.dims)
            if not failed:
                return Found(loaded, binding, extents)
        failure = failure or _refusal(fn, failed[0], binding, numbers)
    failure = failure or unread
    assert failure is not None
    raise failure


def _refusal(
    fn: KernelFunction, failed: Require, binding: Binding, numbers: Mapping[str, Any]
) -> KernelError:
    facts = [f"{n} = {v}" for n, v in {**binding.dims, **numbers}.items()]
    consts = [f"{n} = {v}" for n, v in binding.consts.items()]
    return error(
        "E0702",
        f"requirement failed: {failed.message}" if failed.message else "requirement failed",
        failed.loc,
        fn.name,
        (f"called with {', '.join(facts + consts)}",),
    )


def _allocate_missing(
    fn: Declared, arguments: Arguments, binding: Binding, arrays: dict[str, Array]
) -> None:
    beside = next((a.source for n, a in arrays.items() if "." not in n), None)
    known = {**binding.consts, **binding.dims}
    for name, spec in _tensors(fn).items():
        if spec.kind != "out" or name in arrays:
            continue
        bound = binding.tensors[name]
        assert bound is not None
        shape = bound.shape if spec.dims is None else tuple(size_of(d, known) for d in spec.dims)
        arrays[name] = allocate(shape, bound.dtype, beside, name, fn.name)


def _check_memory(fn: KernelFunction, found: Found, arrays: dict[str, Array]) -> None:
    specs = _tensors(fn)
    for name, spec in specs.items():
        if spec.kind in ("out", "inout") and name in arrays:
            if not arrays[name].writable:
                raise error("E0701", f"`{name}` is read-only and would be written", kernel=fn.name)
            check_self_overlap(name, arrays[name], fn.name)
    check_overlaps(arrays, specs, found.loaded.in_place, fn.name)


def _device_form(array: Array) -> Any:
    return array.host if array.host is not None else array
