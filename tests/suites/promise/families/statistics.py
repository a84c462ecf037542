"""Normalisation and statistics."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[n,4]")
def standardized(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-3)


@model(x="float[n,4]")
def standardized_biased(x):
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-3).sqrt()


@model(x="float[n,4]")
def standardized_if_several(x):
    if x.shape[0] > 1:
        return (x - x.mean(0)) / (x.std(0) + 1e-3)
    return x * 0


@model(x="float[n,4]")
def min_max(x):
    low, high = x.aminmax(dim=0)
    return (x - low) / (high - low).clamp(min=1e-6)


@model(x="float[n,4]")
def covariance(x):
    return torch.cov(x.t())


@model(x="float[n,4]")
def covariance_by_hand(x):
    c = x - x.mean(0)
    return c.t() @ c / max(x.shape[0] - 1, 1)


@model(x="float[n,4]")
def correlation(x):
    return torch.corrcoef(x.t()).nan_to_num(0)


@model(x="float[n,4]")
def medians(x):
    return x.median(0).values, x.median()


@model(x="float[n,4]")
def quartiles(x):
    return torch.quantile(x, torch.tensor([0.25, 0.5, 0.75]), dim=0)


@model(x="float[n,4]")
def lower_quantile(x):
    return torch.quantile(x, 0.3, dim=0, interpolation="lower")


@model(x="float[n,4]")
def trimmed_mean(x):
    k = len(x) // 5
    return x.sort(0).values[k : len(x) - k].mean(0)


@model(x="float[n,4]")
def winsorized(x):
    low, high = torch.quantile(x, 0.1), torch.quantile(x, 0.9)
    return x.clamp(low, high)


@model(x="float[n,4]")
def robust_scale(x):
    m = x.median(0).values
    return (x - m) / ((x - m).abs().median(0).values + 1e-2)


@model(x="float[n,4]")
def histogram_by_bins(x):
    edges = torch.linspace(-2, 2, 9)
    return torch.bincount(torch.bucketize(x.flatten(), edges), minlength=10)


@model(x="float[n,4]")
def histogram_of_range(x):
    return torch.histc(x, 5, -2, 2)


@model(x="signed[n]")
def most_frequent(x):
    return torch.mode(x).values


@model(x="float[n,4]")
def ranks(x):
    return x[:, 0].argsort(stable=True).argsort(stable=True)


@model(x="float[n,4]")
def moments(x):
    c = x - x.mean(0)
    v = c.square().mean(0) + 1e-3
    return (c**3).mean(0) / v**1.5, (c**4).mean(0) / v**2


@model(x="float[n,4]", w="positive[n]")
def weighted_mean(x, w):
    return (x * w[:, None]).sum(0) / w.sum()


@model(x="float[n,4]", m="bool[n]")
def masked_statistics(x, m):
    k = m.sum().clamp(min=1)
    mean = (x * m[:, None]).sum(0) / k
    return mean, (((x - mean) * m[:, None]) ** 2).sum(0) / k


@model(x="float[b,n,4]")
class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.batch = nn.LayerNorm(4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x) + self.batch(x.mT).mT


@model(x="float[b,4,n]")
class InstanceNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm1d(4, affine=True)

    def forward(self, x):
        return self.norm(x)


@model(x="float[b,4,n]")
class GroupNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        return self.norm(x)


@model(x="float[b,4]")
class BatchStatistics(nn.Module):
    """Statistics of the batch also in eval mode."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x):
        return self.norm(x)


@model(x="float[b,n,4]")
class RootMeanSquare(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


@model(x="float[b,n]")
def norm_over_dynamic_axis(x):
    return F.layer_norm(x, x.shape[1:])


@model(x="float[b,n]")
def unit_rows(x):
    return F.normalize(x, dim=1), F.normalize(x, p=1, dim=0)


@model(x="float[n,4]")
def cosine_matrix(x):
    u = F.normalize(x, dim=-1)
    return u @ u.t()


@model(x="float[n,3]", most=257)
def whitened(x):
    c = x - x.mean(0)
    cov = c.t() @ c / x.shape[0] + 0.1 * torch.eye(3)
    lower = torch.linalg.cholesky(cov)
    return torch.linalg.solve_triangular(lower, c.t(), upper=False).t()


@model(x="float[n,4]")
def zscore_outliers(x):
    z = (x - x.mean()) / (x.std() + 1e-3)
    return x[(z.abs() < 1.5).all(1)]


@model(x="float[n,4]")
def running_mean_of_rows(x):
    return x.cumsum(0) / torch.arange(1, len(x) + 1)[:, None]


@model(x="float[n,4]")
def log_sum_exp_pool(x):
    return x.logsumexp(0) - torch.tensor(float(len(x))).log()


@model(x="float[n,4]")
def generalized_mean(x):
    return x.clamp(min=1e-3).pow(3).mean(0).pow(1 / 3)


@model(x="float[n,4]")
def geometric_and_harmonic(x):
    y = x.abs() + 0.1
    return y.log().mean(0).exp(), len(x) / (1 / y).sum(0)


@model(x="float[n,4]")
def entropy(x):
    p = x.softmax(0)
    return -(p * p.clamp(min=1e-9).log()).sum(0)


@model(x="float[n,4]")
def gini(x):
    s = x.abs().sum(1).sort().values
    n = len(s)
    at = torch.arange(1, n + 1)
    return ((2 * at - n - 1) * s).sum() / (n * s.sum() + 1e-3)


@model(x="float[n,4]")
def standard_error(x):
    return x.std(0, correction=0) / x.shape[0] ** 0.5


@model(x="float[n,4]")
def nan_aware(x):
    y = torch.where(x > 1, float("nan"), x)
    return y.nansum(0), y.nanmean(0).nan_to_num(-1), torch.nanmedian(y).nan_to_num(-1)


@model(x="float[n,4]", y="float[n,4]")
def regression(x, y):
    c = x - x.mean(0)
    return (c * (y - y.mean(0))).sum(0) / ((c * c).sum(0) + 1e-2)
