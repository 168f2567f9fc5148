"""Converts a published head to safetensors: python -m mmspec_torch.heads.convert DIR"""

import sys
from pathlib import Path

from mmspec.checkpoints.head_config import read_head_config
from mmspec.checkpoints.head_manifest import head_pickle
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.ground.errors import MmspecError, UsageError
from mmspec.ground.escape import one_line, visible
from mmspec_torch.device.tensor_files import save_tensors
from mmspec_torch.heads.load import read_pickle


def convert(directory: Path) -> Path:
    """Write a head's tensors as safetensors beside its pickle, without the unused embedding.

    Raises CheckpointError if the tensors don't fit the head's config, UsageError if there is no
    pickle to convert.
    """
    pickle = head_pickle(directory)
    if pickle is None:
        raise UsageError(f"{directory} has no pickled weights without safetensors beside them")
    tensors = read_pickle(pickle, read_head_config(directory))
    save_tensors(directory / WEIGHTS_FILE, tensors)
    return directory / WEIGHTS_FILE


def main(arguments: list[str]) -> int:
    """Convert each directory; returns the exit status."""
    try:
        if not arguments:
            raise UsageError("name the directory of a head, or of several")
        for directory in arguments:
            sys.stdout.write(visible(f"{convert(Path(directory))}\n"))
    except MmspecError as error:
        sys.stderr.write(f"{one_line(str(error))}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
