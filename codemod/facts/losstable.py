"""The table of divisors: by what the mean of every loss of `torch.nn` and `torch.nn.functional` divides.

Source: the signature and the `reduction` paragraph of each function's page in the PyTorch documentation (2.6 to 2.13).
"rows": the mean runs over all elements, or over samples, and every sample has the same number of elements. "targets":
it divides by the counted targets (`ignore_index`) or by their summed class weights (`weight`). "weights": by the sum of
`weight` where that is given, else by rows.
"""

from __future__ import annotations

from .torchnames import words

_ROWS = words(
    """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss gaussian_nll_loss
    hinge_embedding_loss huber_loss kl_div margin_ranking_loss multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
    triplet_margin_with_distance_loss
    """
)

DIVISORS: dict[str, str] = {
    **dict.fromkeys(_ROWS, "rows"),
    **dict.fromkeys(("cross_entropy", "nll_loss", "linear_cross_entropy"), "targets"),
    **dict.fromkeys(("mse_loss", "l1_loss"), "weights"),
}

_LEGACY = "size_average reduce reduction"

# Positional parameters of the functions.
FUNCTIONS: dict[str, list[str]] = {
    name: text.split()
    for name, text in {
        "binary_cross_entropy": f"input target weight {_LEGACY}",
        "binary_cross_entropy_with_logits": f"input target weight {_LEGACY} pos_weight",
        "cosine_embedding_loss": f"input1 input2 target margin {_LEGACY}",
        "cross_entropy": "input target weight size_average ignore_index reduce reduction label_smoothing",
        "ctc_loss": "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
        "gaussian_nll_loss": "input target var full eps reduction",
        "hinge_embedding_loss": f"input target margin {_LEGACY}",
        "huber_loss": "input target reduction delta weight",
        "kl_div": f"input target {_LEGACY} log_target",
        "l1_loss": f"input target {_LEGACY} weight",
        "linear_cross_entropy": "input linear_weight target",
        "margin_ranking_loss": f"input1 input2 target margin {_LEGACY}",
        "mse_loss": f"input target {_LEGACY} weight",
        "multi_margin_loss": f"input target p margin weight {_LEGACY}",
        "multilabel_margin_loss": f"input target {_LEGACY}",
        "multilabel_soft_margin_loss": f"input target weight {_LEGACY}",
        "nll_loss": "input target weight size_average ignore_index reduce reduction",
        "poisson_nll_loss": "input target log_input full size_average eps reduce reduction",
        "smooth_l1_loss": f"input target {_LEGACY} beta",
        "soft_margin_loss": f"input target {_LEGACY}",
        "triplet_margin_loss": f"anchor positive negative margin p eps swap {_LEGACY}",
        "triplet_margin_with_distance_loss": "anchor positive negative",
    }.items()
}

# Class -> its function, and the positional parameters of its constructor.
CLASSES: dict[str, tuple[str, list[str]]] = {
    name: (function, text.split())
    for name, function, text in (
        ("BCELoss", "binary_cross_entropy", f"weight {_LEGACY}"),
        ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", f"weight {_LEGACY} pos_weight"),
        ("CTCLoss", "ctc_loss", "blank reduction zero_infinity"),
        ("CosineEmbeddingLoss", "cosine_embedding_loss", f"margin {_LEGACY}"),
        ("CrossEntropyLoss", "cross_entropy", "weight size_average ignore_index reduce reduction label_smoothing"),
        ("GaussianNLLLoss", "gaussian_nll_loss", ""),
        ("HingeEmbeddingLoss", "hinge_embedding_loss", f"margin {_LEGACY}"),
        ("HuberLoss", "huber_loss", "reduction delta"),
        ("KLDivLoss", "kl_div", f"{_LEGACY} log_target"),
        ("L1Loss", "l1_loss", _LEGACY),
        ("LinearCrossEntropyLoss", "linear_cross_entropy", "in_features num_classes"),
        ("MSELoss", "mse_loss", _LEGACY),
        ("MarginRankingLoss", "margin_ranking_loss", f"margin {_LEGACY}"),
        ("MultiLabelMarginLoss", "multilabel_margin_loss", _LEGACY),
        ("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", f"weight {_LEGACY}"),
        ("MultiMarginLoss", "multi_margin_loss", f"p margin weight {_LEGACY}"),
        ("NLLLoss", "nll_loss", "weight size_average ignore_index reduce reduction"),
        ("NLLLoss2d", "nll_loss", "weight size_average ignore_index reduce reduction"),
        ("PoissonNLLLoss", "poisson_nll_loss", "log_input full size_average eps reduce reduction"),
        ("SmoothL1Loss", "smooth_l1_loss", f"{_LEGACY} beta"),
        ("SoftMarginLoss", "soft_margin_loss", _LEGACY),
        ("TripletMarginLoss", "triplet_margin_loss", f"margin p eps swap {_LEGACY}"),
        ("TripletMarginWithDistanceLoss", "triplet_margin_with_distance_loss", ""),
    )
}
