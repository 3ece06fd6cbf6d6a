"""Mutations of files.

Of their bytes, and of what they say (elements, keys, cells, arrays), which passes the parser.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import sqlite3
import struct
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Mutation = Callable[[bytes, random.Random], bytes]

TEXTS = [
    "",
    " ",
    "x",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e308",
    "1e-320",
    "1e999",
    "0x10",
    "1,5",
    "٣",
    "9" * 400,
    "true",
]
TEXTS += [
    "../../etc/passwd",
    "/",
    ".",
    "\\",
    "%s%n",
    "{0}",
    "$HOME",
    "a" * 3000,
    "é🦾",
    "\u202e",
    "q",
    "joint1",
    "1 2 3",
]
TEXTS += [
    "1 2",
    "0 0 0",
    "base",
    "revolute",
    "free",
    "ball",
    "12345678901234567890",
    "-0",
    "None",
    "__class__",
    "=1+1",
]
NUMBERS: list[Any] = [
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**63),
    10**30,
    0.0,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    1e-9,
    0.5,
]
NUMBERS += [float("nan"), float("inf"), float("-inf"), True, 3, 7, 1000000007]
PIECES = [
    b"nan",
    b"-1",
    b"1e999",
    b"\0",
    b"<",
    b'"',
    b"[",
    b"{",
    b"]",
    b"9" * 400,
    b",",
    b"\n",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
]
PIECES += [
    "é".encode(),
    b"&amp;",
    b"&#0;",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"''",
    b";",
    b"\t",
    b"#",
    b"=",
    b".",
    b"\r",
    b"\x1a",
]


def by_bytes(data: bytes, rng: random.Random) -> bytes:
    """Change, drop, insert, repeat, cut."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        kind, at = rng.random(), rng.randrange(len(made) + 1)
        if kind < 0.3 and made:
            made[min(at, len(made) - 1)] = rng.randrange(256)
        elif kind < 0.4 and len(made) > 8:
            width = rng.choice([1, 2, 4, 8])
            made[at : at + width] = rng.choice(
                [0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1)]
            ).to_bytes(width, "little")
        elif kind < 0.55:
            del made[at : at + rng.choice([1, 4, 50, 1000])]
        elif kind < 0.75:
            made[at:at] = rng.choice(PIECES)
        elif kind < 0.92:
            source = rng.randrange(len(made) + 1)
            made[at:at] = made[source : source + rng.choice([5, 80, 400])]
        else:
            del made[at:]
    return bytes(made)


def odd_value(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(NUMBERS)
    if kind < 0.8:
        return rng.choice(TEXTS)
    return rng.choice(
        [
            [],
            {},
            [[]],
            [0, 1],
            ["a", 1],
            {"a": {}},
            [float("nan")] * 3,
            [1.0] * 50,
            "x",
            {"q": 1},
            False,
        ]
    )


def _places(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    keys: Any = (
        tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    )
    for key in keys:
        found.append((tree, key))
        _places(tree[key], found)
    return found


def change_tree(tree: Any, rng: random.Random) -> Any:
    """Return a tree of dicts and lists with some leaves and branches replaced, dropped, doubled,
    renamed, exchanged.
    """
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        places = _places(tree, [])
        if not places:
            return tree
        node, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.35:
            node[key] = odd_value(rng)
        elif kind < 0.5 and isinstance(node[key], int | float):
            node[key] = node[key] * rng.choice([-1, 0, 2, 1e3, 1e-6, 1e200, 0.999])
        elif kind < 0.6:
            del node[key]
        elif kind < 0.7 and isinstance(node, dict):
            node[rng.choice(TEXTS + [str(other) for other in node])] = node.pop(key)
        elif kind < 0.8:
            other, name = rng.choice(places)
            if (isinstance(other, dict) and name in other) or (
                isinstance(other, list) and name < len(other)
            ):
                node[key] = copy.deepcopy(other[name])
        elif kind < 0.9 and isinstance(node, list):
            node.extend(copy.deepcopy(node[: rng.choice([1, 2, 20])]))
        elif isinstance(node[key], list) and node[key]:
            rng.choice([list.reverse, list.pop, rng.shuffle])(node[key])
        else:
            node[key] = [node[key]] if rng.random() < 0.5 else {"x": node[key]}
    return tree


def of_json(data: bytes, rng: random.Random) -> bytes:
    return json.dumps(change_tree(json.loads(data), rng)).encode("utf-8", "surrogatepass")


def of_toml(data: bytes, rng: random.Random) -> bytes:
    return toml_of(change_tree(tomllib.loads(data.decode()), rng)).encode()


def toml_of(tree: dict[str, Any]) -> str:
    """Return plain values as TOML.

    Tables with headings at the top, everything below them in line.
    """
    lines = [
        f"{json.dumps(str(key))} = {_inline(value)}"
        for key, value in tree.items()
        if not _is_table(value)
    ]
    for key, value in tree.items():
        if _is_table(value):
            many = isinstance(value, list)
            for one in value if many else [value]:
                lines.append(f"[[{json.dumps(str(key))}]]" if many else f"[{json.dumps(str(key))}]")
                lines += [
                    f"{json.dumps(str(name))} = {_inline(entry)}" for name, entry in one.items()
                ]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(x, dict) for x in value)
    )


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(str(key))} = {_inline(one)}" for key, one in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return str(value) if isinstance(value, int) else json.dumps(str(value))


def of_xml(data: bytes, rng: random.Random) -> bytes:
    root = ET.fromstring(data)  # noqa: S314 - seeds that we made
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        every = list(root.iter())
        node, other = rng.choice(every), rng.choice(every)
        kind = rng.random()
        if kind < 0.45:
            node = rng.choice([one for one in every if one.attrib] or [root])
            key = rng.choice(list(node.attrib) or ["name"])
            words = node.get(key, "").split()
            if words and rng.random() < 0.5:
                words[rng.randrange(len(words))] = rng.choice([*TEXTS, *map(str, NUMBERS)])
                node.set(key, _plain(" ".join(words)))
            else:
                node.set(key, _plain(rng.choice([*TEXTS, *other.attrib.values()])))
        elif kind < 0.55 and node.attrib:
            del node.attrib[rng.choice(list(node.attrib))]
        elif kind < 0.65:
            node.attrib |= other.attrib
        elif kind < 0.75 and len(node):
            node.remove(rng.choice(list(node)))
        elif kind < 0.85 and other is not root:
            node.append(copy.deepcopy(other))
        elif kind < 0.9:
            node.tag = other.tag
        elif kind < 0.95 and len(node) > 1:
            node[:] = rng.sample(list(node), len(node))
        else:
            node.text = _plain(rng.choice(TEXTS))
    return ET.tostring(root)


def _plain(text: str) -> str:
    return "".join(letter for letter in text if letter >= " ")


def of_csv(data: bytes, rng: random.Random) -> bytes:
    text = data.decode()
    mark = max(",; \t", key=text.count)
    rows = [line.split(mark) for line in text.splitlines()]
    width = max(map(len, rows))
    for _ in range(rng.choice([1, 1, 2, 4])):
        kind, row, column = rng.random(), rng.choice(rows), rng.randrange(width)
        if kind < 0.3 and row:
            row[rng.randrange(len(row))] = str(odd_value(rng))
        elif kind < 0.45:
            word = str(odd_value(rng))
            for one in rows[rng.randrange(len(rows)) :]:
                one[column : column + 1] = [word]
        elif kind < 0.55:
            for one in rows:
                del one[column : column + 1]
        elif kind < 0.65:
            for one in rows:
                one[column:column] = one[-1:]
        elif kind < 0.75 and rows[0]:
            name = rng.choice(
                [
                    "t",
                    "time",
                    "q1",
                    "q.joint1",
                    "tau1",
                    "effort",
                    "run",
                    "q1 [deg]",
                    "t_ns",
                    *rows[0],
                ]
            )
            rows[0][rng.randrange(len(rows[0]))] = name
        elif kind < 0.85:
            rng.shuffle(rows)
        elif kind < 0.95:
            rows[rng.randrange(len(rows)) :] = rows[: rng.randrange(len(rows)) + 1]
        else:
            mark = rng.choice([",", ";", "\t", " ", "|", ", "])
    return "\n".join(mark.join(row) for row in rows).encode("utf-8", "surrogatepass")


def change_array(array: Any, rng: random.Random) -> Any:
    """Return an array of other values, another shape or another type."""
    array = np.array(array)
    kind = rng.random()
    if kind < 0.3 and array.size and array.dtype.kind in "fi":
        array = array.astype(float)
        array.flat[rng.randrange(array.size) : array.size : rng.choice([1, 3, 1000])] = float(
            rng.choice(NUMBERS)
        )
    elif kind < 0.5:
        types = ["f2", "f4", ">f8", "i1", "i8", "u8", "b1", "c16", "U5", "S3", "M8[ns]", "f8"]
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(types)) if array.dtype.kind in "fiub" else array
    elif kind < 0.6:
        array = array.T
    elif kind < 0.7:
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
    elif kind < 0.8:
        array = rng.choice(
            [
                array.ravel(),
                array[None],
                array[..., None],
                array.reshape(-1)[:0],
                array.reshape(-1)[:1],
            ]
        )
    elif kind < 0.9:
        array = np.asfortranarray(array[::-1])
    else:
        array = np.array(odd_value(rng), dtype=object).astype(str)
    return array


def change_arrays(arrays: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return named arrays with some changed, dropped, renamed, added."""
    arrays = dict(arrays)
    for _ in range(rng.choice([1, 1, 2, 3])):
        key = rng.choice(list(arrays) or ["t"])
        if key not in arrays:
            return arrays
        kind = rng.random()
        if kind < 0.6:
            arrays[key] = change_array(arrays[key], rng)
        elif kind < 0.7:
            del arrays[key]
        elif kind < 0.85:
            name = rng.choice(
                [
                    "t",
                    "q",
                    "tau",
                    "dq",
                    "joint_names",
                    "starts",
                    "notices",
                    "prepared",
                    "sketch",
                    "run",
                    "x",
                ]
            )
            arrays[name] = arrays.pop(key)
        else:
            arrays[rng.choice(["starts", "telemetry.a", "prepared", "ddq"])] = change_array(
                arrays[key], rng
            )
    return arrays


def of_npz(data: bytes, rng: random.Random) -> bytes:
    with np.load(io.BytesIO(data)) as archive:
        arrays = change_arrays(dict(archive), rng)
    buffer = io.BytesIO()
    save = np.savez_compressed if rng.random() < 0.3 else np.savez
    save(buffer, **{key.replace("/", "_"): value for key, value in arrays.items() if key != "file"})
    return buffer.getvalue()


def of_mat(data: bytes, rng: random.Random) -> bytes:
    from scipy.io import loadmat, savemat

    if data[:8].startswith(b"\x89HDF"):
        return by_bytes(data, rng)
    content = {
        key: value for key, value in loadmat(io.BytesIO(data)).items() if not key.startswith("__")
    }
    if len(content) == 1 and next(iter(content.values())).dtype.names:
        one = next(iter(content.values()))[0, 0]
        content = {name: one[name] for name in one.dtype.names}
    arrays = {key.replace(".", "_"): value for key, value in change_arrays(content, rng).items()}
    arrays = {key: value for key, value in arrays.items() if value.dtype.kind not in "MO"} or {
        "x": np.zeros(1)
    }
    buffer = io.BytesIO()
    savemat(
        buffer, {"log": arrays} if rng.random() < 0.3 else arrays, do_compression=rng.random() < 0.3
    )
    return buffer.getvalue()


def of_parquet(data: bytes, rng: random.Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data), use_threads=False)
    names, columns = list(table.column_names), [column.combine_chunks() for column in table.columns]
    about = dict(table.schema.metadata or {})
    for _ in range(rng.choice([1, 1, 2, 3])):
        at, kind = rng.randrange(len(names)), rng.random()
        values = columns[at].to_pylist()
        if kind < 0.4:
            word = rng.choice(
                [
                    pa.int8(),
                    pa.string(),
                    pa.bool_(),
                    pa.timestamp("us"),
                    pa.list_(pa.float64()),
                    pa.null(),
                    pa.float32(),
                ]
            )
            made: list[Any] = [None] * len(values)
            if pa.types.is_list(word):
                made = [[1.0] * rng.choice([0, 1, 2]) for _ in values]
            elif pa.types.is_string(word):
                made = [rng.choice(TEXTS) for _ in values]
            elif not pa.types.is_null(word):
                made = [rng.choice([0, 1, None]) for _ in values]
            columns[at] = pa.array(made, word)
        elif kind < 0.6:
            places = [
                float(rng.choice(NUMBERS)) if rng.random() < 0.2 else value for value in values
            ]
            columns[at] = pa.array(
                [x if isinstance(x, int | float) else None for x in places], pa.float64()
            )
        elif kind < 0.75:
            names[at] = rng.choice(["t", "q.joint1", "run", "tau.joint2", "x", *names, *TEXTS])
        elif kind < 0.9 and about:
            key = rng.choice(list(about))
            about[key] = rng.choice(
                [
                    b"",
                    b"[",
                    b"null",
                    b"{}",
                    b"[1]",
                    b"\xff",
                    b'["a"]',
                    b"true",
                    b'[{"code": 1}]',
                    b"9" * 5000,
                ]
            )
        else:
            columns = [column[: rng.randrange(len(column) + 1)] for column in columns[:1]] * len(
                columns
            )
    buffer = io.BytesIO()
    made_table = pa.Table.from_arrays(columns, names=names).replace_schema_metadata(about)
    pq.write_table(
        made_table,
        buffer,
        row_group_size=rng.choice([1, 7, 1000]),
        compression=rng.choice(["none", "snappy", "zstd"]),
    )
    return buffer.getvalue()


def of_records(data: bytes, rng: random.Random) -> bytes:
    """Change whole fields of a binary file of records (bags).

    Lengths, stamps, names of equal length.
    """
    made = bytearray(data)
    for _ in range(rng.choice([1, 2, 4])):
        kind, at = rng.random(), rng.randrange(max(1, len(made) - 8))
        if kind < 0.3:
            struct.pack_into("<d", made, at, float(rng.choice(NUMBERS)))
        elif kind < 0.6:
            near = [
                k
                for k in range(at, min(at + 400, len(made) - 4))
                if 0 < made[k] < 64 and not any(made[k + 1 : k + 4])
            ]
            place = rng.choice(near or [at])
            struct.pack_into(
                "<I", made, place, rng.choice([0, 1, 2, 5, 40, 1000, 2**20, 2**31, 2**32 - 1])
            )
        elif kind < 0.8:
            letters = [k for k in range(at, min(at + 400, len(made))) if chr(made[k]).isalpha()]
            for k in letters[: rng.choice([1, 5])]:
                made[k] = rng.choice(b"abz_/\0")
        else:
            struct.pack_into("<q", made, at, rng.choice([0, -1, 2**62, -(2**63), 10**9]))
    return bytes(made)


def of_db3(data: bytes, rng: random.Random) -> bytes:
    """Change rows of a bag that is a database.

    Cells, whole messages, names of tables and columns.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(data)
        for _ in range(rng.choice([1, 1, 2, 3])):
            with contextlib.suppress(sqlite3.Error):  # what the table does not allow is left
                _change_table(base, rng)
        base.commit()
        return base.serialize()


def _change_table(base: sqlite3.Connection, rng: random.Random) -> None:
    table = rng.choice(
        ["messages", "messages", "messages", "topics", "topics", "schema", "metadata"]
    )
    columns = [row[1] for row in base.execute(f"PRAGMA table_info('{table}')")]
    rows = [row for (row,) in base.execute(f"SELECT rowid FROM '{table}'")]  # noqa: S608
    if not rows or not columns:
        return
    kind, row, column = rng.random(), rng.choice(rows), rng.choice(columns)
    held = ", ".join(f"[{one}]" for one in columns if one != "id")
    if kind < 0.65:
        old = base.execute(f"SELECT [{column}] FROM '{table}' WHERE rowid = ?", (row,)).fetchone()[  # noqa: S608
            0
        ]
        if isinstance(old, bytes) and rng.random() < 0.9:
            new: Any = of_records(old, rng) if rng.random() < 0.7 else by_bytes(old, rng)
        elif isinstance(old, str) and rng.random() < 0.5:
            new = by_bytes(old.encode(), rng).decode("utf-8", "replace")
        else:
            new = odd_value(rng)
            new = (
                new
                if isinstance(new, str | float)
                else min(max(new, -(2**62)), 2**62)
                if type(new) is int
                else b"x"
            )
        where = "" if rng.random() < 0.2 else f" WHERE rowid = {row}"
        base.execute(f"UPDATE '{table}' SET [{column}] = ?{where}", (new,))  # noqa: S608
    elif kind < 0.75:
        base.execute(f"DELETE FROM '{table}' WHERE rowid >= ?", (row,))  # noqa: S608
    elif kind < 0.9:
        base.execute(
            f"INSERT INTO '{table}' ({held}) SELECT {held} FROM '{table}' WHERE rowid = ?",  # noqa: S608
            (row,),
        )
    elif kind < 0.97:
        base.execute(
            f"ALTER TABLE '{table}' RENAME COLUMN [{column}] TO {rng.choice(['x', 'data', 'id'])}"
        )
    else:
        base.execute(f"ALTER TABLE '{table}' RENAME TO other")


STRUCTURE: dict[str, Mutation] = {
    "urdf": of_xml,
    "mjcf": of_xml,
    "toml": of_toml,
    "side": of_toml,
    "csv": of_csv,
    "parquet": of_parquet,
    "npz": of_npz,
    "mat": of_mat,
    "db3": of_db3,
    "mcap": of_records,
    "bag": of_records,
    "study": of_toml,
    "mapping": of_toml,
    "estimate": of_json,
}


def mutated(kind: str, data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a mutation of a file and how it was made.

    "structure" two times of three, else "bytes".
    """
    if rng.random() < 0.67:
        try:
            return STRUCTURE[kind](data, rng), "structure"
        except Exception:  # what cannot be written in the format: its bytes are changed instead  # noqa: S110
            pass
    return by_bytes(data, rng), "bytes"


def seeds(folder: Path, kind: str) -> list[bytes]:
    """Return the seeds of a format."""
    return [path.read_bytes() for path in sorted((folder / kind).iterdir()) if path.is_file()]
