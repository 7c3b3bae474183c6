"""Names of torch by what they do to a batch dimension."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text: a set of names, readable in a table."""
    return frozenset(text.split())


# name -> (kind of the reduction over ranks or "" for none, position of `dim`, whether `dim` gives (values, indices)).
REDUCTIONS: dict[str, tuple[str, int, bool]] = {
    "mean": ("mean", 1, False),
    "sum": ("sum", 1, False),
    "count_nonzero": ("sum", 1, False),
    "nansum": ("sum", 1, False),
    "max": ("max", 1, True),
    "min": ("min", 1, True),
    "amax": ("max", 1, False),
    "amin": ("min", 1, False),
    "all": ("min", 1, False),
    "any": ("max", 1, False),
    "aminmax": ("", 1, True),
    "argmax": ("", 1, False),
    "argmin": ("", 1, False),
    "dist": ("", 9, False),
    "logsumexp": ("", 1, False),
    "median": ("", 1, True),
    "mode": ("", 1, True),
    "nanmean": ("", 1, False),
    "nanmedian": ("", 1, True),
    "nanquantile": ("", 2, False),
    "norm": ("", 2, False),
    "prod": ("", 1, False),
    "quantile": ("", 2, False),
    "std": ("", 1, False),
    "std_mean": ("", 1, True),
    "var": ("", 1, False),
    "var_mean": ("", 1, True),
    "vector_norm": ("", 2, False),
}

# name -> (position of `dim`, its default, whether it gives (values, indices)).
ALONG_DIM: dict[str, tuple[int, int | None, bool]] = {
    "argsort": (1, -1, False),
    "cosine_similarity": (2, 1, False),
    "cummax": (1, None, True),
    "cummin": (1, None, True),
    "cumprod": (1, None, False),
    "cumsum": (1, None, False),
    "cumulative_trapezoid": (2, -1, False),
    "diff": (2, -1, False),
    "flip": (1, None, False),
    "flipud": (9, 0, False),
    "gradient": (9, 0, False),
    "kthvalue": (2, -1, True),
    "log_softmax": (1, None, False),
    "logcumsumexp": (1, None, False),
    "msort": (9, 0, False),
    "normalize": (2, 1, False),
    "roll": (2, 0, False),
    "softmax": (1, None, False),
    "softmin": (1, None, False),
    "sort": (1, -1, True),
    "topk": (2, -1, True),
    "trapezoid": (9, -1, False),
    "trapz": (9, -1, False),
}

# Operations over all rows of a batch that no reduction over ranks stands for, and that leave no rows behind.
SUMMARIES = words(
    """
    allclose argwhere bincount block_diag combinations corrcoef cov equal frobenius_norm hash_tensor histc histogram
    histogramdd nonzero nonzero_static norm_except_dim nuclear_norm pca_lowrank pdist sum_to_size svd_lowrank trace
    unique unique_consecutive
    """
)

# Operations of rows with other rows.
PAIRWISE = words("cartesian_prod cdist ger kron outer tensordot")

# Operations in which the position of a row in the batch counts.
POSITIONS = words("diag diagflat fill_diagonal_ rot90")

# Operations on the last two dimensions: of every sample, unless the rows are one of the two.
MATRICES = words(
    """
    cholesky cond det diagonal eig eigh eigvals eigvalsh geqrf inv inverse logdet lstsq lu lu_factor lu_factor_ex
    matrix_exp matrix_norm matrix_power matrix_rank pinv pinverse qr slogdet solve svd svdvals tril triu
    """
)

METADATA = words(
    """size dim ndimension numel nelement stride get_device is_contiguous element_size data_ptr type is_tensor
    is_floating_point is_complex"""
)

PARAM_METADATA = METADATA | words(
    "requires_grad_ register_hook register_post_accumulate_grad_hook detach_ zero_ is_floating_point"
)

HOST_COPIES = {"numpy", "tolist", "item", "__array__"}

ALIASES = {"detach", "detach_", "requires_grad_", "retain_grad", "contiguous"}  # the same memory, as far as it matters

IDENTITY = words(
    """
    bfloat16 bool byte char clone contiguous cpu cuda detach detach_ double float half int long pin_memory
    requires_grad_ short to type_as to_dense resolve_conj positive xpu retain_grad as_tensor from_numpy
    """
)

# Methods that belong to tensors: on a receiver that may be anything they are taken for tensor methods.
TENSOR_METHODS = (
    set(REDUCTIONS)
    | set(ALONG_DIM)
    | SUMMARIES
    | PAIRWISE
    | POSITIONS
    | MATRICES
    | METADATA
    | IDENTITY
    | HOST_COPIES
    | words(
        """
        scatter_reduce scatter_reduce_ index_copy_ index_fill_ index_put index_put_ index_reduce index_reduce_ put_
        masked_scatter_ take_along_dim
        abs add addmm acos asin atan baddbmm bitwise_and bitwise_or bmm ceil chunk clamp clamp_max clamp_min clip cos
        cross div divide dot eq erf exp expand expand_as expm1 fill_ flatten float_power floor fmod gather ge gt
        index_add index_copy index_fill index_select inner inverse isfinite isinf isnan le lerp log log10 log1p log2
        logical_and logical_not logical_or logical_xor logit lt masked_fill masked_fill_ masked_scatter masked_select
        matmul maximum minimum mm movedim mul multiply mv narrow ne neg new_empty new_full new_ones new_tensor
        new_zeros not_equal permute pow reciprocal relu remainder repeat repeat_interleave reshape reshape_as round
        rsqrt scatter scatter_ scatter_add scatter_add_ select sigmoid sign sin softmax split sqrt square squeeze sub
        subtract swapaxes t take tan tanh tensor_split tile transpose trunc type_as unbind unflatten unfold unsqueeze
        view view_as where zero_ add_ sub_ mul_ div_ copy_ clamp_ pow_ sqrt_ exp_ eq_ uniform_ normal_ random_
        bernoulli_ exponential_ bernoulli multinomial backward register_hook
        """
    )
)

TORCH_SPACES = (
    "torch.nn.functional.",
    "torch.nn.init.",
    "torch.special.",
    "torch.linalg.",
    "torch.fft.",
    "torch.Tensor.",
    "torchvision.transforms.functional.",
    "einops.",
)
