"""`mmspec models`: the models with a card, and which of them are on this machine."""

from pathlib import Path
from typing import Any

import click

from mmspec.chat.plugins import choose_backend, installed_backends, load_backend
from mmspec.checkpoints import mtp
from mmspec.checkpoints.cards import Card, load_cards, pair_of, present, revision_of
from mmspec.checkpoints.config import ModelConfig, model_type, read_config
from mmspec.checkpoints.head_config import is_head, read_head_config
from mmspec.checkpoints.head_export import LAYOUTS, Layout, export_head
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.hub_cache import delete
from mmspec.checkpoints.manifest import PRECISIONS, weight_bytes
from mmspec.checkpoints.recommendation import advice, size
from mmspec.decoding.inspection import Quantizer
from mmspec.drafters.views import LOOKUP
from mmspec.ground.errors import UsageError
from mmspec.ground.sizes import amount
from mmspec_cli.terminal.absent_models import pull_pair
from mmspec_terminal.help_pages import WholeGroup
from mmspec_terminal.options import BACKEND, JSON
from mmspec_terminal.render import Screen, in_words
from mmspec_terminal.setup import with_screen

GROUP_SIZE = 64
"""Weights that share a scale, unless another number is named."""


@click.group(cls=WholeGroup)
def models() -> None:
    """List, show, pull, quantize and export models."""


@models.command("list")
@BACKEND
@with_screen(JSON)
def list_models(screen: Screen, backend: str) -> None:
    """List every model with a card, whether it is on this machine, and its size; which to take."""
    name = reader(backend)
    cards = [describe(card, name) for card in load_cards().values()]
    screen.show(cards, ["name", "here", "size", "what it is"], [_row(card) for card in cards])
    if not screen.as_json:
        screen.say(advice(name))


def _row(card: dict[str, Any]) -> list[str]:
    presence = "yes" if card["present"] else "no"
    role = " and draft" if card["kind"] == "target" else ""
    purpose = f"{role} for {', '.join(card['for'])}" if card["for"] else ""
    description = f"{card['kind']}{purpose}: {card['description']}"
    return [card["name"], presence, amount(card["size"]) if card["size"] else "-", description]


@models.command()
@click.argument("name", metavar="NAME|REPO|DIR")
@BACKEND
@with_screen(JSON)
def show(screen: Screen, name: str, backend: str) -> None:
    """Show a model's card, or the model in a directory or repository on this machine.

    `memory` is the size of the weights by number of bits; with --json in bytes.
    """
    card, backend = load_cards().get(name), reader(backend)
    model = describe(card, backend) if card else describe_directory(resolve(name, backend))
    memory = {bits: amount(size) for bits, size in (model.get("memory") or {}).items()}
    rows = [(key, in_words(memory if key == "memory" else value)) for key, value in model.items()]
    screen.show(model, ["", ""], rows)


@models.command("pull")
@click.argument("name", metavar="NAME|REPO")
@click.option("--revision", help="Branch, tag or commit. Default: the card's.")
@click.option(
    "--bits",
    type=click.Choice((2, 4, 8)),
    help="Also write a copy with weights of this many bits, in MLX's format, to NAME-8bit here.",
)
@BACKEND
@with_screen()
def pull_model(
    screen: Screen, name: str, revision: str | None, bits: int | None, backend: str
) -> None:
    """Download a model and the draft that its card names, in the format of the backend.

    What was interrupted goes on. Each file is compared with the digest that the hub names.
    """
    if bits:
        _pull_and_quantize(name, revision, bits, backend, screen)
    else:
        screen.say(*pull_pair(name, reader(backend), screen.note, revision))


def _pull_and_quantize(
    name: str, revision: str | None, bits: int, backend: str, screen: Screen
) -> None:
    """Quantize what PyTorch would be given, whose weights are whole; the draft is MLX's own."""
    quantizer = _quantizer("mlx" if backend == "auto" else backend)
    copy = Path(f"{name.rpartition('/')[2]}-{bits}bit")
    if copy.exists():
        raise UsageError(f"{copy} is here already: chat with it, or delete it first")
    target, *draft = pull_pair(name, "mlx", screen.note, revision, source="torch")
    screen.progress(f"quantizing {name}")
    quantizer.quantize(target, copy, bits=bits, group_size=GROUP_SIZE)
    screen.say(copy, *draft)
    draft_option = f" --draft {pair_of(name)}" if draft else ""
    screen.note(f"`mmspec chat --backend mlx --model {copy}{draft_option}` talks with it")


@models.command("rm")
@click.argument("name", metavar="NAME|REPO")
@with_screen()
def remove(screen: Screen, name: str) -> None:
    """Delete a pulled model from the hub's cache, in every format and revision."""
    card = load_cards().get(name)
    if card and card.bundled:
        raise UsageError(f"{name} is in the package: pip uninstall mmspec removes it")
    deleted_bytes = delete(card.sources.values() if card else [name])
    screen.say(f"deleted {name}: {amount(deleted_bytes)}")


@models.command()
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST", type=click.Path(path_type=Path))
@click.option("--bits", type=int, default=4, help="Of a weight: 2, 4 or 8.")
@click.option("--group-size", type=int, default=GROUP_SIZE, help="Weights of one scale.")
@click.option("--backend", default="mlx", metavar="mlx", help="The format.")
@with_screen()
def quantize(
    screen: Screen, source: str, destination: Path, bits: int, group_size: int, backend: str
) -> None:
    """Write a quantized copy of a model (name, repository or directory) in MLX's format."""
    screen.progress(f"quantizing {source}")
    directory = resolve(source, backend)
    _quantizer(backend).quantize(directory, destination, bits=bits, group_size=group_size)
    screen.say(destination)


def _quantizer(backend: str) -> Quantizer:
    quantizer = load_backend(backend)
    if not isinstance(quantizer, Quantizer):
        raise UsageError(f"--backend {backend} writes no quantized checkpoints: use mlx")
    return quantizer


@models.command()
@click.argument("head", metavar="HEAD")
@click.argument("destination", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "layout",
    type=click.Choice(LAYOUTS),
    required=True,
    help="speculators: for vLLM. sglang: for SGLang and SpecForge.",
)
@click.option("--target", help="The head's target. Default: the one that the head's card names.")
@BACKEND
@with_screen()
def export(
    screen: Screen, head: str, destination: Path, layout: Layout, target: str | None, backend: str
) -> None:
    """Write an eagle, eagle3, dflash or dspark head as vLLM or SGLang reads it.

    Tensors keep their bytes. Heads that are fed images' features are refused: those engines give
    them none.
    """
    name = reader(backend)
    if not target:
        card = load_cards().get(head)
        if card is None or not card.serves:
            raise click.UsageError(f"no card says what {head} drafts for: give --target")
        target = card.serves[0]
    directory = resolve(target, name)
    export_head(resolve(head, name), directory, layout, destination, _hub_id(target, directory))
    screen.say(destination)


def _hub_id(target: str, directory: Path) -> str:
    """The repository of a target, or its directory if it came from none."""
    card = load_cards().get(target)
    if card and card.sources:
        return card.repositories("torch")[0]
    return str(directory.resolve()) if card or Path(target).exists() else target


def reader(backend: str) -> str:
    """As `choose_backend`, but for PyTorch on a machine without any backend."""
    return choose_backend(backend) if backend != "auto" or installed_backends() else "torch"


def _bytes_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def describe_directory(directory: Path) -> dict[str, Any]:
    """What the files of a model or of a head say; raises CheckpointError if they are of neither."""
    size = {"size": _bytes_of(directory), "directory": str(directory)}
    if is_head(directory):
        head = read_head_config(directory)
        return {"kind": f"head: {head.kind}", "target's width": head.hidden_size} | size
    config = read_config(directory)
    text, quantization = config.text, config.quantization
    cards = (card for card in load_cards().values() if card.model and card.model.text == text)
    head_kind = mtp.KIND if mtp.has_mtp(directory) else None
    return {
        "kind": "model for images" if config.vision else "model for text",
        "family": model_type(directory),
        "numbers": f"{quantization.bits} bits (MLX)" if quantization else config.dtype or "float32",
        "layers": text.num_hidden_layers,
        "width": text.hidden_size,
        "vocabulary": text.vocab_size,
        "context": text.max_position_embeddings,
        "draft": head_kind or next((card.pair for card in cards if card.pair), LOOKUP.spec),
        "memory": _memory(config),
    } | size


def _memory(config: ModelConfig) -> dict[str, int]:
    return {f"{bits} bits": weight_bytes(config, bits) for bits in PRECISIONS}


def describe(card: Card, backend: str) -> dict[str, Any]:
    """The card's fields for `models list --json`."""
    directory, model = present(card, backend), card.model
    if directory and not model and not is_head(directory):
        model = read_config(directory)
    return {
        "name": card.name,
        "kind": card.kind,
        "for": list(card.serves),
        "description": card.description,
        "note": card.note,
        "licence": card.licence,
        "draft": card.pair,
        "repositories": dict(card.sources),
        "revisions": {key: revision_of(source) for key, source in card.sources.items()},
        "memory": model and _memory(model),
        "size": _bytes_of(directory) if directory else size(card, backend),
        "bundled": card.bundled is not None,
        "present": str(directory) if directory else None,
    }
