"""Detectors, decoders, matching and points, as repositories and papers' code write them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="float[b=2,3,h%8=32,w%8=24]", most=96)
class YoloV8Detect(nn.Module):
    dynamic = False
    shape = None
    anchors = torch.empty(0)
    strides = torch.empty(0)

    def __init__(self, nc=2, reg_max=4):
        super().__init__()
        self.nc, self.reg_max, self.no = nc, reg_max, nc + reg_max * 4
        self.stride = torch.tensor([4.0, 8.0])
        self.b1 = nn.Conv2d(3, 8, 4, 4)
        self.b2 = nn.Conv2d(8, 8, 2, 2)
        self.cv2 = nn.ModuleList(nn.Conv2d(8, 4 * reg_max, 1) for _ in range(2))
        self.cv3 = nn.ModuleList(nn.Conv2d(8, nc, 1) for _ in range(2))
        self.dfl = nn.Conv2d(reg_max, 1, 1, bias=False).requires_grad_(False)
        self.dfl.weight.data[:] = torch.arange(reg_max, dtype=torch.float).view(1, reg_max, 1, 1)

    def make_anchors(self, feats, strides, offset=0.5):
        points, st = [], []
        dtype, device = feats[0].dtype, feats[0].device
        for i, stride in enumerate(strides):
            h, w = feats[i].shape[2:]
            sx = torch.arange(end=w, device=device, dtype=dtype) + offset
            sy = torch.arange(end=h, device=device, dtype=dtype) + offset
            sy, sx = torch.meshgrid(sy, sx, indexing="ij")
            points.append(torch.stack((sx, sy), -1).view(-1, 2))
            st.append(torch.full((h * w, 1), stride, dtype=dtype, device=device))
        return torch.cat(points), torch.cat(st)

    def forward(self, x):
        a = self.b1(x).relu()
        x = [a, self.b2(a).relu()]
        for i in range(2):
            x[i] = torch.cat((self.cv2[i](x[i]), self.cv3[i](x[i])), 1)
        shape = x[0].shape
        x_cat = torch.cat([xi.view(shape[0], self.no, -1) for xi in x], 2)
        if self.dynamic or self.shape != shape:
            self.anchors, self.strides = (
                t.transpose(0, 1) for t in self.make_anchors(x, self.stride)
            )
            self.shape = shape
        box, cls = x_cat.split((self.reg_max * 4, self.nc), 1)
        b, _, n = box.shape
        dist = self.dfl(box.view(b, 4, self.reg_max, n).transpose(2, 1).softmax(1)).view(b, 4, n)
        lt, rb = dist.chunk(2, 1)
        x1y1 = self.anchors.unsqueeze(0) - lt
        x2y2 = self.anchors.unsqueeze(0) + rb
        dbox = torch.cat(((x1y1 + x2y2) / 2, x2y2 - x1y1), 1) * self.strides
        return torch.cat((dbox, cls.sigmoid()), 1)


@model(x="float[b=2,8,h=12,w=10]", most=40, ties=False)
class CenterNetDecode(nn.Module):
    def __init__(self, k=5):
        super().__init__()
        self.hm = nn.Conv2d(8, 3, 1)
        self.wh = nn.Conv2d(8, 2, 1)
        self.off = nn.Conv2d(8, 2, 1)
        self.K = k

    def _gather_feat(self, feat, ind):
        dim = feat.size(2)
        ind = ind.unsqueeze(2).expand(ind.size(0), ind.size(1), dim)
        return feat.gather(1, ind)

    def _transpose(self, feat, ind):
        feat = feat.permute(0, 2, 3, 1).contiguous()
        feat = feat.view(feat.size(0), -1, feat.size(3))
        return self._gather_feat(feat, ind)

    def forward(self, x):
        heat = self.hm(x).sigmoid()
        wh = self.wh(x)
        reg = self.off(x)
        hmax = F.max_pool2d(heat, (3, 3), stride=1, padding=1)
        heat = heat * (hmax == heat).float()
        batch, cat, height, width = heat.size()
        K = min(self.K, height * width)
        s, inds = torch.topk(heat.view(batch, cat, -1), K)
        inds = inds % (height * width)
        ys = (inds / width).int().float()
        xs = (inds % width).int().float()
        score, ind = torch.topk(s.view(batch, -1), K)
        clses = (ind / K).int()
        inds = self._gather_feat(inds.view(batch, -1, 1), ind).view(batch, K)
        ys = self._gather_feat(ys.view(batch, -1, 1), ind).view(batch, K)
        xs = self._gather_feat(xs.view(batch, -1, 1), ind).view(batch, K)
        reg = self._transpose(reg, inds).view(batch, K, 2)
        xs = xs.view(batch, K, 1) + reg[:, :, 0:1]
        ys = ys.view(batch, K, 1) + reg[:, :, 1:2]
        wh = self._transpose(wh, inds).view(batch, K, 2)
        bboxes = torch.cat(
            [
                xs - wh[..., 0:1] / 2,
                ys - wh[..., 1:2] / 2,
                xs + wh[..., 0:1] / 2,
                ys + wh[..., 1:2] / 2,
            ],
            2,
        )
        return bboxes, score, clses


@model(x="float[b=2,17,h=8,w=6]", most=30, ties=False)
def keypoints_from_heatmaps(x):
    """HRNet's get_max_preds with a quarter-pixel shift, in torch."""
    b, k, h, w = x.shape
    flat = x.reshape(b, k, -1)
    maxvals, idx = flat.max(2, keepdim=True)
    preds = idx.repeat(1, 1, 2).float()
    preds[:, :, 0] = preds[:, :, 0] % w
    preds[:, :, 1] = torch.floor(preds[:, :, 1] / w)
    mask = (maxvals > 0.0).repeat(1, 1, 2).float()
    preds *= mask
    px = preds[..., 0].long()
    py = preds[..., 1].long()
    pad = F.pad(x, (1, 1, 1, 1), mode="replicate")
    bi = torch.arange(b)[:, None]
    ki = torch.arange(k)[None]
    dx = pad[bi, ki, py + 1, px + 2] - pad[bi, ki, py + 1, px]
    dy = pad[bi, ki, py + 2, px + 1] - pad[bi, ki, py, px + 1]
    return preds + torch.stack([dx, dy], -1).sign() * 0.25, maxvals


@model(x="float[b=2,3,h=20,w=17]", most=40)
class UNetPadded(nn.Module):
    """milesial's UNet: Up pads by the difference."""

    def __init__(self):
        super().__init__()

        def dc(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)
            )

        self.inc = dc(3, 8)
        self.d1 = nn.Sequential(nn.MaxPool2d(2), dc(8, 16))
        self.d2 = nn.Sequential(nn.MaxPool2d(2), dc(16, 16))
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.u1 = dc(32, 8)
        self.u2 = dc(16, 8)
        self.outc = nn.Conv2d(8, 2, 1)

    def join(self, x1, x2):
        x1 = self.up(x1)
        dy = x2.size()[2] - x1.size()[2]
        dx = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return torch.cat([x2, x1], 1)

    def forward(self, x):
        a = self.inc(x)
        b = self.d1(a)
        c = self.d2(b)
        return self.outc(self.u2(self.join(self.u1(self.join(c, b)), a)))


@model(masks="float[n=5,h=8,w=7]", scores="uniform[n]", most=24, ties=False)
def panoptic_merge(masks, scores):
    """Places masks in order of score, each only where none lies, with an area test."""
    order = scores.argsort(descending=True)
    canvas = torch.zeros(masks.shape[1:], dtype=torch.long)
    current = 0
    for i in order:
        m = masks[i] > 0
        free = m & (canvas == 0)
        area, left = m.sum(), free.sum()
        if area == 0 or left / area < 0.5:
            continue
        current += 1
        canvas[free] = current
    return canvas


@model(logits="float[b=2,8,4]", boxes="uniform[b,8,4]", sizes="int[b,2]<64", ties=False, most=40)
@torch.no_grad()
def detr_postprocess(logits, boxes, sizes):
    prob = F.softmax(logits, -1)
    scores, labels = prob[..., :-1].max(-1)
    cx, cy, w, h = boxes.unbind(-1)
    b = torch.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], dim=-1)
    img_h, img_w = sizes.unbind(1)
    scale = torch.stack([img_w, img_h, img_w, img_h], dim=1)
    b = b * scale[:, None, :]
    return [{"scores": s, "labels": k, "boxes": x} for s, k, x in zip(scores, labels, b)]


@model(a="float[b=2,4,h=8,w=9]", c="float[b,4,h,w]", most=20)
class PWCLevel(nn.Module):
    """Cost volume by shifts, flow, warping with a mask of ones."""

    def __init__(self):
        super().__init__()
        self.flow = nn.Conv2d(25, 2, 3, padding=1)

    def corr(self, a, b, md=2):
        out = []
        h, w = a.shape[2:]
        b = F.pad(b, [md] * 4)
        for i in range(2 * md + 1):
            for j in range(2 * md + 1):
                out.append((a * b[:, :, i : i + h, j : j + w]).mean(1, keepdim=True))
        return torch.cat(out, 1)

    def warp(self, x, flo):
        B, C, H, W = x.size()
        xx = torch.arange(0, W).view(1, -1).repeat(H, 1)
        yy = torch.arange(0, H).view(-1, 1).repeat(1, W)
        xx = xx.view(1, 1, H, W).repeat(B, 1, 1, 1)
        yy = yy.view(1, 1, H, W).repeat(B, 1, 1, 1)
        vgrid = torch.cat((xx, yy), 1).float() + flo
        vgrid[:, 0, :, :] = 2.0 * vgrid[:, 0, :, :].clone() / max(W - 1, 1) - 1.0
        vgrid[:, 1, :, :] = 2.0 * vgrid[:, 1, :, :].clone() / max(H - 1, 1) - 1.0
        vgrid = vgrid.permute(0, 2, 3, 1)
        output = F.grid_sample(x, vgrid, align_corners=True)
        mask = F.grid_sample(torch.ones(x.size()), vgrid, align_corners=True)
        mask[mask < 0.999] = 0
        mask[mask > 0] = 1
        return output * mask

    def forward(self, a, c):
        flow = torch.tanh(self.flow(self.corr(a, c)))
        return flow, self.warp(c, flow * 0.4)


@model(a="float[b=2,8,h%4=8,w%4=12]", c="float[b,8,h,w]", most=16)
class RAFTLookup(nn.Module):
    """All-pairs correlation pyramid, lookups, GRU updates, convex upsampling."""

    def __init__(self):
        super().__init__()
        self.gru = nn.Conv2d(8 + 18 + 2, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 3, padding=1)
        self.mask = nn.Conv2d(8, 4 * 9, 1)

    def forward(self, a, c, iters=3):
        b, d, h, w = a.shape
        corr = torch.matmul(a.view(b, d, h * w).transpose(1, 2), c.view(b, d, h * w)).view(
            b, h, w, 1, h, w
        ) / torch.sqrt(torch.tensor(d).float())
        pyr = [corr.reshape(b * h * w, 1, h, w)]
        pyr.append(F.avg_pool2d(pyr[0], 2, stride=2))
        coords0 = (
            torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")[::-1], 0)
            .float()[None]
            .repeat(b, 1, 1, 1)
        )
        coords1 = coords0.clone()
        net = torch.tanh(a)
        for _ in range(iters):
            coords1 = coords1.detach()
            outs = []
            cc = coords1.permute(0, 2, 3, 1)
            for i, p in enumerate(pyr):
                dx = torch.linspace(-1, 1, 3)
                delta = torch.stack(torch.meshgrid(dx, dx, indexing="ij"), -1)
                lvl = cc.reshape(b * h * w, 1, 1, 2) / 2**i + delta.view(1, 3, 3, 2)
                H, W = p.shape[-2:]
                xg, yg = lvl.split([1, 1], dim=-1)
                grid = torch.cat([2 * xg / (W - 1) - 1, 2 * yg / (H - 1) - 1], -1)
                outs.append(F.grid_sample(p, grid, align_corners=True).view(b, h, w, -1))
            feat = torch.cat(outs, -1).permute(0, 3, 1, 2).contiguous().float()
            net = torch.tanh(self.gru(torch.cat([net, feat, coords1 - coords0], 1)))
            coords1 = coords1 + self.head(net)
        flow = coords1 - coords0
        mask = self.mask(net).view(b, 1, 9, 2, 2, h, w).softmax(2)
        up = F.unfold(2 * flow, [3, 3], padding=1).view(b, 2, 9, 1, 1, h, w)
        return torch.sum(mask * up, dim=2).permute(0, 1, 4, 2, 5, 3).reshape(b, 2, 2 * h, 2 * w)


@model(left="float[b=2,4,h=6,w=10]", right="float[b,4,h,w]", most=16)
class StereoGwc(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(2, 1, 3, padding=1)

    def forward(self, left, right, maxdisp=4, groups=2):
        B, C, H, W = left.shape
        volume = left.new_zeros([B, groups, maxdisp, H, W])
        for i in range(maxdisp):
            if i > 0:
                volume[:, :, i, :, i:] = (
                    (left[:, :, :, i:] * right[:, :, :, :-i])
                    .view(B, groups, C // groups, H, W - i)
                    .mean(2)
                )
            else:
                volume[:, :, i] = (left * right).view(B, groups, C // groups, H, W).mean(2)
        volume = volume.contiguous()
        p = F.softmax(self.conv(volume).squeeze(1), 1)
        disp = torch.arange(0, maxdisp, dtype=p.dtype).view(1, maxdisp, 1, 1)
        return torch.sum(p * disp, 1)


@model(xyz="float[b=2,n=9,3]", most=24, ties=False)
class PointNet2SA(nn.Module):
    """FPS, ball query with sort trick, grouping, mini PointNet."""

    def __init__(self, npoint=3, radius=1.5, nsample=4):
        super().__init__()
        self.npoint, self.radius, self.nsample = npoint, radius, nsample
        self.mlp = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU())

    def index_points(self, points, idx):
        B = points.shape[0]
        view_shape = list(idx.shape)
        view_shape[1:] = [1] * (len(view_shape) - 1)
        repeat_shape = list(idx.shape)
        repeat_shape[0] = 1
        bi = torch.arange(B, dtype=torch.long).view(view_shape).repeat(repeat_shape)
        return points[bi, idx, :]

    def fps(self, xyz, npoint):
        B, N, C = xyz.shape
        centroids = torch.zeros(B, npoint, dtype=torch.long)
        distance = torch.ones(B, N) * 1e10
        farthest = torch.zeros((B,), dtype=torch.long)
        bi = torch.arange(B, dtype=torch.long)
        for i in range(npoint):
            centroids[:, i] = farthest
            c = xyz[bi, farthest, :].view(B, 1, 3)
            dist = torch.sum((xyz - c) ** 2, -1)
            mask = dist < distance
            distance[mask] = dist[mask]
            farthest = torch.max(distance, -1)[1]
        return centroids

    def ball(self, xyz, new):
        B, N, C = xyz.shape
        _, S, _ = new.shape
        gi = torch.arange(N, dtype=torch.long).view(1, 1, N).repeat([B, S, 1])
        sq = (
            -2 * torch.matmul(new, xyz.permute(0, 2, 1))
            + torch.sum(new**2, -1).view(B, S, 1)
            + torch.sum(xyz**2, -1).view(B, 1, N)
        )
        gi[sq > self.radius**2] = N
        gi = gi.sort(dim=-1)[0][:, :, : self.nsample]
        first = gi[:, :, 0].view(B, S, 1).repeat([1, 1, gi.shape[-1]])
        mask = gi == N
        gi[mask] = first[mask]
        return gi

    def forward(self, xyz):
        B, N, C = xyz.shape
        new = self.index_points(xyz, self.fps(xyz, self.npoint))
        idx = self.ball(xyz, new)
        g = self.index_points(xyz, idx) - new.view(B, self.npoint, 1, C)
        return new, self.mlp(g.permute(0, 3, 2, 1)).max(2)[0]


@model(p="float[n=12,4]", most=40)
class PillarScatter(nn.Module):
    """Voxel coordinates by floor, unique pillars, max per pillar, canvas."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 6)

    def forward(self, p):
        xy = ((p[:, :2].tanh() + 1) / 2 * 3.999).floor().long()
        key = xy[:, 1] * 4 + xy[:, 0]
        uniq, inv, cnt = torch.unique(key, return_inverse=True, return_counts=True)
        feat = self.lin(p)
        mx = torch.full((uniq.numel(), 6), float("-inf")).scatter_reduce_(
            0, inv[:, None].expand(-1, 6), feat, "amax"
        )
        mean = torch.zeros(uniq.numel(), 4).index_add_(0, inv, p) / cnt[:, None]
        canvas = torch.zeros(6, 16)
        canvas[:, uniq] = mx.t()
        return canvas.view(6, 4, 4), mean


@model(x="float[b=2,3,h=12,w=10]", most=24)
def spp(x):
    b, c, h, w = x.shape
    outs = []
    for k in (1, 2, 3):
        kh, kw = math.ceil(h / k), math.ceil(w / k)
        ph, pw = (kh * k - h + 1) // 2, (kw * k - w + 1) // 2
        y = F.max_pool2d(x, (kh, kw), stride=(kh, kw), padding=(ph, pw))
        outs.append(y.view(b, -1))
    return torch.cat(outs, 1)


@model(x="float[b=2,3,h=12,w=10]", most=24)
def pooled_halves(x):
    h, w = x.shape[-2:]
    return (
        F.avg_pool2d(x, (h // 2, w // 2), stride=(h // 2, w // 2)).flatten(1)
        if min(h, w) > 1
        else x.mean((2, 3)).repeat(1, 4)
    )
