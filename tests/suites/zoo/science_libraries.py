"""Models of libraries for graphs, tables, physics and statistics."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import nn

from . import BATCH

Built = tuple[nn.Module, tuple, dict[str, dict[int, str]]]
MODELS: dict[str, Callable[[], Built]] = {}


def model(build: Callable[[], Built]) -> Callable[[], Built]:
    MODELS[build.__name__] = build
    return build


@model
def pytorch_tabnet() -> Built:
    from pytorch_tabnet.tab_network import TabNet

    return TabNet(8, 3, group_attention_matrix=torch.eye(8)), (torch.randn(4, 8),), {"x": BATCH}


@model
def neuraloperator_fno() -> Built:
    from neuralop.models import FNO

    return (
        FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2),
        (torch.randn(2, 1, 16, 16),),
        {"x": BATCH},
    )


@model
def neuraloperator_tfno() -> Built:
    from neuralop.models import TFNO

    return (
        TFNO(
            n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2, rank=0.5
        ),
        (torch.randn(2, 1, 16, 16),),
        {"x": BATCH},
    )


@model
def e3nn_linear() -> Built:
    from e3nn import o3

    return (
        o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+1x1o"),
        (torch.randn(3, 5), torch.randn(3, 4)),
        {"x": BATCH, "y": BATCH},
    )


@model
def e3nn_sh() -> Built:
    from e3nn import o3

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = o3.Linear("1x0e+1x1o+1x2e", "2x0e+1x1o")

        def forward(self, x):
            return self.l(o3.spherical_harmonics([0, 1, 2], x, True))

    return Wrapped(), (torch.randn(4, 3),), {"x": BATCH}


@model
def torchdiffeq_rk4() -> Built:
    from torchdiffeq import odeint

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(3, 3)

        def forward(self, x):
            return odeint(
                lambda t, y: torch.tanh(self.f(y)), x, torch.linspace(0, 1, 5), method="rk4"
            )

    return Wrapped(), (torch.randn(2, 3),), {"x": BATCH}


@model
def torchdiffeq_adaptive() -> Built:
    from torchdiffeq import odeint

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(3, 3)

        def forward(self, x):
            return odeint(lambda t, y: torch.tanh(self.f(y)), x, torch.linspace(0, 1, 3))

    return Wrapped(), (torch.randn(2, 3),), {"x": BATCH}


@model
def gpytorch_exact() -> Built:
    import gpytorch

    class G(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(
                torch.linspace(0, 1, 6), torch.randn(6), gpytorch.likelihoods.GaussianLikelihood()
            )
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.g = G()

        def forward(self, x):
            p = self.g(x)
            return p.mean, p.variance

    return Wrapped().eval(), (torch.linspace(0, 2, 4),), {"x": {0: "n"}}


@model
def deepctr_deepfm() -> Built:
    from deepctr_torch.inputs import DenseFeat, SparseFeat
    from deepctr_torch.models import DeepFM

    c = [SparseFeat("a", 5, 4), SparseFeat("b", 6, 4), DenseFeat("d", 3)]
    return (
        DeepFM(c, c, device="cpu"),
        (torch.cat([torch.randint(0, 5, (3, 2)).float(), torch.randn(3, 3)], 1),),
        {"X": BATCH},
    )


@model
def deepctr_dcn() -> Built:
    from deepctr_torch.inputs import DenseFeat, SparseFeat
    from deepctr_torch.models import DCN

    c = [SparseFeat("a", 5, 4), SparseFeat("b", 6, 4), DenseFeat("d", 3)]
    return (
        DCN(c, c, device="cpu"),
        (torch.cat([torch.randint(0, 5, (3, 2)).float(), torch.randn(3, 3)], 1),),
        {"X": BATCH},
    )


@model
def torchrl_agents() -> Built:
    from torchrl.modules import MultiAgentMLP

    net = MultiAgentMLP(6, 3, 4, centralised=True, share_params=False, depth=2, num_cells=8)
    return net, (torch.randn(2, 4, 6),), {"inputs_0": BATCH}


def nodes_and_edges(nodes: int = 10, edges: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges))


GRAPH = {"x": {0: "nodes"}, "edge_index": {1: "edges"}}
# Layers of torch_geometric, and their arguments.
LAYERS: dict[str, tuple] = {
    "GCNConv": (8, 4), "SAGEConv": (8, 4), "GATConv": (8, 4), "GATv2Conv": (8, 4),
    "ChebConv": (8, 4, 3), "SGConv": (8, 4), "TAGConv": (8, 4), "GraphConv": (8, 4),
    "TransformerConv": (8, 4), "LEConv": (8, 4), "ARMAConv": (8, 4), "FeaStConv": (8, 4),
    "SuperGATConv": (8, 4), "GENConv": (8, 4), "ClusterGCNConv": (8, 4),
    "ResGatedGraphConv": (8, 4), "MFConv": (8, 4), "APPNP": (3, 0.1), "EGConv": (8, 8),
    "GIN": (8, 16, 2, 4),
}  # fmt: skip


def layer_of_geometric(name: str, arguments: tuple) -> Built:
    import torch_geometric.nn

    return getattr(torch_geometric.nn, name)(*arguments), nodes_and_edges(), GRAPH


for name, arguments in LAYERS.items():
    MODELS[f"torch_geometric_{name}"] = functools.partial(layer_of_geometric, name, arguments)
