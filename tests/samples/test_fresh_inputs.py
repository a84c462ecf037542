"""New inputs for a proof keep what the recorded ones had."""

import pytest
import torch

import hx
from hx.samples.number_properties import is_rising
from hx.samples.variations import ending, fresh, jitter, making_up, resized


def test_fresh_is_seeded_and_leaves_the_world_alone():
    x = torch.randn(4, 5)
    state = torch.get_rng_state()
    a, b, c = fresh([x], seed=1), fresh([x], seed=1), fresh([x], seed=2)
    assert torch.equal(a[0], b[0]) and not torch.equal(a[0], c[0]) and not torch.equal(a[0], x)
    assert torch.equal(torch.get_rng_state(), state)
    same = fresh([x, x, x.clone(), 3, None])
    assert same[0] is same[1] and not torch.equal(same[0], same[2]) and same[3:] == [3, None]
    assert set(fresh({"a": x, "b": 1})) == {"a", "b"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_fresh_floats_are_distributed_as_the_old(dtype):
    old = (torch.randn(50, 60) * 3 + 5).to(dtype)
    (new,) = fresh([old])
    assert new.dtype == dtype and new.shape == old.shape
    assert abs(new.double().mean() - 5) < 0.3 and abs(new.double().std() - 3) < 0.3
    assert new.min() >= old.min() and new.max() <= old.max()
    assert (fresh([torch.rand(9, 9).to(dtype)])[0] >= 0).all()
    assert (fresh([-torch.rand(9, 9).to(dtype)])[0] <= 0).all()


@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_many_floats_are_drawn_as_few_are(scale):
    old = torch.rand(1025, 1025) * scale
    (new,) = fresh([old])
    assert new.dtype == old.dtype and new.shape == old.shape and not torch.equal(new, old)
    assert new.min() >= old.min() and new.max() <= old.max()
    assert abs(new.mean() - old.mean()) < 0.01 * scale and abs(new.std() - old.std()) < 0.05 * scale
    (rising,) = fresh([old.sort(-1).values])
    assert (rising.diff(dim=-1) >= 0).all()
    holes = old.where(old > old.mean(), -torch.inf)
    (new,) = fresh([holes])
    assert torch.equal(new.isinf(), holes.isinf())


def test_rows_rise_if_all_of_them_do():
    rows = torch.arange(12.0).reshape(3, 4)
    assert is_rising(rows) and is_rising(rows, 0) and not is_rising(-rows)
    for place in ((0, 0), (1, 2), (2, 1)):
        other = rows.clone()
        other[place] = 30
        assert not is_rising(other)
    assert not is_rising(rows.flip(0), 0)


def test_fresh_tensors_of_one_value():
    zeros, ones, image = torch.zeros(2, 6), torch.ones(2, 6), torch.ones(1, 3, 8, 8)
    new = fresh([zeros, ones, image, torch.full((2, 3, 4), -7.0), torch.tensor(0.5)])
    assert new[0].std() > 0.5, "zeros for want of anything better say nothing of the range"
    assert set(new[1].unique().tolist()) <= {0.0, 1.0} and (new[1][:, 0] == 1).all(), "a mask"
    assert (new[2] > 0).all() and (new[2] <= 1).all() and new[2].std() > 0
    assert (new[3] < 0).all() and (new[3] >= -7).all() and 0 < new[4] <= 0.5
    assert torch.equal(fresh({"attention_mask": zeros})["attention_mask"], zeros)


def test_fresh_inputs_lie_in_memory_as_the_recorded_ones_do():
    """Of a transposed input `contiguous` is a copy: what is written to that is not in the input."""

    def f(x):
        y = x.contiguous()
        y[0] = 1
        return x, y

    assert hx.export(f, torch.randn(4, 2).mT).proof.ok
    last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert fresh([last])[0].stride() == last.stride()
    assert resized(last, {2: 7}).is_contiguous(memory_format=torch.channels_last)


def test_fresh_masks_stay_masks():
    bools = torch.ones(9, 12, dtype=torch.bool)
    for old in (bools, ~bools, bools.tril(), torch.rand(9, 12) > 0.5, bools[:, :2]):
        (new,) = fresh([old])
        assert new.dtype == torch.bool and new.any(-1).all()
        if old is not bools.tril():
            assert not torch.equal(new, old)
    assert (fresh([bools])[0][:, 0]).all(), "seen under a causal mask too"
    padded = (torch.arange(12) < torch.tensor([[12], [5], [7]])).long()
    (new,) = fresh([padded])
    assert set(new.unique().tolist()) == {0, 1} and (new.diff(dim=-1) <= 0).all()
    (left,) = fresh([padded.flip(-1)])
    assert (left.diff(dim=-1) >= 0).all() and (left[:, -1] == 1).all()
    hides = (torch.arange(12) >= torch.tensor([[12], [5], [7]])).repeat(5, 1)
    (new,) = fresh([hides])
    assert (new.diff(dim=-1) >= 0).all() and not new[:, 0].any(), "something is left to see"
    hidden = fresh({"attention_mask": torch.ones(4, 12, dtype=torch.int64)})["attention_mask"]
    assert set(hidden.unique().tolist()) == {0, 1} and (hidden[:, 0] == 1).all()
    added = torch.zeros(6, 6).masked_fill(~bools[:6, :6].tril(), float("-inf"))
    (new,) = fresh([added])
    assert set(new.unique().tolist()) == {0.0, float("-inf")} and (new == 0).any(-1).all()


def test_fresh_integers_stay_in_range():
    tokens = torch.randint(5, 900, (3, 40))
    (new,) = fresh([tokens])
    assert new.min() >= tokens.min() and new.max() <= tokens.max()
    assert not torch.equal(new, tokens)
    for same in (torch.zeros(3, 4, dtype=torch.int64), torch.tensor(5), torch.tensor([7, 7, 7]),
                 torch.arange(12)[None], torch.arange(3, 9)):  # fmt: skip
        assert torch.equal(fresh([same])[0], same)
    ordered = torch.tensor([0, 3, 3, 8, 20])
    (new,) = fresh([ordered])
    assert (new.diff() >= 0).all() and new.max() <= 20
    shuffled = torch.randperm(30)
    (new,) = fresh([shuffled])
    assert torch.equal(new.sort().values, torch.arange(30)) and not torch.equal(new, shuffled)
    (wide,) = fresh([torch.zeros(3, 40, dtype=torch.int64)], bounds={0: (0, 99)})
    assert 50 < wide.max() <= 99
    assert fresh([torch.tensor([1, 200, 30], dtype=torch.uint8)])[0].dtype == torch.uint8


def test_fresh_cells_stay_different_near_and_in_the_range_of_each_column():
    space = torch.tensor([2, 40, 30, 20])
    cells = (torch.rand(500, 4) * space).int().unique(dim=0)
    shuffled = cells[torch.randperm(len(cells))]
    low, high = cells.min(0).values, cells.max(0).values
    for old, count in (
        (shuffled, None),
        (shuffled, 900),
        (shuffled, 30),
        (cells, None),
        (cells, 7),
    ):
        (new,) = fresh([old]) if count is None else [resized(old, {0: count})]
        assert new.shape == (count or len(old), 4) and new.dtype == old.dtype
        assert len(new.unique(dim=0)) == len(new) and not torch.equal(new, old)
        assert (new >= low).all() and (new <= high).all()
        beside = (new[:, None] - old[None]).abs().amax(-1).amin(-1) <= 1
        assert beside.float().mean() > 0.8, "points that had neighbours have some"
        in_order = torch.equal(new, new.unique(dim=0))
        assert in_order == torch.equal(old, old.unique(dim=0))
    full = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    assert len(fresh([full])[0].unique(dim=0)) == 12
    assert list(resized(full, {0: 20}).shape) == [20, 2]  # there is no room: some come twice


def test_fresh_boxes_stay_boxes():
    corner = torch.rand(20, 2) * 50
    boxes = torch.cat([torch.zeros(20, 1), corner, corner + torch.rand(20, 2) * 30], 1)
    (new,) = fresh([boxes])
    assert (new[:, 0] == 0).all() and (new[:, 3:] >= new[:, 1:3]).all()
    assert not torch.equal(new[:, 1:], boxes[:, 1:])


@pytest.mark.parametrize("size", [5, 11, 40])
def test_boxes_of_whole_numbers_stay_boxes_at_any_size(size):
    corner = torch.randint(0, 9, (5, 2))
    boxes = torch.cat([corner, corner + torch.randint(1, 4, (5, 2))], 1)
    new = resized(boxes, {0: size})
    assert new.shape == (size, 4) and (new[:, 2:] > new[:, :2]).all()
    assert new.min() >= boxes.min() and new.max() <= boxes.max()


@pytest.mark.parametrize("shape", [(16, 2), (16, 3), (16, 6), (16, 12), (2, 6), (5, 4, 2), (7,)])
@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_are_sorted_stay_so(shape, whole):
    """Bins, quantiles, depths along a ray: what is searched in, and undefined where it is not."""
    old = (torch.rand(shape) * 1000).sort(-1).values
    old = old.long() if whole else old
    last = len(shape) - 1
    for seed in range(3):
        (new,) = fresh([old], seed=seed)
        assert not torch.equal(new, old)
        for each in (new, *(resized(old, {axis: 18}, seed) for axis in (0, last))):
            assert each.dtype == old.dtype and bool((each.diff(dim=-1) >= 0).all())


def test_columns_of_sorted_rows_keep_their_ranges():
    old = torch.tensor([1.0, 3.0, 10.0, 99.0]) + torch.rand(16, 4).sort(-1).values
    (new,) = fresh([old])
    assert (new.amax(0) <= old.amax(0)).all() and (new.amin(0) >= old.amin(0)).all()


def test_rows_that_are_not_sorted_do_not_become_so():
    assert bool((fresh([torch.rand(16, 3)])[0].diff(dim=-1) < 0).any())
    assert bool((resized(torch.rand(16, 3), {1: 6}).diff(dim=-1) < 0).any())


def test_fresh_odd_tensors():
    for old in (torch.empty(0, 3), torch.randn(3, dtype=torch.complex64), torch.eye(3).to_sparse(),
                torch.randn(2, 3).to(torch.float8_e4m3fn), torch.randn(3, 4).t(),
                torch.tensor([1.0, float("nan"), 3.0, 5.0])):  # fmt: skip
        (new,) = fresh([old])
        assert new.shape == old.shape and new.dtype == old.dtype


def test_where_parts_begin_stays_so_in_fresh_inputs():
    """Offsets of sequences one behind the other: they begin at 0, and end where the last one does."""
    starts = torch.tensor([0, 3, 7, 10], dtype=torch.int32)
    for seed in range(20):
        new = fresh([starts], seed=seed)[0]
        assert new[0] == 0 and new[-1] == 10 and bool((new.diff() >= 0).all())
    assert any(not torch.equal(fresh([starts], seed=n)[0], starts) for n in range(3))


def test_rows_in_which_parts_begin_keep_to_their_own_ends():
    starts = torch.tensor([[0, 1, 5, 6], [0, 2, 2, 2], [0, 4, 40, 90]])
    for seed in range(20):
        for new in (fresh([starts], seed=seed)[0], resized(starts, {1: 9}, seed=seed)):
            assert bool((new.diff(dim=-1) >= 0).all()) and bool((new[:, 0] == 0).all())
            assert torch.equal(new[:, -1], starts[:, -1])


@pytest.mark.parametrize("count", [2, 3, 5, 9])
@pytest.mark.parametrize("size", [1, 4, 13, 29])
def test_parts_of_a_whole_end_where_it_does(size, count):
    starts = torch.tensor([0, 3, 3, 7, 13], dtype=torch.int32)
    new = ending(resized(starts, {0: count}), starts, {13: size})
    assert new.dtype == torch.int32 and new[0] == 0 and new[-1] == size
    assert len(new) == count and bool((new.diff() >= 0).all())
    assert new is not starts


@pytest.mark.parametrize("size, count", [(13, 5), (14, 7), (40, 11), (3, 3), (9, 1)])
def test_lengths_of_parts_make_up_the_whole(size, count):
    old = torch.tensor([3, 1, 4, 2, 3])
    new = making_up(resized(old, {0: count}), old, {13: size})
    assert new.sum() == size and new.min() >= 1 and len(new) == count
    if count * 4 >= size:
        assert new.max() <= 4


def test_fresh_lengths_of_parts_make_up_the_whole_and_are_others():
    old = {"x": torch.randn(13, 4), "lengths": torch.tensor([3, 1, 4, 2, 3], dtype=torch.int32)}
    several = [fresh(old, seed=seed)["lengths"] for seed in range(8)]
    assert all(each.sum() == 13 and each.dtype == torch.int32 for each in several)
    assert len({tuple(each.tolist()) for each in several}) > 2


@pytest.mark.parametrize("starts", [[0, 2], [0, 1], [0, 3], [0, 0, 3]], ids=str)
def test_where_few_bags_begin_stays_so_at_any_size(starts):
    starts = torch.tensor(starts)
    for count in (1, 2, 6, 13):
        sizes = {len(starts): count}
        new = making_up(resized(starts, {0: count}), starts, sizes)
        assert len(new) == count and new[0] == 0 and bool((new.diff() >= 0).all())


def test_numbers_that_make_up_nothing_stay():
    ones, mask = torch.ones(4, dtype=torch.int64), torch.tensor([1, 0, 1, 1])
    for old in (ones, mask, torch.tensor([-1, 5]), torch.tensor([[2, 2]]), torch.tensor([4])):
        assert making_up(old, old, {4: 9, 3: 9}) is old
    short = torch.tensor([2, 2])
    assert making_up(short, short, {4: 1}) is short  # two parts of one are none


def test_other_numbers_do_not_end_with_a_size():
    for old in ([0, 3, 7], [11, 12, 13], [0, 13, 4], [13], [0.0, 13.0], []):
        old = torch.tensor(old)
        assert ending(old, old, {13: 4}) is old
    assert (
        ending(torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64), {0: 2}).max()
        == 0
    )


def test_resized():
    x = torch.randn(2, 3, 8)
    for sizes in ({0: 1}, {0: 5}, {0: 3, 2: 13}, {1: 0}, {}):
        want = [sizes.get(i, n) for i, n in enumerate(x.shape)]
        new = resized(x, sizes)
        assert list(new.shape) == want and new.dtype == x.dtype
        assert new.numel() == 0 or new.abs().max() <= x.abs().max()
    assert list(resized(torch.empty(0, 3), {0: 2}).shape) == [2, 3]
    positions = torch.arange(6)[None].expand(2, -1)
    assert torch.equal(resized(positions, {1: 9, 0: 1}), torch.arange(9)[None])
    assert torch.equal(resized(positions, {1: 4}), torch.arange(4)[None].expand(2, -1))
    tokens = torch.randint(0, 50, (1, 7))
    assert list(resized(tokens, {0: 3, 1: 1}).shape) == [3, 1]
    mask = torch.ones(2, 5, dtype=torch.int64)
    assert (resized(mask, {1: 9}) == 1).all() and (
        resized(mask, {1: 9}, mask=True)[:, 0] == 1
    ).all()


def test_two_whole_numbers_are_no_positions_unless_one_follows_the_other():
    tokens = torch.tensor([[49], [6]])
    assert set(resized(tokens, {0: 40}).flatten().tolist()) <= set(range(6, 50))
    assert not torch.equal(fresh([tokens.mT])[0], tokens.mT)
    assert torch.equal(resized(torch.tensor([7, 8]), {0: 4}), torch.arange(7, 11))
    assert torch.equal(fresh([torch.tensor([7, 8])])[0], torch.tensor([7, 8]))


@pytest.mark.parametrize("ids", [[[49], [6]], [[62], [63]], [[61], [62], [63]]], ids=str)
def test_tokens_that_look_like_positions_are_tried_in_a_larger_batch(ids):
    program = hx.export(torch.nn.Embedding(64, 4), torch.tensor(ids), dynamic={"input": {0: "b"}})
    assert not program.report.notes
    sizes = [len(case.feeds["input"]) for case in program.report.made.subject.cases]
    assert max(sizes) > len(ids)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
@pytest.mark.parametrize(
    "numbers", [[1, 2, 3], [7, 7, 7], [0, 2, 3], [[5, 1], [2, 9], [4, 4]], 3], ids=str
)
def test_numbers_of_dtypes_for_which_pytorch_has_few_functions(dtype, numbers):
    y = torch.tensor(numbers).to(dtype)
    axes = {axis: f"k{axis}" for axis in range(y.dim())}

    def model(x, y):
        scale = y.to(torch.float32)
        return x * (scale.sum() if y.dim() else int(y)), y

    program = hx.export(model, (torch.rand(3), y), None, dynamic={"x": {0: "n"}, "y": axes})
    assert program.proof.ok and len(program.proof.cases) > 3


def test_jitter_moves_floats_by_one_step():
    x, ids = torch.randn(100), torch.arange(5)
    moved, same, number = jitter([x, ids, 3])
    assert same is ids and number == 3 and not torch.equal(moved, x)
    assert ((moved - x).abs() <= 2.5e-7 * x.abs()).all()


def test_inputs_of_one_shape_are_not_alike_at_any_size():
    """What is the same twice hides what a graph has exchanged."""
    seen = []

    def distance(q, k):
        seen.append((q.detach().clone(), k.detach().clone()))
        return (q - k).abs().sum(-1)

    axes = {0: "b", 1: "n"}
    shapes = torch.randn(3, 16, 4), torch.randn(3, 16, 4)
    assert hx.export(distance, shapes, dynamic={"q": axes, "k": axes}).proof.ok
    assert len({q.shape for q, _ in seen}) > 3
    for q, k in seen:
        if q.eq(q.flatten()[0]).all() or not (q + k).isfinite().all():
            continue  # equal values in all inputs; NaN and infinities
        together = torch.corrcoef(torch.stack([q.flatten(), k.flatten()]))[0, 1]
        assert together.abs() < 0.75, list(q.shape)
