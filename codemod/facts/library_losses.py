"""By what the loss of a library's model divides: `model(**batch).loss` of transformers leaves out targets of -100.

A slice whose texts are short has fewer targets than the next, so its mean must not weigh as much. Where a model
classifies samples, or its targets are numbers, there are as many in each row, and counting them is counting rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import divisors
from .batchtypes import UNTOLD
from .values import Batch, Dep, Value, tensor

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Interpreter

UNKNOWN_LOSS = "it is not known by what this model of a library divides its loss"
_SHIFTED = re.compile(r"CausalLM|LMHeadModel$|DoubleHeadsModel$")
_COUNTED = re.compile(
    r"Seq2SeqLM|MaskedLM|Classification|MultipleChoice|NextSentencePrediction|Segmentation"
    r"|^(M?T5|UMT5|LongT5|M?Bart|Pegasus|PegasusX|BlenderbotSmall|Blenderbot|BigBirdPegasus|Marian|M2M100|FSMT|LED"
    r"|Plbart|PLBart|ProphetNet|SwitchTransformers|Whisper|Speech2Text)(ForConditionalGeneration|MTModel)"
)


def divisor(ip: Interpreter, ref: str | None, arguments: Arguments) -> str | None:
    """Source text of what the loss divides by: `None` for rows, `UNTOLD` if that can't be told."""
    if not _has_labels(arguments) or not ip.uses_minus_100:
        return None
    parts = (ref or "").split(".") if (ref or "").startswith("transformers.") else []
    name = next((part for part in parts if part[:1].isupper()), "")
    text = divisors.of_name(ip, arguments, "labels")
    if text is None or not (_SHIFTED.search(name) or _COUNTED.search(name)):
        return UNTOLD
    return f"({text}{'[..., 1:]' if _SHIFTED.search(name) else ''} != -100).sum()"


def _has_labels(arguments: Arguments) -> bool:
    return "labels" in arguments.keywords or arguments.rest is not None


def of_output(output: Value) -> Value:
    """The loss in what a model of a library returns."""
    if output.batch.by == UNTOLD:
        return Value(batch=Batch(Dep.UNKNOWN, reason=UNKNOWN_LOSS))
    return tensor(Batch(Dep.PENDING, kind="mean", by=output.batch.by), output)


def is_loss(output: Value, key: object) -> bool:
    """Whether a member of what a model returns is its loss: by name, or the first one where it is given targets."""
    return output.opaque and (key == "loss" or (key == 0 and output.batch.by is not None))
