"""Converters that treat complex numbers in the same way as real ones."""

from __future__ import annotations

import functools
from dataclasses import replace

from hx import converter, registrations
from hx.lazy import torch

from . import (
    arithmetic,
    comparison,
    composites,
    convolution,
    copies,
    creation,
    cumulative,
    diagonals,
    einsum,
    elementwise,
    indexing,
    linalg,
    linalg_factors,
    linalg_solving,
    linalg_spectra,
    linear,
    ordering,
    packing,
    padding,
    reduction,
    scattering,
    shape,
    statistics,
    tensors,
    windows,
)

# Converters whose code is the same for complex numbers and real ones: `op` does the rest.
AS_FOR_REAL = {
    tensors: """Tensor.detach Tensor.contiguous clone Tensor.data.__get__ Tensor.requires_grad_
        Tensor.cpu Tensor.cuda positive resolve_conj resolve_neg ops.aten.alias
        ops.aten.lift_fresh_copy Tensor.to Tensor.type_as Tensor.type ops.aten._to_copy
        Tensor.float Tensor.double Tensor.bool""",
    copies: """alias_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy select_copy
        slice_copy split_with_sizes_copy split_copy squeeze_copy t_copy transpose_copy unbind_copy
        unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze_copy view_copy""",
    shape: """Tensor.view reshape ops.aten._unsafe_view Tensor.view_as Tensor.reshape_as
        _shape_as_tensor flatten ravel unflatten Tensor.unflatten permute transpose swapaxes swapdims
        t Tensor.T.__get__ Tensor.mT.__get__ movedim moveaxis unsqueeze squeeze as_strided
        nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.channel_shuffle
        ops.aten.channel_shuffle
        Tensor.expand broadcast_to Tensor.expand_as Tensor.repeat tile cat concat concatenate stack
        split_with_sizes Tensor.split split functional.split ops.aten.split chunk tensor_split
        unbind flip roll rot90 block_diag ops.aten.block_diag""",
    indexing: """Tensor.__getitem__ ops.aten.index Tensor.__setitem__ select narrow ops.aten.slice
        index_select gather take take_along_dim masked_select nn.functional.embedding embedding
        Tensor.copy_ fill ops.aten.zero""",
    scattering: """index_put index_copy index_add index_fill scatter scatter_add put masked_scatter
        select_scatter slice_scatter Tensor.fill_diagonal_ ops.aten._unsafe_masked_index
        ops.aten._unsafe_masked_index_put_accumulate""",
    diagonals: """diagonal linalg.diagonal diag_embed diag diagflat diagonal_scatter trace tril
        triu""",
    windows: "Tensor.unfold ops.aten.im2col",
    convolution: """nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
        nn.functional.conv_transpose1d nn.functional.conv_transpose2d
        nn.functional.conv_transpose3d""",
    statistics: "var std var_mean std_mean",
    linalg: """linalg.cross cross linalg.matrix_norm linalg.cond linalg.matrix_exp matrix_exp""",
    linalg_solving: """linalg.solve linalg.solve_ex ops.aten._linalg_solve_ex linalg.inv inverse
        linalg.inv_ex linalg.solve_triangular triangular_solve linalg.det det linalg.slogdet
        slogdet""",
    linalg_factors: """linalg.cholesky cholesky linalg.cholesky_ex cholesky_solve
        linalg.lu_factor_ex ops.aten.linalg_lu_factor_ex linalg.lu_factor linalg.lu lu_unpack
        linalg.lu_solve lu_solve linalg.qr qr geqrf linalg.householder_product orgqr ormqr""",
    linalg_spectra: """linalg.eigvalsh linalg.eigh ops.aten._linalg_eigh linalg.svdvals linalg.svd
        ops.aten._linalg_svd linalg.pinv pinverse linalg.lstsq linalg.matrix_rank""",
    packing: "_C._nn.pad_sequence _pack_padded_sequence _pad_packed_sequence",
    padding: "nn.functional.pad constant_pad_nd",
    ordering: "nonzero nonzero_static argwhere repeat_interleave",
    reduction: "sum mean count_nonzero all any",
    cumulative: "cumsum diff",
    arithmetic: """add sub subtract rsub mul multiply div divide true_divide Tensor.__rdiv__ addcmul
        addcdiv lerp""",
    elementwise: "neg negative square reciprocal isnan isinf",
    comparison: """eq ne not_equal logical_not logical_and logical_or logical_xor where Tensor.where
        masked_fill""",
    linear: """nn.functional.linear matmul bmm mm mv dot addmm baddbmm addbmm addmv addr outer
        nn.functional.bilinear bilinear""",
    einsum: "einsum functional.einsum ops.aten.einsum",
    composites: """hstack vstack row_stack dstack column_stack ops.aten.atleast_3d hsplit vsplit dsplit
        fliplr flipud broadcast_tensors Tensor.sum_to_size inner ops.aten.tensordot kron
        linalg.multi_dot chain_matmul vander linalg.vander linalg.tensorinv linalg.tensorsolve
        linalg.vecdot matrix_power linalg.matrix_power trapezoid trapz cumulative_trapezoid
        as_strided_copy""",
    creation: """full zeros_like empty_like ones_like full_like Tensor.new_zeros Tensor.new_empty
        Tensor.new_ones Tensor.new_full functional.meshgrid meshgrid ops.aten.meshgrid
        functional.cartesian_prod tensor scalar_tensor as_tensor asarray""",
}  # fmt: skip


@functools.cache
def _too(convert):
    @functools.wraps(convert, updated=())
    def also(op, *args, **kwargs):
        return convert(op, *args, **kwargs)

    also.__module__ = __name__
    also.composed = getattr(convert, "composed", False)
    return also


def _made(make):
    """Wrap the maker of a case's tensor so that floating-point numbers become complex ones."""

    def complex():
        made = make()
        return made.to(torch.complex64) if made.is_floating_point() else made

    return complex


def _case(one):
    args = tuple(_made(arg) if callable(arg) else arg for arg in one.args)
    return replace(one, args=args, dtypes=("complex64",), opsets=(20,))


CONVERTERS = [
    converter(one.target, complex=True, cases=[_case(c) for c in one.cases[:1]])(_too(one.function))
    for module, names in AS_FOR_REAL.items()
    for one in registrations(module)
    if one.target.removeprefix("torch.") in names.split()
]  # fmt: skip


# A case's random numbers are no valid factor, for which LAPACK's result is undefined.
CONVERTERS.append(
    converter("torch.cholesky_inverse", complex=True, cases=[])(
        _too(linalg_factors.cholesky_inverse)
    )
)
