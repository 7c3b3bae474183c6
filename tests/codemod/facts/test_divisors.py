"""Batches that are passed by unpacking, and divisors that a function knows in names that its caller doesn't have."""

from __future__ import annotations

import pytest

from .snippets import codes, edits, facts_of

COUNTED = "mean({loss}, by=({target} != -100).sum())"
HEAD = """\
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
{head}


@dataclass
class Output:
    loss: torch.Tensor = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, labels, mask=None):
        loss = nn.CrossEntropyLoss(ignore_index=-100)(self.fc(x), labels)
        {returned}


model = {model}
loader = DataLoader(TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,))), batch_size=7{options})
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for {batch} in loader:
    {used}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def script(
    used: str,
    returned: str = "return loss",
    *,
    batch: str = "x, y",
    head: str = "",
    options: str = "",
    model: str = "Net()",
) -> str:
    return HEAD.format(used=used, returned=returned, batch=batch, head=head, options=options, model=model)


@pytest.mark.parametrize(
    ("returned", "used", "loss"),
    [
        ("return {'loss': loss}", "loss = model(x, y)['loss']", "model(x, y)['loss']"),
        ("return dict(loss=loss)", "out = model(x, y); loss = out['loss']", "out['loss']"),
        ("out = {}; out['loss'] = loss; return out", "loss = model(x, y)['loss']", "model(x, y)['loss']"),
        ("return Output(loss=loss)", "loss = model(x, y).loss", "model(x, y).loss"),
        ("return SimpleNamespace(loss=loss)", "out = model(x, y); loss = out.loss", "out.loss"),
        ("self.loss = loss; return self.loss", "loss = model(x, y)", "model(x, y)"),
        ("return [loss, 0]", "loss = model(x, y)[0]", "model(x, y)[0]"),
    ],
)
def test_an_object_that_a_forward_returns_counts_the_targets_of_its_caller(returned: str, used: str, loss: str) -> None:
    assert COUNTED.format(loss=loss, target="y") in edits(facts_of(script(used, returned)))


def test_a_local_name_of_a_forward_is_written_out() -> None:
    returned = "t = labels.view(-1).contiguous(); return nn.functional.cross_entropy(self.fc(x), t, ignore_index=-100)"
    expected = COUNTED.format(loss="model(x, y)", target="y.view(-1).contiguous()")
    assert expected in edits(facts_of(script("loss = model(x, y)", returned)))


@pytest.mark.parametrize(
    "changes",
    [
        "t = t + 1",
        "t[0] = 2",
        "t.clamp_(max=2)",
        "t += 1",
        "labels = labels + 1",
    ],
)
def test_a_local_name_that_is_changed_has_no_text(changes: str) -> None:
    returned = f"t = labels.long(); {changes}; return nn.functional.cross_entropy(self.fc(x), t, ignore_index=-100)"
    assert "DST116" in codes(facts_of(script("loss = model(x, y)", returned)))


@pytest.mark.parametrize(
    ("returned", "used"),
    [
        ("self.kept = loss; return self.fc(x)", "model(x, y); loss = model.kept"),
        ("mask['loss'] = loss; return mask", "kept = {}; model(x, y, kept); loss = kept['loss']"),
        ("mask.loss = loss; return mask", "kept = Output(); model(x, y, kept); loss = kept.loss"),
    ],
)
def test_what_a_forward_leaves_in_another_object_has_no_text(returned: str, used: str) -> None:
    assert codes(facts_of(script(used, returned))) == ["DST116"]


@pytest.mark.parametrize(
    ("batch", "used", "target"),
    [
        ("batch", "loss = model(*batch)", "batch[1]"),
        ("x, y", "batch = {'x': x, 'labels': y}; loss = model(**batch)", "batch['labels']"),
        ("x, y", "loss = model(x, **{'labels': y})", None),
    ],
)
def test_a_batch_that_is_unpacked(batch: str, used: str, target: str | None) -> None:
    facts = facts_of(script(used, batch=batch))
    if target is None:
        assert codes(facts) == ["DST116"]
    else:
        loss = used.rpartition("loss = ")[2]
        assert COUNTED.format(loss=loss, target=target) in edits(facts)


TRANSFORMERS = "from transformers import AutoModelForCausalLM, AutoModelForTokenClassification, DataCollatorWithPadding"
COLLATED = ", collate_fn=DataCollatorWithPadding(tokenizer)"


@pytest.mark.parametrize(
    "moved", ["", "batch = {k: v.cuda() for k, v in batch.items()}; ", "batch = batch.to('cpu'); "]
)
def test_a_batch_whose_names_are_a_library_s_is_unpacked(moved: str) -> None:
    used = f"{moved}loss = model(**batch)"
    facts = facts_of(script(used, batch="batch", head=TRANSFORMERS, options=COLLATED))
    assert COUNTED.format(loss="model(**batch)", target="batch['labels']") in edits(facts)
    assert [loader.feeds_model for loader in facts.loaders] == [True]


def test_options_of_a_forward_are_not_in_a_batch() -> None:
    returned = "return loss if mask is None else loss * 2"
    facts = facts_of(script("loss = model(**batch)", returned, batch="batch", head=TRANSFORMERS, options=COLLATED))
    assert not [code for code in codes(facts) if code == "DST126"]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("AutoModelForCausalLM", "batch['labels'][..., 1:]"),
        ("AutoModelForTokenClassification", "batch['labels']"),
    ],
)
@pytest.mark.parametrize("loss", ["model(**batch).loss", "model(**batch)['loss']", "model(**batch)[0]"])
def test_the_loss_of_a_library_s_model_counts_its_targets(name: str, target: str, loss: str) -> None:
    model = f"{name}.from_pretrained('tiny')"
    source = script(f"loss = {loss}", batch="batch", head=TRANSFORMERS, options=COLLATED, model=model)
    assert COUNTED.format(loss=loss, target=target) in edits(facts_of(source))
    wrapped = script(
        f"loss = {loss}", batch="batch", head=TRANSFORMERS, options=COLLATED, model=f"get_peft_model({model}, c)"
    )
    wrapped = wrapped.replace("import torch\n", "import torch\nfrom peft import get_peft_model\n", 1)
    assert COUNTED.format(loss=loss, target=target) in edits(facts_of(wrapped))


def test_the_loss_of_a_library_s_model_that_divides_by_who_knows() -> None:
    head = "from transformers import LlavaForConditionalGeneration as Llava"
    facts = facts_of(script("loss = model(x, labels=y).loss", head=head, model="Llava.from_pretrained('tiny')"))
    assert codes(facts) == ["DST110"]


COLLATOR = """

class Collator:
    def __call__(self, rows):
        batch = {"x": [], "labels": []}
        for x, y in rows:
            batch["x"].append(x.tolist())
            batch["labels"].append(int(y))
        return {k: torch.tensor(v) for k, v in batch.items()}
"""


def test_an_object_that_collates() -> None:
    facts = facts_of(script("loss = model(**batch)", batch="batch", head=COLLATOR, options=", collate_fn=Collator()"))
    assert COUNTED.format(loss="model(**batch)", target="batch['labels']") in edits(facts)
    facts = facts_of(
        script("loss = model(**batch)", "return loss", batch="batch", head=COLLATOR, options=", collate_fn=Collator()")
    )
    assert [loader.feeds_model for loader in facts.loaders] == [True]


def test_a_step_whose_parts_are_in_other_functions_is_not_left_whole_in_silence() -> None:
    source = """
    import torch
    from elsewhere import batches, computed
    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        def backward(self, batch):
            computed(self, batch).backward()
        def fit(self):
            for batch in batches():
                self.optimizer.zero_grad()
                self.backward(batch)
                self.optimizer.step()
    Trainer(torch.nn.Linear(3, 4)).fit()
    """
    assert codes(facts_of(source)) == ["DST140"]
