"""The list after --methods: what it reads, what it refuses, and the options it becomes."""

from dataclasses import replace

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import UsageError
from mmspec_bench.suite.methods import read_method, read_methods

OPTIONS = Options(gamma=3, max_new_tokens=9)


def test_letters_become_options():
    options = read_method("MTCP9:4,3,2,1/drop").options(OPTIONS)
    assert (options.drafting, options.pool, options.weights) == ("MTCP", 9, (4, 3, 2, 1))
    assert (options.overflow, options.gamma, options.max_new_tokens) == ("drop", 3, 9)


def test_a_method_may_name_its_draft():
    method = read_method("Tree20:m@Some/Draft")
    assert (method.name, method.drafting, method.draft) == (
        "tree20:M@Some/Draft",
        "M",
        "Some/Draft",
    )
    assert method.options(OPTIONS) == replace(read_method("tree20:M").options(OPTIONS))
    for word in ("M@", "none@mini-draft", "lookup@mini-draft"):
        with pytest.raises(UsageError, match="after @ name a draft"):
            read_method(word)


@pytest.mark.parametrize(
    ("word", "name", "tree"),
    [
        ("Tree:mtc", "tree:MTC", Tree((), 10, 60)),
        ("tree20:MTC", "tree20:MTC", Tree((), 10, 20)),
        ("tree30w5:MTC", "tree30w5:MTC", Tree((), 5, 30)),
        ("treeW5:MTC", "treew5:MTC", Tree((), 5, 60)),
        ("tree3X2x1:MTC:2,1,1/run", "tree3x2x1:MTC:2,1,1/run", Tree((3, 2, 1))),
    ],
)
def test_trees_are_read(word, name, tree):
    method = read_method(word)
    assert (method.name, method.drafting, method.own["tree"]) == (name, "MTC", tree)
    assert method == read_method(name)
    options = method.options(OPTIONS)
    assert (options.drafting, options.tree, options.adaptive) == ("MTC", tree, False)
    assert read_method("MTC").options(options).tree is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give at least one"),
        ("M,M", "M is given 2 times"),
        ("mt:2,1,MT:2,1", "MT:2,1 is given 2 times"),
        ("MM", "at most once"),
        ("MT:2", "1 given for 2 drafting letters"),
        ("MT:..", "is no method"),
        ("msd:2", "msd has one view"),
        ("tree3x:M", "'tree3x:M': a tree is tree, tree20 or tree30w5"),
        ("tree0:M", "`nodes=0`"),
        ("best of all", "is no method"),
    ],
)
def test_what_is_no_method_is_named(text, message):
    with pytest.raises(UsageError) as error:
        read_methods(text)
    assert message in str(error.value)
