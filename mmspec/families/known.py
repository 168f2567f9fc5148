"""The families that mmspec knows, and those of other packages, by config.json's `model_type`."""

from mmspec.families.family import Family
from mmspec.families.llava import LLAVA
from mmspec.families.qwen2_5_vl import QWEN2_5_VL
from mmspec.families.qwen3_5 import QWEN3_5, QWEN3_5_TEXT
from mmspec.families.qwen3_vl import QWEN3_VL
from mmspec.families.text_families import LLAMA, QWEN2, QWEN3
from mmspec.ground.entry_points import MODEL_FAMILIES, load_errors, plugins_of
from mmspec.ground.json_file import Block

_ALL = (LLAVA, LLAMA, QWEN2, QWEN2_5_VL, QWEN3, QWEN3_VL, QWEN3_5, QWEN3_5_TEXT)
FAMILIES = {family.model_type: family for family in _ALL}
"""This project's families by `model_type`."""


def find_family(model_type: str) -> Family | None:
    """The family of a `model_type`; None if no package has one."""
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    family: Family | None = None
    if point := plugins_of(MODEL_FAMILIES).get(model_type):
        with load_errors(point):
            family = point.load()
    return family


def family_of(whole: Block) -> Family:
    """The family that a config.json names; CheckpointError for one that no package has."""
    family = find_family(str(whole.get("model_type")))
    if family is None:
        names = " or ".join(f'"{name}"' for name in FAMILIES)
        raise whole.error("model_type", f"{names}, or that of a package which is installed here")
    return family
