"""Pre-training of the vision tower on what every cell of a picture shows: CLIP's place."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import CLIPVisionModel

from mmspec_torch.train import build
from mmspec_torch.train.data import LabelledBatch

# Most cells are empty; their share of the loss is cut by this.
EMPTY_WEIGHT = 0.2


class Reader(nn.Module):
    """A tower with one linear head per label, over the features that LLaVA reads."""

    def __init__(self, tower: CLIPVisionModel, hidden: int, labels: Mapping[str, int]) -> None:
        """Put a head per label, of so many classes, on a tower `hidden` wide."""
        super().__init__()
        self.tower = tower
        heads = {name: nn.Linear(hidden, classes) for name, classes in labels.items()}
        self.heads = nn.ModuleDict(heads)

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return (images, patches, classes) logits of each label."""
        features = build.patch_features(self.tower, pixels)
        return {name: head(features).float() for name, head in self.heads.items()}

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Return the sum of the labels' cross-entropies."""
        losses = [
            nn.functional.cross_entropy(
                logits.flatten(0, 1), batch.labels[name].flatten(), _weights(name, logits)
            )
            for name, logits in self(batch.pixels).items()
        ]
        return torch.stack(losses).sum()


def _weights(name: str, logits: Tensor) -> Tensor:
    weights = torch.ones(logits.shape[-1], device=logits.device)
    if name != "background":
        weights[0] = EMPTY_WEIGHT
    return weights


@torch.no_grad()
def accuracy(reader: Reader, batch: LabelledBatch) -> dict[str, float]:
    """Return each label's share of right cells among the cells that are not empty."""
    found = {}
    for name, logits in reader(batch.pixels).items():
        truth = batch.labels[name]
        asked = truth >= (0 if name == "background" else 1)
        found[name] = (logits.argmax(-1) == truth)[asked].float().mean().item()
    return found
