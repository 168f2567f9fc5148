"""An engine of scripted models, one of the tiny pair, and tokenizers of every kind."""

import pytest

from mmspec.chat.engine import load
from mmspec.prompt.tokenizer import Tokenizer
from support import tiny_tokenizers
from support.scripted_engine import scripted_engine


@pytest.fixture
def engine(directory):
    """Of a target and a draft that see images."""
    return scripted_engine(directory)


@pytest.fixture(scope="session")
def pair_engine(pair_paths):
    """The tiny pair on PyTorch."""
    return load(*map(str, pair_paths), backend="torch")


@pytest.fixture(scope="session")
def tokenizer_directories(tmp_path_factory):
    """A folder with a tokenizer of every kind."""
    builders = tiny_tokenizers.BUILDERS.items()
    return {kind: build(tmp_path_factory.mktemp(kind)) for kind, build in builders}


@pytest.fixture(scope="session")
def tokenizers(tokenizer_directories):
    """These tokenizers as read here."""
    return {kind: Tokenizer.read(folder) for kind, folder in tokenizer_directories.items()}


@pytest.fixture(scope="session")
def references(tokenizer_directories):
    """These tokenizers as transformers reads them."""
    from transformers import AutoTokenizer

    folders = tokenizer_directories.items()
    return {kind: AutoTokenizer.from_pretrained(folder) for kind, folder in folders}
