"""An engine of scripted models, whose one file is a tokenizer's."""

import pytest
from scripted_engine import scripted_engine

import factory_layouts


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    """A folder with a tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer")
    factory_layouts.write_tokenizer(path)
    return path


@pytest.fixture
def engine(directory):
    """Of a target and a draft that see images."""
    return scripted_engine(directory)
