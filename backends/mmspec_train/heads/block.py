"""DFlash and DSpark to train: blocks of masks over the target's captured states.

Shape letters: B sequences, L columns, A starts, R rows of a block, D depths, H width, V vocabulary,
r Markov rank, n rows.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.checkpoints.block_config import BlockDraft
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.families.decoder import TextConfig
from mmspec_train.data.batch import Batch, gather_columns
from mmspec_train.data.teacher import Teacher
from mmspec_train.distillation.objective import DraftStarts, divergence
from mmspec_train.heads.head import Head
from mmspec_train.heads.layered import DecoderLayerModule
from mmspec_train.settings import HeadMethodSettings

LOSSES = {"dflash": (1.0, 0.0), "dspark": (0.1, 0.9)}
"""The published weights of cross-entropy and of ‖p - q‖₁ by kind."""
W1_SPREAD = 0.01
"""Standard deviation of the Markov head's embedding before training, as in DSpark."""


class BlockModule(Head):
    """A DFlash or DSpark head."""

    def __init__(self, config: HeadConfig, options: BlockDraft, text: TextConfig) -> None:
        """Build random weights; `begin` must follow before training."""
        super().__init__()
        self.config, self.options = config, options
        width, eps = text.hidden_size, text.rms_norm_eps
        self.fc = nn.Linear(len(options.captured_layers) * width, width, bias=False)
        self.hidden_norm = nn.RMSNorm(width, eps)
        count = range(text.num_hidden_layers)
        self.layers = nn.ModuleList(DecoderLayerModule(text, input_norm=True) for _ in count)
        self.norm = nn.RMSNorm(width, eps)
        if options.markov_rank:
            # Corrects each depth's logits by the token before it.
            embedding = nn.Embedding(text.vocab_size, options.markov_rank)
            matrix = nn.Linear(options.markov_rank, text.vocab_size, bias=False)
            self.markov_head = nn.ModuleDict({"markov_w1": embedding, "markov_w2": matrix})
            nn.init.normal_(embedding.weight, std=W1_SPREAD)
        if options.enable_confidence_head:
            proj = nn.Linear(width + options.markov_rank, 1)
            self.confidence_head = nn.ModuleDict({"proj": proj})
        self._has_axes = bool(text.rotary_axes)
        self.mask = nn.Buffer(torch.zeros(width), persistent=False)

    @torch.no_grad()
    def begin(self, teacher: Teacher, answers: Iterable[int]) -> None:  # noqa: ARG002
        """Take the target's embedding [H] of the token that stands for a guess."""
        self.mask.copy_(teacher.embed(torch.tensor(self.options.mask_token_id)))

    def forward(self, batch: Batch, starts: DraftStarts) -> Tensor:
        """Return features [D, B, A, H + r] of the guesses from every start.

        They are a row's output and the Markov embedding of the token before. The tokens before are
        the answer's own, which right guesses equal.
        """
        rows = self.options.rows_for(starts.depth)
        anchors = gather_columns(batch.embeddings, starts.columns).unsqueeze(2)
        masks = self.mask.to(anchors.dtype).expand(*starts.columns.shape, rows - 1, -1)
        x = torch.cat((anchors, masks), dim=2)
        context = self.hidden_norm(self.fc(batch.layer_outputs).float())
        columns = torch.arange(batch.ids.shape[1], device=x.device)
        places = batch.positions if self._has_axes else columns.expand_as(batch.positions)
        first = places.gather(2, starts.columns.unsqueeze(1).expand(-1, 3, -1))
        positions = (first.unsqueeze(-1) + torch.arange(rows, device=x.device)).flatten(2)
        visible = columns < starts.columns.unsqueeze(-1)
        if not self.options.image_context:
            visible = visible & ~batch.visual.unsqueeze(1)
        for layer in self.layers:
            assert isinstance(layer, DecoderLayerModule)
            x, _ = layer(x, positions, layer.keys_values(context, places), visible)
        features: Tensor = self.norm(x)[:, :, rows - starts.depth :].movedim(2, 0)
        if not self.options.markov_rank:
            return features
        before = batch.ids.expand(starts.depth, -1, -1).gather(2, starts.after)
        return torch.cat((features, self.markov_head["markov_w1"](before)), dim=-1)

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Return the log-probabilities [n, V] of features [n, H + r]."""
        row, embeddings = features.tensor_split([self.matrix.shape[1]], dim=-1)
        logits = F.linear(row.to(self.matrix.dtype), self.matrix).float()
        if self.options.markov_rank:
            logits = logits + self.markov_head["markov_w2"](embeddings).float()
        return torch.log_softmax(logits, dim=-1)

    def confidence(self, features: Tensor) -> Tensor:
        """Return the log-odds [n] that guesses with features [n, H + r] are accepted."""
        odds: Tensor = self.confidence_head["proj"](features).squeeze(-1).float()
        return odds

    def loss(
        self, features: Tensor, batch: Batch, starts: DraftStarts, method: HeadMethodSettings
    ) -> Tensor:
        """Return the published loss of features [D, B, A, ...].

        Of each live guess the cross-entropy of the target's token and ‖p - q‖₁, and the binary
        cross-entropy of DSpark's confidence against 1 - TV(p, q), weighted by decay^depth.
        """
        depths = torch.arange(starts.depth, device=features.device).view(-1, 1, 1)
        weights = (method.decay**depths).expand_as(starts.alive)[starts.alive]
        live = features[starts.alive]
        q = self.log_probabilities(live)
        p = self.of_target(batch)[starts.loss_rows(batch)[starts.alive]]
        tokens = batch.targets.expand(starts.depth, -1, -1).gather(2, starts.after)[starts.alive]
        ce_weight, l1_weight = LOSSES[self.config.kind]
        distance = (p.exp() - q.exp()).abs().sum(dim=-1) / 2
        losses = ce_weight * divergence("ce", p, q, tokens) + l1_weight * 2 * distance
        if self.options.enable_confidence_head:
            odds, share = self.confidence(live), (1 - distance).detach()
            losses = losses + F.binary_cross_entropy_with_logits(odds, share, reduction="none")
        return (weights * losses).sum() / weights.sum().clamp(min=1e-9)
