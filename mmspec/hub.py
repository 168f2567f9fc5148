"""Where a named model lies on this machine, and how it gets there. Only `pull` uses the network."""

import difflib
import re
from pathlib import Path

from mmspec.cards import Card, load_cards, present
from mmspec.checkpoint import weight_files
from mmspec.config import CONFIG_FILE
from mmspec.errors import CheckpointError, HubError, UsageError, choice
from mmspec.hubcache import PULLED, cached
from mmspec.paths import typed_path

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def resolve(name: str, backend: str) -> Path:
    """Return the directory of a model given as a directory, a card's name or a hub id.

    Downloads nothing. Raises UsageError for a name that can be none of these, HubError for a
    model that is not on this machine, CheckpointError for a directory without a model.
    """
    directory, cards = typed_path(name), load_cards()
    if name and (directory / CONFIG_FILE).is_file():
        return directory
    if name in cards:
        return _present_or_raise(cards[name], backend)
    if name and directory.is_dir():
        raise CheckpointError(f"{name} has no {CONFIG_FILE}: it is not a model's directory")
    found = cached(_repository(name, cards), "main")
    if found is None:
        raise _not_here(name, backend, cards)
    return found


def pull(name: str, backend: str, revision: str | None = None) -> Path:
    """Download a card's model or a hub id into the hub's cache and return its directory.

    Raises HubError where it cannot be had, in one line that says why.
    """
    cards = load_cards()
    card = cards.get(name)
    if card is None:
        return _download(_repository(name, cards), revision or "main")
    if card.bundled is not None:
        return _present_or_raise(card, backend)
    return _download(card.repositories(backend)[0], revision or card.revision)


def _present_or_raise(card: Card, backend: str) -> Path:
    found = present(card, backend)
    if found is not None:
        return found
    if card.bundled is not None:
        raise HubError(
            f"{card.name} is bundled, but its weights are not in {card.bundled}: "
            "reinstall mmspec, or train them with `mmspec train mini`"
        )
    raise HubError(_pull_first(card.name, backend))


def _pull_first(name: str, backend: str) -> str:
    command = f"mmspec models pull {name} --backend {backend}"
    return f"{name} is not on this machine: run `{command}` where there is network"


def _not_here(name: str, backend: str, cards: dict[str, Card]) -> HubError:
    """Name the card or repository nearest to a hub id, in case it was a slip."""
    known = [repository for card in cards.values() for repository in card.sources.values()]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    hint = f" (known and near: {near[0]})" if near and near[0] != name else ""
    return HubError(_pull_first(name, backend) + hint)


def _repository(name: str, cards: dict[str, Card]) -> str:
    """Return `name` if it has the form of a hub id."""
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(f"there is no directory {name}: give a directory, a card or a hub id")
    if not _REPOSITORY.fullmatch(name):
        raise choice("model", name, cards)
    return name


def _download(repository: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        found = Path(snapshot_download(repository, revision=revision, allow_patterns=PULLED))
    except Exception as error:  # HTTP, Xet and the disk fail in classes without a common one
        raise _unreachable(repository, revision, error) from error
    try:
        weight_files(found)
    except CheckpointError as error:
        raise HubError(
            f"{repository} at {revision} has no whole safetensors weights, and pickles are not "
            "downloaded: name a revision that has them with --revision"
        ) from error
    return found


def _unreachable(repository: str, revision: str, error: Exception) -> HubError:
    """Say which of the usual reasons kept a repository from being downloaded."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    match error:
        case GatedRepoError():
            return HubError(f"{repository} needs its licence accepted: log in with `hf auth login`")
        case RepositoryNotFoundError():
            return HubError(f"{repository} is not on the hub, or is private: check the name")
        case RevisionNotFoundError():
            return HubError(f"{repository} has no revision {revision} on the hub")
        case LocalEntryNotFoundError() if constants.HF_HUB_OFFLINE:
            return HubError(f"{repository} cannot be pulled: HF_HUB_OFFLINE is set; unset it")
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return HubError(f"cannot pull {repository}: is there network? ({reason})")
