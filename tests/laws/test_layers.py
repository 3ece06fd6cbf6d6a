"""Later stages import earlier ones, never the reverse."""

import ast
from pathlib import Path

import minidyn

ORDER = [
    "errors",
    "graph",
    "model",
    "dynamics",
    "base",
    "control",
    "experiment",
    "identification",
    "reporting",
    "study",
    "cli",
]


def stage_of(module: str) -> str | None:
    head = module.removeprefix("minidyn").lstrip(".").split(".")[0]
    head = "cli" if head.startswith("cli") or head == "__main__" else head
    head = "study" if head.startswith("study") else head
    return head if head in ORDER else None


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("minidyn"):
            found.add(node.module)
            if node.module == "minidyn":
                found |= {f"minidyn.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.startswith("minidyn")}
    return found


def test_stages_import_only_earlier_ones() -> None:
    root = Path(minidyn.__file__).parent
    checked = 0
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        own = stage_of(str(relative.with_suffix("")).replace("/", "."))
        if own is None:
            continue
        for module in imports(path):
            other = stage_of(module)
            if other is None:
                continue
            checked += 1
            assert ORDER.index(other) <= ORDER.index(own), f"{relative} imports {module}"
    assert checked > 50


def test_public_names_exist() -> None:
    for name in minidyn.__all__:
        assert getattr(minidyn, name) is not None
