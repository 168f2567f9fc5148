"""Which target, precision and draft fit in a machine's memory, and whether drafting should pay.

The times are Mac figures that others published, not measurements of this machine; `mmspec
calibrate` measures it. A forward's time grows with layers and with bytes of weights. What it costs
to verify several tokens in one forward depends on the chip, so a speed-up is a range.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from mmspec.checkpoints.cards import Card, load_cards
from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.manifest import cache_bytes, step_bytes, weight_bytes

USABLE = 2 / 3
"""Share of a machine's memory that a model may take: macOS gives a GPU so much."""
CONTEXT = 4096
"""Positions for which the caches of target and draft have room."""
WORK = 1_250_000_000
"""Bytes of activations, logits and the features of images."""
LAYER, GIGABYTE = 0.108, 2.83
"""Milliseconds of a forward for each layer and for each 1e9 bytes of weights: fitted to the
published decoding speeds of Qwen3-VL 2B, 4B, 8B and 32B in 4 bits on an M1 Ultra.
"""
VERIFIED: dict[int, dict[str, tuple[float, ...]]] = {
    8: {"best": (1.0, 1.1, 1.1, 1.1, 1.1), "worst": (1.0, 1.1, 1.1, 1.1, 1.1)},
    4: {"best": (1.0, 1.1, 1.2, 1.43), "worst": (1.0, 1.75, 2.5, 3.26)},
}
"""Cost of a forward over 1 token and 0, 1, ... drafted ones, as parts of a forward over 1 token:
in 4 bits on an M4 Pro and on an M3 Ultra; in 8 bits the published figures are the same.
"""
ACCEPTED = {True: 0.8, False: 0.6}
"""Assumed share of accepted tokens of a draft that sees the images, and of one that does not."""
PAYS = 1.1
"""Speed-up, in the middle of its range, from which a draft is recommended."""
DRAFT_BITS = 4


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A target in `bits`, perhaps with a draft in 4 bits; `speedup` is the range expected."""

    target: str
    bits: int
    draft: str | None
    bytes: int
    speedup: tuple[float, float] | None
    reason: str

    @property
    def pays(self) -> bool:
        """True if drafting by the draft should be faster than plain decoding."""
        return self.speedup is not None and sqrt(self.speedup[0] * self.speedup[1]) >= PAYS

    def described(self) -> dict[str, Any]:
        """For `mmspec doctor --json`."""
        return asdict(self) | {"pays": self.pays}

    def line(self) -> str:
        """What to run, and the speed-up that is expected, in words."""
        draft = f" with {self.draft} in {DRAFT_BITS} bits" if self.draft else ", no draft"
        return f"{self.target} in {self.bits} bits{draft}: {self.gain}"

    @property
    def gain(self) -> str:
        """The expected speed-up in words."""
        if self.speedup is None:
            return "as fast as plain decoding"
        low, high = (f"{each:.1f}" for each in self.speedup)
        return f"{low} times" if low == high else f"{low} to {high} times, by chip"


def recommendations(memory: int) -> list[Recommendation]:
    """One for each target with a card that fits: first where drafting pays, larger ones first."""
    cards = load_cards()
    sized = {name: model for name, card in cards.items() if (model := card.model)}
    targets = (cards[name] for name in sized if cards[name].kind == "target")
    best = (_best(target, cards.values(), sized, USABLE * memory) for target in targets)
    pairs = [each for each in best if each]
    return sorted(pairs, key=lambda each: (-each.pays, -weight_bytes(sized[each.target], 16)))


def _best(
    target: Card, cards: Iterable[Card], sized: dict[str, ModelConfig], room: float
) -> Recommendation | None:
    """The pair of a target that pays, in the most bits; else the target alone; None if too big."""
    serving = [card.name for card in cards if target.name in card.serves]
    options = list(_options(target.name, serving, sized))
    fitting = [each for each in options if each.bytes <= room]
    paying = [each for each in fitting if each.pays]
    if paying:
        return max(paying, key=lambda each: (each.bits, each.speedup))
    alone = (each for each in fitting if each.draft is None)
    return max(alone, key=lambda each: each.bits, default=None)


def _options(
    name: str, serving: list[str], sized: dict[str, ModelConfig]
) -> Iterator[Recommendation]:
    target, drafts = sized[name], [draft for draft in serving if draft in sized]
    for bits in VERIFIED:
        own = weight_bytes(target, bits) + cache_bytes(target.text, CONTEXT) + WORK
        yield Recommendation(name, bits, None, own, None, _why_alone(bits, drafts, serving))
        for draft in drafts:
            model = sized[draft]
            both = own + weight_bytes(model, DRAFT_BITS) + cache_bytes(model.text, CONTEXT)
            cost = milliseconds(model, DRAFT_BITS) / milliseconds(target, bits)
            share = ACCEPTED[model.vision is not None or target.vision is None]
            speedup = _speedup(cost, share, bits, "worst"), _speedup(cost, share, bits, "best")
            reason = f"a token of the draft costs {cost:.2f} of one of the target"
            yield Recommendation(name, bits, draft, both, speedup, reason)


def _why_alone(bits: int, drafts: list[str], serving: list[str]) -> str:
    if serving and not drafts:
        return f"the cards of its drafts, such as {serving[0]}, do not say their sizes"
    if not drafts:
        return "no smaller model is worth its time; n-grams or a head may be"
    return f"in {bits} bits no draft that fits is expected to pay; n-grams or a head may"


def milliseconds(config: ModelConfig, bits: int) -> float:
    """Milliseconds of one token on an M1 Ultra."""
    return LAYER * config.text.num_hidden_layers + GIGABYTE * step_bytes(config, bits) / 1e9


def _speedup(cost: float, share: float, bits: int, chip: str) -> float:
    """The speed-up of the best draft length: accepted tokens by the time of a round."""
    costs = enumerate(VERIFIED[bits][chip])
    lengths = ((k, verified) for k, verified in costs if k)
    return max(
        (1 - share ** (k + 1)) / (1 - share) / (k * cost + verified) for k, verified in lengths
    )
