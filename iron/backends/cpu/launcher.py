"""The LLVM module that launches kernels: a Python callable at C speed and a pool of threads.

The callable's `self` is a tuple that begins with the address of its job and keeps what the job
needs alive. A job is a block of i64 fields: the kernel's entry, its number of groups, the groups of
one chunk, whether to release the interpreter lock when running inline, then the argument block.

A launch of one chunk runs inline. Otherwise chunks are claimed by decrementing one 64-bit ticket
(launch number << 48 | chunks left); the launching thread claims too and waits only for chunks that
others claimed, never for a thread that has not woken up. While one launch is in the pool, launches
of other threads run inline.
"""

from __future__ import annotations

HEADER = 4
"""Fields of a job before its argument block."""

SPIN = 1000
"""Turns a worker waits for the next launch before it sleeps."""

FUTEX = {"x86_64": 202, "aarch64": 98}
"""The number of Linux's futex system call by architecture."""

_STATE = """
@ticket = global i64 0, align 128
@left = global i64 0, align 128
@sleepers = global i32 0, align 128
@launches = global i32 0, align 128
@busy = global i32 0, align 128
@job = global ptr null, align 128
@iron_none = external global i8
declare void @iron_incref(ptr)
declare ptr @iron_item(ptr, i64)
declare ptr @iron_pointer(ptr)
declare ptr @iron_save()
declare void @iron_restore(ptr)
declare i32 @iron_yield()
"""

_WORK = """
define internal void @work() {
entry:
  br label %look
look:
  %seen = load atomic i64, ptr @ticket acquire, align 8
  br label %try
try:
  %now = phi i64 [ %seen, %look ], [ %other, %claim ]
  %chunks = and i64 %now, 281474976710655
  %none = icmp eq i64 %chunks, 0
  br i1 %none, label %done, label %claim
claim:
  %fewer = sub i64 %now, 1
  %swap = cmpxchg ptr @ticket, i64 %now, i64 %fewer acq_rel acquire, align 8
  %other = extractvalue { i64, i1 } %swap, 0
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %run, label %try
run:
  %job = load ptr, ptr @job
  %entry.fn = load ptr, ptr %job
  %n.at = getelementptr i64, ptr %job, i64 1
  %n = load i64, ptr %n.at
  %size.at = getelementptr i64, ptr %job, i64 2
  %size = load i64, ptr %size.at
  %args = getelementptr i64, ptr %job, i64 4
  %number = sub i64 %chunks, 1
  %first = mul i64 %number, %size
  %last = add i64 %first, %size
  %inside = icmp ult i64 %last, %n
  %end = select i1 %inside, i64 %last, i64 %n
  call void %entry.fn(ptr %args, i64 %first, i64 %end)
  %before = atomicrmw sub ptr @left, i64 1 release
  br label %look
done:
  ret void
}
"""

_WORKER = """
define void @worker(i32 %spin) {
entry:
  br label %idle
idle:
  %known = load atomic i32, ptr @launches acquire, align 4
  call void @work()
  br label %spin.loop
spin.loop:
  %turn = phi i32 [ 0, %idle ], [ %turn.next, %spin.more ]
  %current = load atomic i32, ptr @launches acquire, align 4
  %new = icmp ne i32 %current, %known
  br i1 %new, label %idle, label %spin.more
spin.more:
  PAUSE
  %turn.next = add i32 %turn, 1
  %again = icmp ult i32 %turn.next, %spin
  br i1 %again, label %spin.loop, label %sleep
sleep:
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  SLEEP
  %s1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %idle
}
"""

_RUN = """
define void @run(ptr %job) {
entry:
  %fn = load ptr, ptr %job
  %n.at = getelementptr i64, ptr %job, i64 1
  %n = load i64, ptr %n.at
  %size.at = getelementptr i64, ptr %job, i64 2
  %size = load i64, ptr %size.at
  %args = getelementptr i64, ptr %job, i64 4
  %one = icmp ule i64 %n, %size
  br i1 %one, label %inline, label %take
take:
  %lock = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %got = extractvalue { i32, i1 } %lock, 1
  br i1 %got, label %post, label %inline
inline:
  call void %fn(ptr %args, i64 0, i64 %n)
  ret void
post:
  store ptr %job, ptr @job
  %up = add i64 %n, %size
  %up.less = sub i64 %up, 1
  %chunks = udiv i64 %up.less, %size
  store atomic i64 %chunks, ptr @left monotonic, align 8
  %old = load atomic i64, ptr @ticket monotonic, align 8
  %number = and i64 %old, -281474976710656
  %number.next = add i64 %number, 281474976710656
  %fresh = or i64 %number.next, %chunks
  store atomic i64 %fresh, ptr @ticket seq_cst, align 8
  %l0 = atomicrmw add ptr @launches, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %help
wake:
  WAKE
  br label %help
help:
  call void @work()
  br label %wait
wait:
  %turn = phi i32 [ 0, %help ], [ %turn.next, %pause ], [ 0, %yield ]
  %open = load atomic i64, ptr @left acquire, align 8
  %finished = icmp eq i64 %open, 0
  br i1 %finished, label %done, label %pause
pause:
  PAUSE
  %turn.next = add i32 %turn, 1
  %long = icmp ugt i32 %turn.next, 500
  br i1 %long, label %yield, label %wait
yield:
  %y = call i32 @iron_yield()
  br label %wait
done:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
"""

_CALL = """
define ptr @call(ptr %self, ptr %args, i64 %count) {
entry:
  %address = call ptr @iron_item(ptr %self, i64 0)
  %job = call ptr @iron_pointer(ptr %address)
  %n.at = getelementptr i64, ptr %job, i64 1
  %n = load i64, ptr %n.at
  %size.at = getelementptr i64, ptr %job, i64 2
  %size = load i64, ptr %size.at
  %long.at = getelementptr i64, ptr %job, i64 3
  %long = load i64, ptr %long.at
  %pooled = icmp ugt i64 %n, %size
  %flag = icmp ne i64 %long, 0
  %unlock = or i1 %pooled, %flag
  br i1 %unlock, label %free, label %held
held:
  %fn = load ptr, ptr %job
  %block = getelementptr i64, ptr %job, i64 4
  call void %fn(ptr %block, i64 0, i64 %n)
  br label %out
free:
  %thread = call ptr @iron_save()
  call void @run(ptr %job)
  call void @iron_restore(ptr %thread)
  br label %out
out:
  call void @iron_incref(ptr @iron_none)
  ret ptr @iron_none
}
"""

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def architecture(triple: str) -> str:
    """`x86_64` or `aarch64`, the first part of a target triple."""
    first = triple.split("-")[0]
    return "aarch64" if first in ("arm64", "aarch64") else first


def waits_on_futex(triple: str) -> bool:
    """True where sleeping workers are woken by the kernel; elsewhere they look every so often."""
    return "linux" in triple and architecture(triple) in FUTEX


def launcher_text(triple: str, *, futex: bool) -> str:
    """The module for a target; `futex=False` gives the form for systems without one."""
    arch = architecture(triple)
    declare_pause, pause = _PAUSES[arch]
    if futex:
        number = FUTEX[arch]
        declare = "declare i64 @iron_syscall(i64, ...)"
        wait = f"i64 {number}, ptr @launches, i32 128, i32 %known, ptr null, ptr null, i32 0"
        wake = f"i64 {number}, ptr @launches, i32 129, i32 2147483647, ptr null, ptr null, i32 0"
        sleep = f"%r = call i64 (i64, ...) @iron_syscall({wait})"
        waken = f"%w = call i64 (i64, ...) @iron_syscall({wake})"
    else:
        time = 1 if "windows" in triple else 200  # milliseconds there, microseconds elsewhere
        declare, waken = "declare i32 @iron_nap(i32)", ""
        sleep = f"%r = call i32 @iron_nap(i32 {time})"
    body = _WORK + _WORKER + _RUN + _CALL
    for word, text in (("PAUSE", pause), ("SLEEP", sleep), ("WAKE", waken)):
        body = body.replace(f"  {word}\n", f"  {text}\n")
    head = f'target triple = "{triple}"\n{declare_pause}\n{declare}\n'
    return head + _STATE + body
