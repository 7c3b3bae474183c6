"""Models in every form: what makes one, which optimizer owns it, and what it is called there."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import HEAD, codes, facts_of, inside, roles

CONSTRUCTORS = {
    "torchvision": ("import torchvision", "torchvision.models.resnet18(weights=None)"),
    "torchvision names": ("from torchvision.models import resnet50, ResNet50_Weights", "resnet50(weights='DEFAULT')"),
    "torchvision module": ("from torchvision import models", "models.vgg16()"),
    "torchvision getattr": ("from torchvision import models", "getattr(models, 'resnet18')()"),
    "torchvision dict": ("from torchvision import models", "models.__dict__['resnet18']()"),
    "torchvision get_model": ("from torchvision import models", "models.get_model('resnet18')"),
    "torchvision detection": ("import torchvision", "torchvision.models.detection.fasterrcnn_resnet50_fpn()"),
    "timm": ("import timm", "timm.create_model('resnet18', pretrained=True, num_classes=10)"),
    "timm module": ("from timm.models import resnet18", "resnet18()"),
    "transformers": ("from transformers import AutoModel", "AutoModel.from_pretrained('bert-base-uncased')"),
    "transformers config": (
        "from transformers import BertConfig, BertForSequenceClassification",
        "BertForSequenceClassification(BertConfig())",
    ),
    "hub": ("", "torch.hub.load('pytorch/vision', 'resnet18')"),
    "smp": ("import segmentation_models_pytorch as smp", "smp.Unet('resnet34', classes=2)"),
    "geometric": ("from torch_geometric.nn import GCN", "GCN(16, 16, 2)"),
    "efficientnet": (
        "from efficientnet_pytorch import EfficientNet",
        "EfficientNet.from_pretrained('efficientnet-b0')",
    ),
    "open_clip": ("import open_clip", "open_clip.create_model('ViT-B-32')"),
    "monai": ("from monai.networks.nets import UNet", "UNet(spatial_dims=2, in_channels=1, out_channels=2)"),
    "sequential": ("", "nn.Sequential(nn.Linear(4, 3))"),
    "embedding": ("", "nn.Embedding.from_pretrained(torch.zeros(3, 4), freeze=False)"),
    "embedding bag": ("", "nn.EmbeddingBag.from_pretrained(torch.zeros(3, 4), freeze=False)"),
    "compiled": ("", "torch.compile(nn.Linear(4, 3), backend='eager')"),
    "moved": ("", "nn.Linear(4, 3).to('cpu').double().train()"),
    "channels last": ("", "nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)"),
    "weight norm": ("", "nn.utils.weight_norm(nn.Linear(4, 3))"),
    "spectral norm": ("", "nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))"),
    "copy": ("", "copy.deepcopy(nn.Linear(4, 3))"),
    "choice": ("", "{'a': Net, 'b': nn.Identity}['a']()"),
}


def training(make: str, head: str = "", optimizer: str = "optim.SGD(model.parameters(), lr=0.1)") -> str:
    return (
        f"{HEAD}{head}\n\n\ndata = TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,)))\n"
        f"loader = DataLoader(data, batch_size=7)\n{make}\nopt = {optimizer}\n"
        "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    opt.zero_grad()\n    loss.backward()\n"
        "    opt.step()\n    print(loss.item())\n"
    )


@pytest.mark.parametrize(("head", "make"), CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_constructors(head: str, make: str) -> None:
    facts = facts_of(training(f"model = {make}", head))
    assert "model" in roles(facts, "model")
    assert [o.models for o in facts.optimizers] == [("model",)]
    assert [(r.kind, facts.text(r.node)) for r in facts.reductions] == [("mean", "F.cross_entropy(model(x), y)")]
    assert [item.feeds_model for item in facts.loaders] == [True]
    assert codes(facts) == []


OWNERS = {
    "module dict": (
        "nets = nn.ModuleDict()\nfor k in 'ab':\n    nets[k] = nn.Linear(4, 4)\nmodel = Net()\n"
        "params = list(model.parameters())\nfor m in nets.values():\n    params += list(m.parameters())",
        "optim.SGD(params, lr=0.1)",
        ("model", "nets"),
    ),
    "module dict items": (
        "nets = nn.ModuleDict({'a': nn.Linear(4, 4)})\nmodel = Net()\n"
        "groups = [{'params': m.parameters()} for _, m in nets.items()] + [{'params': model.parameters()}]",
        "optim.SGD(groups, lr=0.1)",
        ("model", "nets"),
    ),
    "chain": (
        "other = nn.Linear(4, 4)\nmodel = Net()",
        "optim.SGD(itertools.chain(model.parameters(), other.parameters()), lr=0.1)",
        ("model", "other"),
    ),
    "filter": ("model = Net()", "optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)", ("model",)),
    "layers": (
        "model = Net()",
        "optim.SGD([{'params': model.fc.parameters()}, {'params': [model.fc.bias], 'lr': 0.1}], lr=0.1)",
        ("model",),
    ),
    "named": (
        "model = Net()\ndecay = [p for n, p in model.named_parameters() if 'bias' not in n]\n"
        "rest = [p for n, p in model.named_parameters() if 'bias' in n]",
        "optim.SGD([{'params': decay, 'weight_decay': 0.1}, {'params': rest}], lr=0.1)",
        ("model",),
    ),
    "local class": (
        "def build():\n    class Local(nn.Module):\n        def __init__(self):\n            super().__init__()\n"
        "            self.fc = nn.Linear(4, 3)\n\n        def forward(self, x):\n            return self.fc(x)\n\n"
        "    return Local()\n\n\nmodel = build()",
        "optim.SGD(model.parameters(), lr=0.1)",
        ("model",),
    ),
}


@pytest.mark.parametrize(("make", "optimizer", "models"), OWNERS.values(), ids=OWNERS)
def test_owners(make: str, optimizer: str, models: tuple[str, ...]) -> None:
    facts = facts_of(training(make, "import itertools", optimizer))
    assert [o.models for o in facts.optimizers] == [models]
    assert codes(facts) == []


def test_averaged_model_is_a_copy_that_no_optimizer_owns() -> None:
    make = "model = Net()\naverage = torch.optim.swa_utils.AveragedModel(model)"
    facts = facts_of(training(make))
    assert [o.models for o in facts.optimizers] == [("model",)]
    assert "model" in roles(facts, "average")


@pytest.mark.parametrize("text", ["average(x)", "average.module(x)"])
def test_averaged_model_runs(text: str) -> None:
    before = "average = torch.optim.swa_utils.AveragedModel(model)"
    assert inside(f"print({text}.mean())", before=before) == [f"mean({text}.mean())"]


LOOSE = {
    "parameter": ("w = nn.Parameter(torch.zeros(4, 3))", "[w]", ("w",)),
    "tensor": ("w = torch.zeros(4, 3, requires_grad=True)", "[w]", ("w",)),
    "drawn": ("w = torch.randn(4, 3, requires_grad=True)", "[w]", ("w",)),
    "group": ("w = nn.Parameter(torch.zeros(4, 3))", "[{'params': [w], 'lr': 0.1}]", ("w",)),
    "beside a model": (
        "model = Net()\nw = nn.Parameter(torch.zeros(4, 3))",
        "list(model.parameters()) + [w]",
        ("model", "w"),
    ),
    "list": ("w = nn.Parameter(torch.zeros(4, 3))\nparams = [w]", "params", ("*params",)),
    "list beside a model": (
        "model = Net()\nw = nn.Parameter(torch.zeros(4, 3))\nparams = list(model.parameters()) + [w]",
        "params",
        ("*params", "model"),
    ),
    "of a module": (
        "class Scale(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.zeros(4, 3))\n\n    def forward(self, x):\n        return x @ self.w\n\n\n"
        "model = Scale()\nw = model.w",
        "[model.w]",
        ("model",),
    ),
}


@pytest.mark.parametrize(("make", "given", "models"), LOOSE.values(), ids=LOOSE)
def test_parameters_of_no_module(make: str, given: str, models: tuple[str, ...]) -> None:
    source = training(make, optimizer=f"optim.SGD({given}, lr=0.1)").replace("model(x)", "x @ w")
    facts = facts_of(source)
    assert [o.models for o in facts.optimizers] == [models]
    assert [item.feeds_model for item in facts.loaders] == [True]
    assert [(r.kind, facts.text(r.node)) for r in facts.reductions] == [("mean", "F.cross_entropy(x @ w, y)")]
    assert [facts.text(item.node) for item in facts.fulls] == (["w"] if models == ("model",) else [])
    assert codes(facts) == []
