"""Reads the names of a head's tensors, from safetensors files or a published head's pickle."""

import pickletools
import zipfile
import zlib
from pathlib import Path

from mmspec.checkpoints.loading_plan import has_safetensors, read_tensors
from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import is_there, open_file

PICKLE_FILE = "pytorch_model.bin"
"""File name of the tensors of published heads."""
PICKLE_BYTES = 1_000_000
"""The most bytes of a pickle that are read for names: a few hundred for each tensor."""


def stored_names(directory: Path) -> frozenset[str]:
    """The names of the tensors in safetensors files, else in a published head's pickle.

    Only the strings of a pickle are read; it is never executed.
    """
    if has_safetensors(directory):
        return frozenset(read_tensors(directory))
    file = directory / PICKLE_FILE
    return _strings(file) if is_there(file) else frozenset()


_UNREADABLE = OSError, ValueError, KeyError, RuntimeError, zlib.error, zipfile.BadZipFile
"""Errors of reading a damaged archive: without a pickle, encrypted, cut."""


def _strings(file: Path) -> frozenset[str]:
    try:
        with open_file(file) as opened, zipfile.ZipFile(opened) as archive:
            inner = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(next(inner, "data.pkl")) as stream:
                code = stream.read(PICKLE_BYTES)
        return frozenset(text for _, text, _ in pickletools.genops(code) if isinstance(text, str))
    except _UNREADABLE as error:
        raise CheckpointError(f"{file} is not a file that torch.save wrote: {error}") from error
