"""Who may import what (docs/architecture.md): by the source, and in fresh interpreters."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STANDARD = set(sys.stdlib_module_names)
LAZY = {"tokenizers", "jinja2", "huggingface_hub", "pyarrow", "matplotlib"}
HEAVY = LAZY | {
    "torch",
    "mlx",
    "mlx_lm",
    "mlx_vlm",
    "transformers",
    "safetensors",
    "array_api_compat",
}

ALLOWED = {
    "mmspec": ("mmspec", {"mmspec", "numpy", "PIL"} | LAZY),
    "mmspec_torch": (
        "backends/mmspec_torch",
        {"mmspec", "mmspec_torch", "numpy", "torch", "safetensors", "array_api_compat"},
    ),
    "mmspec_mlx": ("backends/mmspec_mlx", {"mmspec", "mmspec_mlx", "numpy", "mlx"}),
    "mmspec_cli": ("cli/mmspec_cli", {"mmspec", "mmspec_cli", "click"}),
    "mmspec_models": ("models/mmspec_models", {"mmspec_models"}),
}
"""Where each package is, and what any of its files may name in an import, also inside functions."""

ALSO = {
    "cli/mmspec_cli/render.py": {"rich"},
    "cli/mmspec_cli/wrapping.py": {"rich"},
    "cli/mmspec_cli/train.py": {"mmspec_torch"},
    "cli/mmspec_cli/train_choices.py": {"mmspec_torch"},
    "mmspec/tokenizer_files.py": {"transformers"},
    "backends/mmspec_torch/train": {"transformers", "tokenizers", "PIL", "rich"},
    "backends/mmspec_torch/captioner.py": {"transformers", "PIL"},
    "backends/mmspec_torch/baseline.py": {"transformers"},
    "backends/mmspec_torch/peer_transformers.py": {"transformers"},
    "backends/mmspec_mlx/peer_mlx_lm.py": {"mlx_lm"},
    "backends/mmspec_mlx/peer_mlx_vlm.py": {"mlx_vlm"},
}


def imported(file: Path) -> set[str]:
    """The top-level names of all imports in a file, those under TYPE_CHECKING among them."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: a relative import"
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def allowed(file: Path, common: set[str]) -> set[str]:
    """What this file may import besides the standard library."""
    parts = [file, *file.parents]
    return common.union(*(ALSO.get(str(part.relative_to(ROOT)), ()) for part in parts[:-3]))


@pytest.mark.parametrize("package", ALLOWED)
def test_files_import_only_what_the_table_allows(package):
    folder, common = ALLOWED[package]
    files = list((ROOT / folder).rglob("*.py"))
    assert files or package == "mmspec_models"
    wrong = {
        str(file.relative_to(ROOT)): sorted(extra)
        for file in files
        if (extra := imported(file) - STANDARD - allowed(file, common))
    }
    assert not wrong


LIST_MODULES = """
import importlib, json, pkgutil, sys
package = importlib.import_module({name!r})
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__") and not module.name.startswith({left_out!r}):
        importlib.import_module(module.name)
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""

RUN_COMMAND = """
import json, sys
from mmspec_cli.main import main
sys.argv = ["mmspec", *{arguments!r}]
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
    ("package", "left_out", "absent"),
    [
        ("mmspec", "mmspec.sandbox", HEAVY | {"click", "rich"}),
        ("mmspec_cli", "mmspec_cli.render", HEAVY),
        (
            "mmspec_torch",
            "mmspec_torch.train",
            {"mlx", "mlx_lm", "mmspec_mlx", "transformers"} | LAZY,
        ),
        ("mmspec_mlx", "-", {"torch", "transformers", "mlx_lm", "mmspec_torch"} | LAZY),
    ],
)
def test_importing_every_module_loads_nothing_that_can_wait(package, left_out, absent):
    present = fresh(LIST_MODULES.format(name=package, left_out=left_out))
    assert package in present
    assert not sorted(present & absent)


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], HEAVY | {"rich", "numpy", "PIL"}),
        (["--version"], HEAVY | {"rich", "numpy", "PIL"}),
        (["chat", "--help"], HEAVY),
        (["generate", "--help"], HEAVY),
        (["models", "list"], HEAVY - {"huggingface_hub"}),
    ],
)
def test_commands_load_nothing_before_it_is_needed(arguments, absent):
    present = fresh(RUN_COMMAND.format(arguments=arguments))
    assert "mmspec_cli" in present
    assert not sorted(present & absent)


GENERATE = [
    "generate",
    "--prompt",
    "hello",
    "--model",
    "mini",
    "--max-new-tokens",
    "2",
    "--backend",
]
NEVER = {"transformers", "mlx_lm", "mlx_vlm", "pyarrow", "matplotlib"}


@pytest.mark.parametrize(
    ("backend", "absent"),
    [
        ("mlx", NEVER | {"torch", "mmspec_torch", "safetensors", "array_api_compat"}),
        ("torch", NEVER | {"mlx", "mmspec_mlx"}),
    ],
)
def test_an_answer_loads_no_other_framework(backend, absent):
    present = fresh(RUN_COMMAND.format(arguments=[*GENERATE, backend]))
    assert backend in present
    assert not sorted(present & absent)
