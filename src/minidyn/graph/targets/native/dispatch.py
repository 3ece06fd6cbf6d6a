"""The machine code behind the builtins: from the interpreter's arguments to arrays, and back to a result.

It is one function per process; each builtin carries a record (64-bit words) that says what to expect:

    0  address of `@single`, or 0       3  number of results
    1  address of `@rows`, or 0         4  samples from which the interpreter's lock is released
    2  number of arguments              5  first argument that varies with the sample, or -1
    6  per argument: size, 1 if uniform
    then per result: rank, size, address of its shape (with one free word in front, for the length of a batch)

Accepted are exact NumPy arrays, float64, C-contiguous and aligned: all vectors (one sample), or all matrices
of equal length (a batch), uniform arguments always vectors; and `out=` likewise where there is one result and
it does not touch the inputs. Everything else, every mistake included, goes to the general call with the same
arguments.
"""

from __future__ import annotations

from minidyn.graph.targets.native.text import FOOTER

MOST = 16
"""More arguments or results than this always take the general call."""

DATA, ND, DIMS, DESCR, FLAGS = 16, 24, 32, 56, 64
"""Offsets of fields in an array object (NumPy's stable ABI on 64-bit machines)."""

PLAIN = 0x1 | 0x100
"""Flags of an array that is C-contiguous and aligned."""

_WRITEABLE = 0x400
_NPY_DOUBLE = 12


def dispatch_text(items: int, known: dict[str, int]) -> str:
    """Return the module with `@dispatch`, a METH_FASTCALL | METH_KEYWORDS function.

    Args:
        items: Offset of the first item in a tuple object.
        known: Addresses: of the objects `ndarray`, `float64`, `None` and `out` (the interned name), and of
            the functions of the interpreter and of NumPy that are called.
    """
    call = {name: f"inttoptr (i64 {address} to ptr)" for name, address in known.items()}
    return f"""
define internal ptr @data(ptr %a, i64 %rank, i32 %need) noinline #0 {{
  %type.p = getelementptr i8, ptr %a, i64 8
  %type = load i64, ptr %type.p, align 8
  %is.array = icmp eq i64 %type, {known["ndarray"]}
  br i1 %is.array, label %fields, label %no
fields:
  %nd.p = getelementptr i8, ptr %a, i64 {ND}
  %nd = load i32, ptr %nd.p, align 4
  %descr.p = getelementptr i8, ptr %a, i64 {DESCR}
  %descr = load i64, ptr %descr.p, align 8
  %flags.p = getelementptr i8, ptr %a, i64 {FLAGS}
  %flags = load i32, ptr %flags.p, align 4
  %has = and i32 %flags, %need
  %rank32 = trunc i64 %rank to i32
  %ok1 = icmp eq i32 %nd, %rank32
  %ok2 = icmp eq i64 %descr, {known["float64"]}
  %ok3 = icmp eq i32 %has, %need
  %ok12 = and i1 %ok1, %ok2
  %ok = and i1 %ok12, %ok3
  br i1 %ok, label %yes, label %no
yes:
  %data.p = getelementptr i8, ptr %a, i64 {DATA}
  %data = load ptr, ptr %data.p, align 8
  ret ptr %data
no:
  ret ptr null
}}

define internal i1 @same(ptr %x, ptr %y, i64 %count) noinline #0 {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]
  %end = icmp eq i64 %k, %count
  br i1 %end, label %yes, label %body
body:
  %x.p = getelementptr i64, ptr %x, i64 %k
  %x.k = load i64, ptr %x.p, align 8
  %y.p = getelementptr i64, ptr %y, i64 %k
  %y.k = load i64, ptr %y.p, align 8
  %k.next = add i64 %k, 1
  %equal = icmp eq i64 %x.k, %y.k
  br i1 %equal, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

define ptr @dispatch(ptr %self, ptr %args, i64 %nargs, ptr %names) #0 {{
entry:
  %ins = alloca ptr, i64 {MOST}, align 8
  %bytes = alloca i64, i64 {MOST}, align 8
  %outs = alloca ptr, i64 {MOST}, align 8
  %arrays = alloca ptr, i64 {MOST}, align 8
  %table = alloca i64, i64 {6 * MOST}, align 8
  %general.p = getelementptr i8, ptr %self, i64 {items}
  %general = load ptr, ptr %general.p, align 8
  %record.p = getelementptr i8, ptr %self, i64 {items + 8}
  %record = load ptr, ptr %record.p, align 8
  %words.p = getelementptr i8, ptr %record, i64 {DATA}
  %words = load ptr, ptr %words.p, align 8
  %count.p = getelementptr i64, ptr %words, i64 2
  %count = load i64, ptr %count.p, align 8
  %results.p = getelementptr i64, ptr %words, i64 3
  %results = load i64, ptr %results.p, align 8
  %first.p = getelementptr i64, ptr %words, i64 5
  %first = load i64, ptr %first.p, align 8
  %sizes = getelementptr i64, ptr %words, i64 6
  %twice = shl i64 %count, 1
  %shapes = getelementptr i64, ptr %sizes, i64 %twice
  %count.ok = icmp eq i64 %nargs, %count
  br i1 %count.ok, label %keywords, label %pass
keywords:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %mode, label %named
named:
  %named.p = getelementptr i8, ptr %names, i64 16
  %named.count = load i64, ptr %named.p, align 8
  %name.p = getelementptr i8, ptr %names, i64 {items}
  %name = load i64, ptr %name.p, align 8
  %named1 = icmp eq i64 %named.count, 1
  %named2 = icmp eq i64 %name, {known["out"]}
  %named3 = icmp eq i64 %results, 1
  %named12 = and i1 %named1, %named2
  %is.out = and i1 %named12, %named3
  br i1 %is.out, label %take, label %pass
take:
  %given.p = getelementptr ptr, ptr %args, i64 %nargs
  %given = load ptr, ptr %given.p, align 8
  %is.none = icmp eq ptr %given, {call["None"]}
  %given.out = select i1 %is.none, ptr null, ptr %given
  br label %mode
mode:
  %out = phi ptr [ null, %keywords ], [ %given.out, %take ]
  %varies = icmp sge i64 %first, 0
  br i1 %varies, label %look, label %one
look:
  %lead.p = getelementptr ptr, ptr %args, i64 %first
  %lead = load ptr, ptr %lead.p, align 8
  %matrix = call ptr @data(ptr %lead, i64 2, i32 {PLAIN})
  %is.vector = icmp eq ptr %matrix, null
  br i1 %is.vector, label %one, label %many
many:
  %lead.dims.p = getelementptr i8, ptr %lead, i64 {DIMS}
  %lead.dims = load ptr, ptr %lead.dims.p, align 8
  %length = load i64, ptr %lead.dims, align 8
  br label %ready
one:
  br label %ready
ready:
  %n = phi i64 [ %length, %many ], [ 1, %one ]
  %batch = phi i64 [ 1, %many ], [ 0, %one ]
  %is.batch = icmp eq i64 %batch, 1
  %code.p = getelementptr i64, ptr %words, i64 %batch
  %code = load ptr, ptr %code.p, align 8
  %no.code = icmp eq ptr %code, null
  br i1 %no.code, label %pass, label %check
check:
  %k = phi i64 [ 0, %ready ], [ %k.next, %good ]
  %checked = icmp eq i64 %k, %count
  br i1 %checked, label %room, label %argument
argument:
  %arg.p = getelementptr ptr, ptr %args, i64 %k
  %arg = load ptr, ptr %arg.p, align 8
  %k2 = shl i64 %k, 1
  %size.p = getelementptr i64, ptr %sizes, i64 %k2
  %size = load i64, ptr %size.p, align 8
  %uniform.p = getelementptr i64, ptr %size.p, i64 1
  %uniform = load i64, ptr %uniform.p, align 8
  %is.uniform = icmp ne i64 %uniform, 0
  %extra = select i1 %is.uniform, i64 0, i64 %batch
  %rank = add i64 %extra, 1
  %data = call ptr @data(ptr %arg, i64 %rank, i32 {PLAIN})
  %no.data = icmp eq ptr %data, null
  br i1 %no.data, label %pass, label %fits
fits:
  %dims.p = getelementptr i8, ptr %arg, i64 {DIMS}
  %dims = load ptr, ptr %dims.p, align 8
  %last.p = getelementptr i64, ptr %dims, i64 %extra
  %last = load i64, ptr %last.p, align 8
  %lead.k = load i64, ptr %dims, align 8
  %has.lead = icmp ne i64 %extra, 0
  %rows.k = select i1 %has.lead, i64 %lead.k, i64 1
  %rows.want = select i1 %has.lead, i64 %n, i64 1
  %fit1 = icmp eq i64 %last, %size
  %fit2 = icmp eq i64 %rows.k, %rows.want
  %fit = and i1 %fit1, %fit2
  br i1 %fit, label %good, label %pass
good:
  %in.p = getelementptr ptr, ptr %ins, i64 %k
  store ptr %data, ptr %in.p, align 8
  %stride = shl i64 %size, 3
  %all = mul i64 %stride, %rows.k
  %bytes.p = getelementptr i64, ptr %bytes, i64 %k
  store i64 %all, ptr %bytes.p, align 8
  %k3 = mul i64 %k, 3
  %word0 = getelementptr i64, ptr %table, i64 %k3
  store ptr %data, ptr %word0, align 8
  %word1 = getelementptr i64, ptr %word0, i64 1
  store i64 %stride, ptr %word1, align 8
  %word2 = getelementptr i64, ptr %word0, i64 2
  store i64 8, ptr %word2, align 8
  %k.next = add i64 %k, 1
  br label %check
room:
  %is.given = icmp ne ptr %out, null
  br label %make
make:
  %j = phi i64 [ 0, %room ], [ %j.next, %made ]
  %j.done = icmp eq i64 %j, %results
  br i1 %j.done, label %compute, label %result
result:
  %j3 = mul i64 %j, 3
  %rank.p = getelementptr i64, ptr %shapes, i64 %j3
  %rank.own = load i64, ptr %rank.p, align 8
  %rank.out = add i64 %rank.own, %batch
  %rank.32 = trunc i64 %rank.out to i32
  %width.p = getelementptr i64, ptr %rank.p, i64 1
  %width = load i64, ptr %width.p, align 8
  %row = shl i64 %width, 3
  %shape.p = getelementptr i64, ptr %rank.p, i64 2
  %shape.own = load ptr, ptr %shape.p, align 8
  %back = sub i64 0, %batch
  %shape = getelementptr i64, ptr %shape.own, i64 %back
  br i1 %is.batch, label %lengthen, label %place
lengthen:
  store i64 %n, ptr %shape, align 8
  br label %place
place:
  br i1 %is.given, label %given.check, label %allocate
given.check:
  %given.data = call ptr @data(ptr %out, i64 %rank.out, i32 {PLAIN | _WRITEABLE})
  %not.given = icmp eq ptr %given.data, null
  br i1 %not.given, label %pass, label %given.shape
given.shape:
  %given.dims.p = getelementptr i8, ptr %out, i64 {DIMS}
  %given.dims = load ptr, ptr %given.dims.p, align 8
  %given.fits = call i1 @same(ptr %given.dims, ptr %shape, i64 %rank.out)
  br i1 %given.fits, label %apart, label %pass
apart:
  %given.bytes = mul i64 %row, %n
  %given.end = getelementptr i8, ptr %given.data, i64 %given.bytes
  br label %apart.head
apart.head:
  %i = phi i64 [ 0, %apart ], [ %i.next, %apart.body ]
  %apart.all = icmp eq i64 %i, %count
  br i1 %apart.all, label %accept, label %apart.body
apart.body:
  %i.p = getelementptr ptr, ptr %ins, i64 %i
  %i.begin = load ptr, ptr %i.p, align 8
  %i.bytes.p = getelementptr i64, ptr %bytes, i64 %i
  %i.bytes = load i64, ptr %i.bytes.p, align 8
  %i.end = getelementptr i8, ptr %i.begin, i64 %i.bytes
  %before = icmp ult ptr %i.begin, %given.end
  %after = icmp ult ptr %given.data, %i.end
  %overlap = and i1 %before, %after
  %i.next = add i64 %i, 1
  br i1 %overlap, label %pass, label %apart.head
accept:
  call void {call["Py_IncRef"]}(ptr %out)
  br label %made
allocate:
  %new = call ptr {call["PyArray_New"]}(ptr {call["ndarray"]}, i32 %rank.32, ptr %shape, i32 {_NPY_DOUBLE}, \
ptr null, ptr null, i32 0, i32 0, ptr null)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %undo, label %made
made:
  %array = phi ptr [ %out, %accept ], [ %new, %allocate ]
  %array.p = getelementptr ptr, ptr %arrays, i64 %j
  store ptr %array, ptr %array.p, align 8
  %out.data.p = getelementptr i8, ptr %array, i64 {DATA}
  %out.data = load ptr, ptr %out.data.p, align 8
  %outs.p = getelementptr ptr, ptr %outs, i64 %j
  store ptr %out.data, ptr %outs.p, align 8
  %place.k = add i64 %count, %j
  %place.3 = mul i64 %place.k, 3
  %out0 = getelementptr i64, ptr %table, i64 %place.3
  store ptr %out.data, ptr %out0, align 8
  %out1 = getelementptr i64, ptr %out0, i64 1
  store i64 %row, ptr %out1, align 8
  %out2 = getelementptr i64, ptr %out0, i64 2
  store i64 8, ptr %out2, align 8
  %j.next = add i64 %j, 1
  br label %make
compute:
  br i1 %is.batch, label %rows, label %single
single:
  call void %code(ptr %ins, ptr %outs)
  br label %answer
rows:
  %limit.p = getelementptr i64, ptr %words, i64 4
  %limit = load i64, ptr %limit.p, align 8
  %long = icmp sge i64 %n, %limit
  br i1 %long, label %unlocked, label %locked
locked:
  %status1 = call i32 %code(ptr %table, i64 0, i64 %n, i64 %n)
  br label %after.rows
unlocked:
  %state = call ptr {call["PyEval_SaveThread"]}()
  %status2 = call i32 %code(ptr %table, i64 0, i64 %n, i64 %n)
  call void {call["PyEval_RestoreThread"]}(ptr %state)
  br label %after.rows
after.rows:
  %status = phi i32 [ %status1, %locked ], [ %status2, %unlocked ]
  %good.status = icmp eq i32 %status, 0
  br i1 %good.status, label %answer, label %memory
memory:
  %nothing = call ptr {call["PyErr_NoMemory"]}()
  br label %undo
answer:
  %lone = icmp eq i64 %results, 1
  br i1 %lone, label %return, label %pack
return:
  %only = load ptr, ptr %arrays, align 8
  ret ptr %only
pack:
  %tuple = call ptr {call["PyTuple_New"]}(i64 %results)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %undo, label %fill
fill:
  %m = phi i64 [ 0, %pack ], [ %m.next, %fill ]
  %item.p = getelementptr ptr, ptr %arrays, i64 %m
  %item = load ptr, ptr %item.p, align 8
  %set = call i32 {call["PyTuple_SetItem"]}(ptr %tuple, i64 %m, ptr %item)
  %m.next = add i64 %m, 1
  %packed = icmp eq i64 %m.next, %results
  br i1 %packed, label %finish, label %fill
finish:
  ret ptr %tuple
undo:
  %owned = phi i64 [ %j, %allocate ], [ %results, %pack ], [ %results, %memory ]
  br label %drop
drop:
  %left = phi i64 [ %owned, %undo ], [ %left.next, %release ]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %fail, label %release
release:
  %left.next = sub i64 %left, 1
  %dead.p = getelementptr ptr, ptr %arrays, i64 %left.next
  %dead = load ptr, ptr %dead.p, align 8
  call void {call["Py_DecRef"]}(ptr %dead)
  br label %drop
fail:
  ret ptr null
pass:
  %passed = call ptr {call["PyObject_Vectorcall"]}(ptr %general, ptr %args, i64 %nargs, ptr %names)
  ret ptr %passed
}}
{FOOTER}"""
