"""What each fixture needs to be run: arguments, environment, and where equality can't be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@dataclass(frozen=True)
class Larger:
    """How to run the original with a four times larger batch, and the conversion with `--accumulate 4`.

    Attributes:
        original, converted: arguments of the two runs.
        original_env, converted_env: their environments.
        lines: regular expression of the output lines that both must have (evaluation; not the per-batch ones).
    """

    lines: str
    original: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()
    original_env: dict[str, str] = field(default_factory=dict)
    converted_env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One fixture.

    Attributes:
        name: its folder.
        runs: arguments of the runs, one after the other in the same folder.
        env: environment of all runs.
        may_refuse: backends (as `target` names them) that may refuse instead of being equal.
        accumulate: the larger batch of the original, `None` where a larger batch is another run (BatchNorm, noise).
        no_window: code of the finding that refuses `--accumulate`, empty if it doesn't.
    """

    name: str
    runs: tuple[tuple[str, ...], ...] = ((),)
    env: dict[str, str] = field(default_factory=dict)
    may_refuse: tuple[str, ...] = ()
    accumulate: Larger | None = None
    no_window: str = ""


CASES = (
    Case("functions", accumulate=Larger("Test set", ("--batch-size", "24"), ("--batch-size", "6"))),
    Case(
        "module_scheduler",
        accumulate=Larger("mse", original_env={"BATCH_SIZE": "24"}, converted_env={"BATCH_SIZE": "6"}),
    ),
    # with drop_last, the batches that a larger batch would drop must be those that the smaller one drops
    Case("trainer_class", accumulate=Larger("val", original_env={"BATCH": "32"}, converted_env={"BATCH": "8"})),
    # four draws of 16 normal numbers are one draw of 64 only in multiples of 16: batches of 4 rows by 4 latents
    Case("vae_penalty", accumulate=Larger("Test set|sample", ("--batch-size", "16"), ("--batch-size", "4"))),
    Case("gan_dcgan", no_window="DST211"),
    Case("gan_simple", no_window="DST211"),
    Case("lm_get_batch", no_window="DST213"),
    Case("cnn_topk"),
    Case("f1_lists"),
    Case("tagging_weights"),
    Case("weighted_sampler", accumulate=Larger("test", ("--batch", "16"), ("--batch", "4"))),
    Case("stream_tied"),
    Case("finetune", no_window="DST205"),
    Case(
        "resume",
        runs=(("--epochs", "2"), ("--epochs", "4", "--resume", "ckpt.pth")),
        accumulate=Larger("Error", ("--batch-size", "24"), ("--batch-size", "6")),
    ),
    Case("odd_sizes", accumulate=Larger("rmse", original_env={"BATCH": "28"})),
    Case("dice_segmentation"),
    Case("bucket_batches", no_window="DST205"),
    Case("distill", accumulate=Larger("Eval", ("24",), ("6",))),
    # nothing tells the end of a pass over slices: a whole number of windows
    Case("sliced_tensors", accumulate=Larger("Test set", ("--batch_size", "20"), ("--batch_size", "5"))),
    # DeepSpeed gives the parameters back before the second backward
    Case("wgan_gp", may_refuse=("deepspeed3",), no_window="DST211"),
    Case("rnn_bptt"),
    Case("net_zoo", no_window="DST211"),
    Case(
        "stopping",
        runs=((), ("--max-steps", "20"), ("--target", "0.15", "--patience", "9")),
        no_window="DST213",  # the norm decides for each batch
    ),
    Case("steps_by_hand", no_window="DST204"),
    Case("own_methods"),
    Case("word_batches", no_window="DST205"),
)

BY_NAME = {case.name: case for case in CASES}
