"""The report as a page, as Markdown and as data; in a browser where there is one."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from steps import steps
from torch import nn

import hx
from hx.page import html as page_html

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
    made.report.command = "hx export net.py:Net -o <net>.onnx"
    path = tmp_path / "report.html"
    made.report.to_html(path)
    text = path.read_text()
    read = Reader(text)
    assert not read.open, "elements that are not closed"
    told = " ".join(read.text)
    for words in ("Net", "Verified", "recorded, fresh", "rows=3", "Error along the graph", "Modules",
                  "Followed", "item of one value", "Checked", "the model changes seen",
                  "Packs and versions", "onnxruntime", "torch.nn.functional.linear",
                  made.report.command, "comparisons are right"):  # fmt: skip
        assert words in told, words
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", told)
    assert f"{__file__.rpartition('/')[2]}:" in told
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert "http" not in text and "@import" not in text and "<script" not in text
    paths = [attrs["data-path"] for _, attrs in read.tags if "data-path" in attrs]
    assert paths[:4] == ["", "blocks", "blocks.0", "blocks.0.norm"] and paths[-1] == "head"


def test_open_findings_come_first_and_identical_failures_once(tmp_path, lacking):
    class Lost(nn.Module):
        def forward(self, x):
            return x * 2 if bool(x.sum() > -1e9) else x.sum()

    report = hx.export(Lost(), torch.ones(2, 3)).report
    assert report.findings[0].level == "open"
    report.to_html(tmp_path / "r.html")
    told = " ".join(Reader((tmp_path / "r.html").read_text()).text)
    assert told.index("Open findings") < told.index("Proof") < told.index("Packs and versions")
    assert "torch.where" in told and str(report.findings[0].where.line) in told

    @hx.converter("torch.relu")
    def wrong(op, input):
        return op.Abs(input)

    packs = hx.Registry.installed()
    packs.add(wrong)
    with pytest.raises(hx.VerificationError) as caught:
        program(packs=packs)
    caught.value.report.to_html(tmp_path / "r.html")
    assert len(caught.value.proof.cases) > 5
    assert (tmp_path / "r.html").read_text().count('<article class="failure">') == 1


def test_failures_that_differ_in_sizes_alone_are_shown_once(tmp_path, monkeypatch):
    class Window(nn.Module):
        def forward(self, x):
            return x * torch.from_numpy(numpy.kaiser(x.shape[1], 8.6)).float()

    monkeypatch.chdir(Path(__file__).parent)
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(Window(), torch.ones(2, 6), dynamic={"x": {1: "n"}})
    problems = {case.problem for case in caught.value.proof.cases if case.problem}
    assert len(problems) > 5
    caught.value.report.to_html(tmp_path / "r.html")
    caught.value.report.write(tmp_path / "r.md")
    page = (tmp_path / "r.html").read_text()
    assert 0 < page.count('<article class="failure">') <= 2
    for text in (page, (tmp_path / "r.md").read_text()):
        assert " test_page.py:" in text and __file__ not in text


def test_modules_add_up_what_is_in_them():
    found = program(check_every_node=True).report.details()
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
    assert "| `blocks.0` | Block |" in text and "## Findings" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) >= 3
    report.write(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["schema"] == 2 and data["nodes_by_name"][0]["error"] is not None
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
    found = hx.export(mixed, torch.rand(2, 3), packs=packs).report.details()
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


def test_a_page_of_thousands_of_nodes_is_written_in_linear_time():
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
        found = hx.export(Deep(rounds), torch.randn(2, 3), verify=False).report.details()
        assert len(found["nodes_by_name"]) == 2 * rounds
        assert len(page_html.page(found)) < 1000 * 2 * rounds
        return steps(page_html.page, found)

    assert work(1000) < 5 * work(250)


# In a browser.


@pytest.fixture
def browser(tmp_path):
    """Opens a page of some width with a script of the test; returns what that left in the title."""
    if not BROWSER:
        pytest.skip("no chromium is installed: apt-get install chromium")

    def open_(path, script, width=1280, *options):
        test = tmp_path / "opened.html"
        late = f"<script>(() => {{ {script} }})();</script>"
        test.write_text(path.read_text().replace("</body>", late + "</body>"))
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900",
             "--virtual-time-budget=3000", "--dump-dom", *options, test.as_uri()],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        found = re.search(r"<title>(.*?)</title>", done.stdout, re.S)
        assert found, done.stderr[-2000:]
        return html.unescape(found.group(1))

    return open_


@pytest.mark.parametrize("width", [1280, 500])
def test_in_a_browser_nothing_is_wider_than_the_screen(browser, tmp_path, width):
    path = tmp_path / "report.html"
    program().report.to_html(path)
    told = browser(
        path,
        """
        for (const each of document.querySelectorAll("details")) each.open = true;
        const page = document.documentElement;
        document.title = page.scrollWidth + " " + page.clientWidth;
        """,
        width,
    )
    needed, there = map(int, told.split())
    assert needed <= there <= width


def test_in_a_browser_light_and_dark_are_others(browser, tmp_path):
    path = tmp_path / "report.html"
    program().report.to_html(path)
    script = "document.title = getComputedStyle(document.body).backgroundColor;"
    light = browser(path, script, 1280, "--blink-settings=preferredColorScheme=1")
    dark = browser(path, script, 1280, "--blink-settings=preferredColorScheme=0")
    assert (light, dark) == ("rgb(250, 249, 247)", "rgb(19, 20, 22)")
