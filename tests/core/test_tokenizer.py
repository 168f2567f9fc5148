import json
import random
import sys

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models
from transformers import AutoTokenizer

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.prompt.tokenizer import Tokenizer, shared_vocabulary
from mmspec.prompt.tokenizer_files import Names
from support import tiny_tokenizers

KINDS = list(tiny_tokenizers.BUILDERS)
TRICKY = st.text(alphabet="ab </s>imge\n é漢😀\u2581\ue000", max_size=30) | st.sampled_from(
    ["<image>", "</s>", " </s> ", "<s><s>", "a<image>\nb", "  two  spaces ", "", " "]
)


def encoded(tokenizer, text):
    """The ids of a template's text, in which special tokens are recognized."""
    return tokenizer.encode_parts(tokenizer.split_special(text))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(text=TRICKY)
def test_template_text_is_encoded_as_transformers_does(tokenizers, references, kind, text):
    expected = references[kind](text, add_special_tokens=False).input_ids
    assert encoded(tokenizers[kind], text) == expected
    assert tokenizers[kind].prefix + expected == references[kind](text).input_ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_encoded_once_and_its_ids_are_the_callers(tokenizers, kind, monkeypatch):
    parts = ["a <image> never seen", 3, "again"]
    first = [*tokenizers[kind].encode_parts(parts)]
    monkeypatch.setattr(tokenizers[kind], "_encode", pytest.fail)
    for _ in range(2):
        again = tokenizers[kind].encode_parts(parts)
        assert again == first
        again.clear()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(text=TRICKY)
def test_user_text_never_becomes_a_special_token(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode(text)
    special = {tokenizer.token_id(each) for each in {*tokenizer.special_texts} - {"<unk>"}}
    assert not special & set(ids)


def test_an_image_marker_that_is_no_special_token_is_text_when_typed():
    letters = {letter: id for id, letter in enumerate("abimge<>/x ")}
    backend = Backend(models.BPE(vocab=letters, merges=[]))
    backend.add_tokens(["<image>"])
    tokenizer = Tokenizer(backend, Names())
    assert tokenizer.image_token_id not in tokenizer.encode("<image>")
    assert encoded(tokenizer, "<image>") == [tokenizer.image_token_id]


TROUBLE = ["<s>", "</s>", "<image>", "<0x0A>", "<0xC3>", "<0xA9>", "<0xF0>", *"▁ĠÃÂ©"]
"""Bytes, spaces and specials, in which all the trouble is: as often as everything else."""


def pieces(tokenizer: Tokenizer, ids: list[int], cuts: random.Random) -> list[str]:
    stream = tokenizer.stream()
    given, out = 0, []
    while given < len(ids):
        size = cuts.randint(1, 4)
        out.append(stream.push(ids[given : given + size]))
        given += size
    return [*out, stream.finish()]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80)
@given(data=st.data())
def test_streamed_pieces_concatenate_to_the_decoded_text(tokenizers, references, kind, data):
    tokenizer = tokenizers[kind]
    trouble = [id for id in map(tokenizer.token_id, TROUBLE) if id is not None]
    ids = st.sampled_from(trouble) | st.integers(0, tokenizer.size + 3)
    sampled = data.draw(st.lists(ids, max_size=25))
    cuts = random.Random(data.draw(st.integers(0, 9)))
    text = tokenizer.decode(sampled)
    assert "".join(pieces(tokenizer, sampled, cuts)) == text
    known = [id for id in sampled if id < tokenizer.size]
    assert text == references[kind].decode(known, skip_special_tokens=True)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(text=TRICKY)
def test_the_bytes_of_tokens_are_those_of_the_text(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    # A first space belongs to the decoder, and some normalizers change the text.
    ids = tokenizer.encode("a" + text)
    content = b"".join(map(tokenizer.bytes_of, ids))
    assert content.removeprefix(b" ").decode() == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_is_not_decoded_again_and_again(tokenizers, kind, monkeypatch):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode("the cat sat on the mat. " * 40)
    decoded = []
    original = tokenizer.decode
    monkeypatch.setattr(tokenizer, "decode", lambda ids: decoded.append(len(ids)) or original(ids))
    stream = tokenizer.stream()
    text = "".join(stream.push([id]) for id in ids) + stream.finish()
    assert text == original(ids)
    assert max(decoded) < 8
    monkeypatch.undo()


@pytest.fixture
def changed(tokenizer_directories, tmp_path):
    """`changed(CONFIG, KEY=VALUE)`: a folder with a changed tokenizer.json and a config."""

    def directory(config=None, **values):
        content = json.loads((tokenizer_directories["llama"] / "tokenizer.json").read_text())
        (tmp_path / "tokenizer.json").write_text(json.dumps(content | values))
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config or {}))
        return tmp_path

    return directory


def test_older_files_name_tokens_by_objects(changed, tmp_path):
    names = {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": {"content": "</s>"}}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    tokenizer = Tokenizer.read(changed())
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (1, {2})
    assert Tokenizer.read(changed({"add_bos_token": False})).prefix == []


def test_answers_end_by_the_tokenizers_token_else_the_models(changed):
    bare = Tokenizer.read(changed())
    assert bare.end((9, 7)) == 7
    with pytest.raises(CheckpointError, match=r"/.* names no token that ends an answer"):
        bare.end(())
    assert Tokenizer.read(changed({"eos_token": "</s>"})).end((1,)) == 2


def added(content, **flags):
    return {"content": content, "normalized": False, "special": True, **flags}


OTHER_FILES = {
    "added_tokens_decoder": lambda size: {
        "added_tokens_decoder": {
            size: added("<x>", lstrip=True),
            size + 1: added("<think>", special=False),
        }
    },
    "added_tokens.json": lambda size: {"extra_special_tokens": ["<x>"]},
    "a list of extra tokens": lambda size: {"extra_special_tokens": ["<x>", "<think>"]},
    "a named token": lambda size: {"eos_token": "<x>", "pad_token": "<think>"},
}
"""How a file beside tokenizer.json adds `<x>` and `<think>`, of which the first has the id size."""


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_tokens_of_other_files_are_tokens_as_in_transformers(tmp_path, kind):
    directory = tiny_tokenizers.byte_level(tmp_path)
    size = Backend.from_file(str(directory / "tokenizer.json")).get_vocab_size()
    file = directory / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | OTHER_FILES[kind](size)))
    if kind == "added_tokens.json":
        (directory / kind).write_text(json.dumps({"<think>": size + 1, "<x>": size}))
    tokenizer, reference = Tokenizer.read(directory), AutoTokenizer.from_pretrained(directory)
    assert (tokenizer.token_id("<x>"), tokenizer.token_id("<think>")) == (size, size + 1)
    text = "a <x> cat<think>the "
    expected = reference(text, add_special_tokens=False).input_ids
    assert encoded(tokenizer, text) == expected
    assert tokenizer.decode(expected) == reference.decode(expected, skip_special_tokens=True)
    assert "<x>" in tokenizer.special_texts
    assert (size in tokenizer.eos_ids) == (kind == "a named token")


WORDS = {"type": "WordLevel", "vocab": {"a": 0, "\n": 1}, "unk_token": "<unk>"}


FAILING = {
    "characters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}},
    "no unknown word": {"model": WORDS},
    "ids without end": {"model": {**WORDS, "vocab": {"a": 0, "<unk>": 4_000_000}}},
}


@pytest.mark.parametrize("change", FAILING.values(), ids=FAILING)
def test_what_fails_in_the_library_is_one_error(changed, change):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is not a readable tokenizer: "):
        Tokenizer.read(changed(**change)).encode("a" * 40 + "b?")


def test_padding_is_off_before_anything_is_encoded(changed):
    expected = Tokenizer.read(changed()).encode("the cat")
    padding = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}
    assert Tokenizer.read(changed(padding=padding)).encode("the cat") == expected


@pytest.mark.parametrize(
    ("key", "token"),
    [("eos_token", "\ud800"), ("bos_token", {"content": "\ud800"}), ("image_token", "x" * 2000)],
)
def test_tokens_that_are_no_text_are_refused(changed, key, token):
    refusal = rf"tokenizer_config\.json(: {key} is | is not valid)"
    with pytest.raises(CheckpointError, match=refusal):
        Tokenizer.read(changed({key: token}))


def test_a_sentencepiece_model_is_converted(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("\n".join(tiny_tokenizers.TEXTS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "tokenizer"), vocab_size=340,
        model_type="bpe", byte_fallback=True, minloglevel=2, normalization_rule_name="identity",
    )  # fmt: skip
    reference = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    tokenizer = Tokenizer.read(tmp_path)
    for text in ("the cat sat", "a red square\nand zebras"):
        assert tokenizer.encode(text) == reference.encode(text)
    assert tokenizer.prefix == [1]
    assert tokenizer.eos_ids == {2}
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(CheckpointError, match="pip install transformers sentencepiece"):
        Tokenizer.read(tmp_path)


def with_tokens(count: int, *added: str, differing: int | None = None) -> Tokenizer:
    vocabulary = {f"t{id}": id for id in range(count)}
    if differing is not None:
        del vocabulary[f"t{differing}"]
        vocabulary["other"] = differing
    backend = Backend(models.WordLevel(vocabulary, unk_token="t0"))
    backend.add_special_tokens(list(added))
    return Tokenizer(backend, Names())


def test_shared_vocabularies():
    llama, llava = with_tokens(320), with_tokens(320, "<image>", "<pad>")
    assert shared_vocabulary(llava, llava) == 322
    for pair in ((llava, llama), (llama, llava), (llava, with_tokens(320, "<pad>"))):
        assert shared_vocabulary(*pair) == 320


def test_other_vocabularies_are_refused_with_the_first_difference(tokenizers):
    with pytest.raises(UsageError, match="id 17 is 'other', but 't17' in the target"):
        shared_vocabulary(with_tokens(100), with_tokens(100, differing=17))
    with pytest.raises(UsageError, match="another vocabulary"):
        shared_vocabulary(tokenizers["llama"], tokenizers["byte-level"])
