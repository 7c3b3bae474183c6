"""A forward in which a model trains: the file is left alone."""

from __future__ import annotations

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

FITS_ITSELF = """
import torch
from library import Explainer


class Masked(Explainer):
    def forward(self, model, x, *, target, **options):
        self.fit(model, x, target=target, **options)
        return self.shown(self.mask, keep=True)

    def fit(self, model, x, *, target, **options):
        self.start(x)
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        loss = self.loss(model(x * self.mask.sigmoid(), **options), target)
        loss.backward()
        optimizer.step()

    def start(self, x):
        (rows, columns), std = x.size(), 0.1
        self.mask = torch.nn.Parameter(torch.randn(rows, columns) * std)
"""


def test_a_forward_that_trains_is_refused_as_a_whole() -> None:
    result = rewrite_source(FITS_ITSELF.encode(), "train.py", Options(partial=True))
    assert [item.code for item in result.findings] == ["DST124"]
    assert result.data == result.before
