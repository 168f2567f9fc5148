"""Who may import what (docs/architecture.md): by the source, and in fresh interpreters."""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STANDARD = set(sys.stdlib_module_names)
LAZY = {"tokenizers", "jinja2", "huggingface_hub", "pyarrow", "pillow_heif", "textual_image", "av"}
HEAVY = LAZY | {"torch", "mlx", "mlx_lm", "mlx_vlm", "vllm", "llama_cpp", "transformers"}
HEAVY |= {"sentencepiece", "safetensors", "array_api_compat", "prompt_toolkit"}
HEAVY |= {"starlette", "uvicorn", "llguidance"}

EVERYBODYS = STANDARD | {"msgspec", "numpy"}
PACKAGES = {
    folder.name: folder
    for group in (".", "backends", "cli", "models")
    for folder in (ROOT / group).glob("mmspec*")
    if "." not in folder.name
}
"""The folder of each package."""
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ALLOWED = {
    package: clauses.split(";")
    for packages, clauses in re.findall(r"^\| (`mmspec.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    for package in re.findall(r"\w+", packages)
}
"""What the page's table lets each package import; a clause may be for some files alone."""
PICTURE = PAGE.partition("## Packages")[2].split("```")[1]
ROOMS = PICTURE.partition("  mmspec/ ")[2].partition("  models/ ")[0].splitlines()
ORDER = [line.split()[0] for line in reversed(ROOMS) if line.strip()]
"""The rooms of mmspec as the page's picture has them: each imports only those before it."""


@cache
def named(file: Path) -> list[str]:
    """Every module that a file imports, also inside functions and TYPE_CHECKING."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def allowed(package: str, file: Path) -> set[str]:
    """What a file may import: every word of the clauses that name no other files."""
    words = {package}
    for clause in ALLOWED[package]:
        text, _, place = clause.partition(" in `")
        if place.strip("` ") in str(file.relative_to(ROOT)):
            words |= set(re.findall(r"\w+", text))
    return EVERYBODYS | words


def test_files_import_only_what_the_table_allows():
    assert ALLOWED.keys() == PACKAGES.keys()
    wrong = {
        str(file.relative_to(ROOT)): sorted(extra)
        for package, folder in PACKAGES.items()
        for file in folder.rglob("*.py")
        if (extra := {name.partition(".")[0] for name in named(file)} - allowed(package, file))
    }
    assert not wrong


def modules() -> dict[str, Path]:
    """Every module of every package by its name."""
    found = {}
    for folder in PACKAGES.values():
        for file in folder.rglob("*.py"):
            name = ".".join(file.relative_to(folder.parent).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


def imports() -> dict[str, set[str]]:
    """The modules of ours that each of ours names, inside functions and TYPE_CHECKING too."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for name, file in known.items():
        graph[name] = set()
        for module in named(file):
            while module and module not in known:
                module = module.rpartition(".")[0]
            graph[name] |= {module} - {"", name}
    return graph


def test_no_package_imports_itself_by_way_of_others():
    """A package is a folder; its own modules may import each other, but not in a circle either."""
    graph = imports()
    folders = {
        name: name if file.name == "__init__.py" else name.rpartition(".")[0]
        for name, file in modules().items()
    }
    packages: dict[str, set[str]] = {}
    for module, named in graph.items():
        here = folders[module]
        packages.setdefault(here, set()).update(folders[other] for other in named)
        packages[here].discard(here)
    for edges in (graph, packages):
        try:
            TopologicalSorter(edges).prepare()
        except CycleError as error:
            pytest.fail(" -> ".join(reversed(error.args[1])))


def test_rooms_of_the_core_import_only_those_before_them():
    places = {room: place for place, room in enumerate(ORDER)}
    rooms = {name: name.split(".")[1] for name in modules() if name.startswith("mmspec.")}
    assert set(rooms.values()) == set(ORDER)
    wrong = {
        f"{module} -> {other}"
        for module, named in imports().items()
        for other in named
        if module in rooms
        and (other == "mmspec" or (other in rooms and places[rooms[other]] > places[rooms[module]]))
    }
    assert wrong == set()


def test_the_picture_of_the_packages_is_true():
    places = {word: place for place, word in enumerate(PICTURE.split()) if word in PACKAGES}
    assert places.keys() == PACKAGES.keys() - {"mmspec"}
    packages = {name: name.partition(".")[0] for name in modules()}
    edges = {(packages[one], packages[two]) for one, named in imports().items() for two in named}
    upward = {pair for pair in edges if places.get(pair[0], 99) > places.get(pair[1], 99)}
    lazily = {("mmspec_cli", name) for name in ("mmspec_bench", "mmspec_server", "mmspec_train")}
    assert {pair for pair in upward if "mmspec" not in pair} <= lazily


def test_the_table_of_rooms_is_that_of_the_tree():
    """CONTRIBUTING names every room of the core and every other package, and no other folder."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("| package | contains |")[2].partition("\n\n")[0]
    cells = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    named = {word.strip("`,").removesuffix("/") for word in cells.split() if "`" in word}
    folders = {str(folder.relative_to(ROOT)) for folder in PACKAGES.values()} - {"mmspec"}
    assert named == {*folders, *(f"mmspec/{room}" for room in ORDER), "tests"}


LIST_MODULES = """
import importlib, json, pkgutil, sys
for package in map(importlib.import_module, {names!r}):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("__main__", ".template_sandbox", ".line_editor")):
            importlib.import_module(module.name)
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""

RUN_COMMAND = """
import json, sys
from mmspec_cli.main import main
for arguments in {commands!r}:
    sys.argv = ["mmspec", *arguments]
    try:
        main()
    except SystemExit as exit:
        assert not exit.code, exit.code
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def fresh(code: str) -> set[str]:
    """The top-level modules that a new interpreter holds after `code`."""
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("names", "absent"),
    [
        (("mmspec", "mmspec_terminal", "mmspec_cli"), HEAVY),
        (("mmspec_torch",), {"mlx", "mlx_lm", "mmspec_mlx", "transformers"} | LAZY),
        (("mmspec_mlx",), {"torch", "transformers", "mlx_lm", "mmspec_torch"} | LAZY),
    ],
)
def test_importing_every_module_loads_nothing_that_can_wait(names, absent):
    present = fresh(LIST_MODULES.format(names=names))
    assert present.issuperset(names)
    assert not sorted(present & absent)


GENERATE = ["generate", "--prompt=hello", "--model=mini", "--max-new-tokens=2", "--backend"]
NEVER = {"transformers", "mlx_lm", "mlx_vlm", "vllm", "pyarrow"}
TORCH = {"torch", "mmspec_torch", "safetensors", "array_api_compat"}


@pytest.mark.parametrize(
    ("commands", "absent"),
    [
        ([["--help"], ["--version"]], HEAVY | {"rich", "numpy", "PIL"}),
        ([["chat", "--help"]], HEAVY),
        ([["models", "list"]], HEAVY - {"huggingface_hub"}),
        ([[*GENERATE, "mlx"]], NEVER | TORCH),
        ([[*GENERATE, "torch"]], NEVER | {"mlx", "mmspec_mlx"}),
    ],
)
def test_commands_load_nothing_before_it_is_needed(commands, absent):
    present = fresh(RUN_COMMAND.format(commands=commands))
    assert "mmspec_cli" in present
    assert not sorted(present & absent)
