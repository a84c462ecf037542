"""The report as a page, as Markdown and as data; in a browser where there is one."""

from __future__ import annotations

import html.parser
import json
import random
import re
import shutil
import subprocess

import pytest
import torch
from steps import steps
from torch import nn

import hx
from hx.page import html as page_html
from hx.page.data import gather
from hx.page.layout import Layout, spaced

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    """A stack of blocks, a number that leaves the graph, and a name that HTML has to escape."""

    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(8) for _ in range(blocks))
        self.head = nn.Linear(8, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        for block in self.blocks:
            x = block(x)
        return {"</script><b>&": self.head(x) * x.amax().item()}


def program(**options):
    return hx.export(Net(), torch.randn(2, 8), dynamic={"x": {0: "rows"}}, **options)


class Reader(html.parser.HTMLParser):
    """What stands in a page: its text, its data, its elements, and whether they are closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.tags, self.data = [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.data = self.data or data
        elif self.open[-1:] != ["style"]:
            self.text.append(data)


def test_the_page_tells_everything_and_needs_nothing_else(tmp_path):
    made = program()
    path = tmp_path / "report.html"
    made.report.to_html(path)
    text = path.read_text()
    read = Reader(text)
    assert not read.open, "elements that are not closed"
    told = " ".join(read.text)
    for words in ("Net", "Verified", "recorded, fresh", "rows=3", "Error along the graph", "Modules",
                  "Values that left the graph", "item of one value", "Dark corners", "seen",
                  "Packs and versions", "onnxruntime", "torch.nn.functional.linear"):  # fmt: skip
        assert words in told, words
    assert f"{__file__.rpartition('/')[2]}:" in told
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert "http" not in text.replace("http-equiv", "") and "@import" not in text
    data = json.loads(read.data)
    assert len(data["nodes"]) == len(data["x"]) == len(data["layer"])
    assert len(data["nodes"]) == made.report.nodes + 2
    assert all(data["layer"][a] < data["layer"][b] for a, b in data["edges"])
    rows = [attrs for tag, attrs in read.tags if tag == "tr" and "data-path" in attrs]
    paths = [row["data-path"] for row in rows]
    assert paths[:4] == ["", "blocks", "blocks.0", "blocks.0.norm"] and paths[-1] == "head"


def test_modules_add_up_what_is_in_them():
    found = gather(program(check_every_node=True).report)
    rows = {row["path"]: row for row in found["modules"]}
    assert rows[""]["nodes"] == found["nodes"] == len(found["nodes_by_name"])
    block = rows["blocks.1"]
    inside = [row for path, row in rows.items() if path.startswith("blocks.1.")]
    assert block["nodes"] == block["own"] + sum(row["nodes"] for row in inside)
    assert block["error"] >= max(row["error"] for row in inside)
    assert block["kind"] == "Block" and block["seconds"] > 0
    assert rows[""]["parameters"] == sum(p.numel() for p in Net().parameters())


def test_markdown_and_data(tmp_path):
    report = program().report
    report.write(tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert text.startswith("# Net\n\n**Verified**")
    assert "| `blocks.0` | Block |" in text and "## Values that left the graph" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) >= 3
    report.write(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["schema"] == 1 and data["nodes_by_name"][0]["error"] is not None
    assert data["modules"][0]["nodes"] == data["nodes"]
    with pytest.raises(hx.UsageError, match=r"ends in \.html"):
        report.write(tmp_path / "r.pdf")


def test_a_failed_export_has_a_report_that_says_where(tmp_path, lacking):
    @hx.converter("torch.relu")
    def wrong(op, input):
        return op.Abs(input)

    packs = hx.Registry.installed()
    packs.add(wrong)
    with pytest.raises(hx.VerificationError) as caught:
        program(packs=packs)
    caught.value.report.to_html(tmp_path / "r.html")
    told = " ".join(Reader((tmp_path / "r.html").read_text()).text)
    assert "Wrong." in told and "first off: Abs of torch.relu" in told
    with pytest.raises(hx.MissingConverters) as caught:
        hx.export(torch.sinh, torch.randn(2), packs=lacking("sinh"))
    told = caught.value.report.to_markdown()
    assert "**Not exported.** 1 target has no converter." in told and "hx packs new" in told


def test_casts_that_nobody_asked_for_are_told():
    def mixed(x):
        return (x + torch.arange(3)).long() * 2

    @hx.converter("torch.add")
    def add(op, input, other, *, alpha=1):
        return op.Cast(op.Add(op.Cast(input, to=11), op.Cast(other, to=11)), to=1)

    packs = hx.Registry.installed()
    packs.add(add)
    found = gather(hx.export(mixed, torch.rand(2, 3), packs=packs).report)
    assert [(c["target"], c["count"]) for c in found["casts"]] == [("torch.add", 3)]


def test_an_export_without_a_report_imports_nothing_of_it():
    code = (
        "import sys, torch, hx\n"
        "hx.export(torch.nn.ReLU(), torch.randn(2))\n"
        "print([m for m in sys.modules if m.startswith('hx.page')])"
    )
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


# Where the nodes stand.


def test_nodes_keep_their_order_and_their_distance():
    assert spaced([0, 0, 0], [1, 1, 1], [1, 1]) == [-1, 0, 1]
    assert spaced([0, 5, 9], [1, 1, 1], [1, 1]) == [0, 5, 9]
    assert spaced([4, 0], [1, 3], [1]) == pytest.approx([0.25, 1.25])


@pytest.mark.parametrize("seed", range(5))
def test_a_layout_has_no_overlap_and_goes_down(seed):
    drawn = random.Random(seed)
    edges = [(drawn.randrange(max(0, i - 9), i), i) for i in range(1, 200) for _ in (1, 2)]
    layout = Layout(200, edges)
    assert all(layout.layer[a] < layout.layer[b] for a, b in layout.edges)
    for layer in set(layout.layer):
        places = sorted(x for x, at in zip(layout.x, layout.layer) if at == layer)
        assert all(b - a >= 1 for a, b in zip(places, places[1:]))


def test_a_chain_is_a_straight_line_and_a_detour_stands_beside_it():
    layout = Layout(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 4)])
    assert layout.layer == [0, 1, 2, 3, 4, 5]
    assert layout.x[2] == pytest.approx(layout.x[3])
    assert len(layout.paths[1, 4]) == 2
    assert all(abs(x - layout.x[2]) > 0.5 for x, _ in layout.paths[1, 4])


def test_thousands_of_nodes_are_laid_out():
    class Deep(nn.Module):
        def __init__(self, rounds):
            super().__init__()
            self.rounds = rounds

        def forward(self, x):
            for i in range(self.rounds):
                y = torch.tanh(x)
                x = x + y if i % 5 == 0 else y * 0.5
            return x

    def work(rounds):
        found = gather(hx.export(Deep(rounds), torch.randn(2, 3), verify=False).report)
        assert len(found["nodes_by_name"]) == 2 * rounds
        assert len(page_html.page(found)) < 1000 * 2 * rounds
        return steps(page_html.page, found)

    assert work(1000) < 5 * work(250)


# In a browser.


@pytest.fixture
def browser(tmp_path):
    """Opens a page with a script of the test's own at its end; gives what it left in the title."""
    if not BROWSER:
        pytest.skip("no chromium is installed: apt-get install chromium")

    def open_(path, script, *options):
        test = tmp_path / "opened.html"
        # Errors of the page's own script go to the title as well.
        early = "<script>onerror = (m) => { document.title = 'error: ' + m; }</script>"
        late = f"<script>(() => {{ {script} }})();</script>"
        test.write_text(
            path.read_text()
            .replace("<head>", "<head>" + early)
            .replace("</body>", late + "</body>")
        )
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,900",
             "--virtual-time-budget=3000", "--dump-dom", *options, test.as_uri()],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        found = re.search(r"<title>(.*?)</title>", done.stdout, re.S)
        assert found, done.stderr[-2000:]
        return html.unescape(found.group(1))

    return open_


def test_in_a_browser_modules_unfold_and_the_graph_is_drawn(browser, tmp_path):
    path = tmp_path / "report.html"
    program().report.to_html(path)
    told = browser(
        path,
        """
        const rows = [...document.querySelectorAll("#modules tbody tr")];
        const shown = () => rows.filter((row) => !row.hidden).length;
        const out = { first: shown() };
        rows[1].querySelector(".fold").click();
        out.unfolded = shown();
        document.getElementById("unfold").click();
        out.all = shown();
        const { graph } = window.report;
        graph.paint();
        const ink = () => {
          const { width, height } = graph.canvas;
          const pixels = graph.pen.getImageData(0, 0, width, height).data;
          const seen = new Set();
          for (let i = 0; i < pixels.length; i += 4)
            seen.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
          return seen.size;
        };
        out.colours = ink();
        graph.choose(3);
        out.card = document.querySelector(".card").textContent;
        graph.search("gemm");
        out.hits = document.getElementById("hits").textContent;
        const before = graph.scale;
        graph.zoom(2, 100, 100);
        out.zoomed = graph.scale / before;
        graph.fit();
        out.fits = graph.height * graph.scale <= graph.viewH;
        document.title = JSON.stringify(out);
        """,
    )
    assert not told.startswith("error"), told
    out = json.loads(told)
    assert out["first"] == 3 and out["unfolded"] == 6 and out["all"] == 15
    assert out["colours"] > 10
    assert "torch.relu" in out["card"] and "blocks.0" in out["card"]
    assert out["hits"] == "7 found" and out["zoomed"] == 2 and out["fits"]


def test_in_a_browser_light_and_dark_are_others(browser, tmp_path):
    path = tmp_path / "report.html"
    program().report.to_html(path)
    told = browser(
        path,
        """
        const ground = () => getComputedStyle(document.body).backgroundColor;
        const before = ground();
        document.getElementById("theme").click();
        document.title = before + " | " + ground();
        """,
    )
    before, after = told.split(" | ")
    assert before != after and {before, after} == {"rgb(250, 249, 247)", "rgb(19, 20, 22)"}


def test_in_a_browser_2000_nodes_are_drawn_at_once(browser, tmp_path):
    class Deep(nn.Module):
        def forward(self, x):
            for _ in range(1000):
                x = torch.tanh(x) * 0.5
            return x

    path = tmp_path / "report.html"
    hx.export(Deep(), torch.randn(2, 3), verify=False).report.to_html(path)
    told = browser(
        path,
        """
        const start = performance.now();
        for (let i = 0; i < 10; i++) window.report.graph.paint();
        window.report.graph.fit();
        for (let i = 0; i < 10; i++) window.report.graph.paint();
        document.title = String((performance.now() - start) / 20);
        """,
    )
    assert float(told) < 100, "milliseconds for one picture"
