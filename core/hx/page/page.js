"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// The theme: the system's, until somebody asks for the other one.
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
document.getElementById("theme").onclick = () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  recolour();
};
function recolour() {
  graph?.key();
  graph?.repaint();
}
dark.addEventListener("change", recolour);

// The tree of modules.
const rows = [...document.querySelectorAll("#modules tbody tr")];
const open = new Set(rows.filter((r) => r.querySelector(".open")).map((r) => r.dataset.path));
function showRows() {
  let hiddenBelow = Infinity;
  for (const row of rows) {
    const depth = +row.dataset.depth;
    row.hidden = depth > hiddenBelow;
    if (!row.hidden) hiddenBelow = open.has(row.dataset.path) ? Infinity : depth;
    row.querySelector(".fold")?.classList.toggle("open", open.has(row.dataset.path));
  }
}
function fold(path) {
  open.has(path) ? open.delete(path) : open.add(path);
  showRows();
}
for (const row of rows) {
  row.onclick = (event) => {
    if (event.target.closest(".fold")) return fold(row.dataset.path);
    graph?.showModule(row.dataset.path);
  };
}
const all = document.getElementById("unfold");
if (all) {
  all.onclick = () => {
    const unfolding = rows.some((row) => row.hidden);
    open.clear();
    for (const row of rows) if (unfolding || !row.dataset.path) open.add(row.dataset.path);
    all.textContent = unfolding ? "Fold all" : "Unfold all";
    showRows();
  };
}
showRows();

const COLOURS = [
  ["#4a7fb5", "#c9823a", "#4f9a6b", "#a05fa8", "#b8554d", "#7a7f3a", "#3f8f96", "#8a6a55"],
  ["#7fb0e0", "#e0a564", "#7fc79a", "#c892d0", "#e38b83", "#b5ba6e", "#76c3ca", "#c0a08b"],
];
const RAMP = [
  ["#d5dfe9", "#9fbbd6", "#e3c27d", "#d8883f", "#b23a2e"],
  ["#2f3b47", "#4f718f", "#a68a4a", "#d88f4a", "#e77d6f"],
];

class Graph {
  constructor(box) {
    this.box = box;
    this.canvas = box.querySelector("canvas");
    this.card = box.querySelector(".card");
    this.pen = this.canvas.getContext("2d");
    this.by = "error";
    this.nodes = data.nodes;
    this.size = { w: 150, h: 34, dx: 176, dy: 62 };
    const { dx, dy, w, h } = this.size;
    this.at = data.x.map((x, i) => [x * dx, data.layer[i] * dy]);
    this.width = Math.max(...this.at.map((p) => p[0])) + w;
    this.height = Math.max(...this.at.map((p) => p[1])) + h;
    this.lines = data.edges.map(([a, b], i) => {
      const [from, to] = [this.at[a], this.at[b]];
      const points = [[from[0] + w / 2, from[1] + h]];
      for (const [x, layer] of data.paths[i] ?? []) points.push([x * dx + w / 2, layer * dy + h / 2]);
      points.push([to[0] + w / 2, to[1]]);
      return { a, b, points, far: to[1] - from[1] > 48 * dy };
    });
    this.near = this.nodes.map(() => []);
    for (const line of this.lines) {
      this.near[line.a].push(line);
      this.near[line.b].push(line);
    }
    // Which nodes stand in a layer: only those in sight are drawn.
    this.layers = [];
    data.layer.forEach((layer, i) => (this.layers[layer] ??= []).push(i));
    this.brackets = this.findBrackets();
    this.chosen = -1;
    this.module = null;
    this.found = null;
    this.listen();
    this.start();
  }

  // Where a module's nodes stand: a bracket beside them, one lane for each level.
  findBrackets() {
    const spans = new Map();
    this.nodes.forEach((node, i) => {
      const parts = node.module ? node.module.split(".") : [];
      for (let n = 1; n <= Math.min(parts.length, 3); n++) {
        const path = parts.slice(0, n).join(".");
        if (!spans.has(path)) spans.set(path, { path, n, from: Infinity, to: -1, nodes: 0 });
        const span = spans.get(path);
        span.nodes++;
        span.from = Math.min(span.from, this.at[i][1]);
        span.to = Math.max(span.to, this.at[i][1]);
      }
    });
    const lanes = [];
    const out = [];
    const inside = (span) =>
      this.at.reduce((n, [, y]) => n + (y >= span.from && y <= span.to), 0);
    // A module with one child is told with it; one that is called here and there has no bracket.
    const alone = ({ path, nodes }) =>
      [...spans.values()].some((o) => o.path.startsWith(path + ".") && o.nodes === nodes);
    const several = [...spans.values()].filter(
      (span) => span.nodes > 2 && !alone(span) && span.nodes > 0.4 * inside(span));
    for (const span of several) {
      let up = span.path.split(".");
      while (up.length > 1 && spans.get(up.slice(0, -1).join(".")).nodes === span.nodes) up.pop();
      span.label = span.path.split(".").slice(up.length - 1).join(".");
    }
    for (const span of several.sort((a, b) => a.n - b.n || a.from - b.from)) {
      let lane = span.n === 1 ? 0 : (lanes.base?.[span.n - 2] ?? 1);
      while (lane < 4 && lanes[lane] >= span.from) lane++;
      if (lane >= 4) continue;
      lanes[lane] = span.to;
      lanes.base ??= [];
      lanes.base[span.n - 1] = Math.max(lanes.base[span.n - 1] ?? 0, lane + 1);
      out.push({ ...span, lane });
    }
    return out;
  }

  start() {
    this.measure();
    this.scale = Math.min(1, (this.viewW - 220) / Math.max(this.width, 1));
    this.scale = Math.max(this.scale, 0.55);
    const first = this.at[0] ?? [0, 0];
    const middle = this.width * this.scale < this.viewW - 220 ? this.width / 2 : first[0] + this.size.w / 2;
    this.left = 150 + (this.viewW - 220) / 2 - middle * this.scale;
    this.top = 24;
    this.repaint();
  }

  fit() {
    const w = this.viewW - 230;
    const h = this.viewH - 40;
    this.scale = Math.min(1.2, w / this.width, h / this.height);
    this.left = 150 + (w - this.width * this.scale) / 2;
    this.top = 20 + (h - this.height * this.scale) / 2;
    this.repaint();
  }

  measure() {
    const ratio = devicePixelRatio || 1;
    this.viewW = this.canvas.clientWidth;
    this.viewH = this.canvas.clientHeight;
    this.canvas.width = this.viewW * ratio;
    this.canvas.height = this.viewH * ratio;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  repaint() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  colour(node) {
    const mode = isDark() ? 1 : 0;
    if (this.by === "pack") return node.pack === null ? null : COLOURS[mode][node.pack % 8];
    if (this.by === "op") return node.kind === null ? null : COLOURS[mode][node.kind % 8];
    if (node.strain === null) return null;
    const step = [0.03, 0.3, 0.7, 1].findIndex((limit) => node.strain <= limit);
    return RAMP[mode].at(step);
  }

  dim(i) {
    if (this.found) return !this.found.has(i);
    if (this.module === null) return false;
    const path = this.nodes[i].module;
    return !(path === this.module || path.startsWith(this.module + ".") || this.module === "");
  }

  paint() {
    const { pen, scale, left, top, viewW, viewH } = this;
    const { w, h, dy } = this.size;
    const [ink, soft, line, edge, fill, surface, accent, rim] =
      ["--ink", "--soft", "--line", "--edge", "--node", "--surface", "--accent", "--rim"].map(css);
    pen.clearRect(0, 0, viewW, viewH);
    const firstLayer = Math.max(0, Math.floor((-top / scale - h) / dy));
    const lastLayer = Math.min(this.layers.length - 1, Math.ceil((viewH - top) / scale / dy));
    const [y0, y1] = [-top / scale - h, (viewH - top) / scale + h];

    pen.save();
    pen.translate(left, top);
    pen.scale(scale, scale);
    const thin = Math.max(1, 0.8 / scale);
    pen.lineWidth = thin;
    pen.lineJoin = "round";
    const draw = (each) => {
      const p = each.points;
      pen.beginPath();
      pen.moveTo(p[0][0], p[0][1]);
      for (let i = 1; i < p.length; i++) {
        const [ax, ay] = p[i - 1];
        const [bx, by] = p[i];
        const bend = Math.min((by - ay) / 2, 40);
        pen.bezierCurveTo(ax, ay + bend, bx, by - bend, bx, by);
      }
      pen.stroke();
    };
    pen.strokeStyle = edge;
    for (const each of this.lines) {
      const p = each.points;
      if (p[p.length - 1][1] < y0 || p[0][1] > y1) continue;
      pen.globalAlpha = each.far ? 0.25 : this.dim(each.a) || this.dim(each.b) ? 0.3 : 1;
      pen.setLineDash(each.far ? [4 / scale, 4 / scale] : []);
      draw(each);
    }
    pen.setLineDash([]);
    if (this.chosen >= 0) {
      pen.strokeStyle = accent;
      pen.lineWidth = Math.max(2, 1.4 / scale);
      pen.globalAlpha = 1;
      this.near[this.chosen].forEach(draw);
      pen.lineWidth = thin;
    }
    const words = scale > 0.42;
    const more = scale > 0.8;
    pen.textBaseline = "middle";
    for (let layer = firstLayer; layer <= lastLayer; layer++) {
      for (const i of this.layers[layer] ?? []) {
        const node = this.nodes[i];
        const [x, y] = this.at[i];
        const tint = this.colour(node);
        pen.globalAlpha = this.dim(i) ? 0.22 : 1;
        pen.beginPath();
        pen.roundRect(x, y, w, h, node.end ? h / 2 : 6);
        pen.fillStyle = words || !tint ? (node.end ? surface : fill) : tint;
        pen.fill();
        pen.strokeStyle = i === this.chosen ? accent : node.problem ? css("--bad") : rim;
        pen.lineWidth = i === this.chosen ? 2 : thin;
        if (words || i === this.chosen) pen.stroke();
        if (!words) continue;
        if (tint) {
          pen.beginPath();
          pen.roundRect(x, y, 6, h, [6, 0, 0, 6]);
          pen.fillStyle = tint;
          pen.fill();
        }
        pen.fillStyle = node.end ? soft : ink;
        pen.textAlign = node.end ? "center" : "left";
        pen.font = "500 12.5px ui-sans-serif, system-ui, sans-serif";
        const at = node.end ? x + w / 2 : x + 15;
        const label = this.clip(node.op, w - 24);
        const second = more && !node.end && node.below;
        pen.fillText(label, at, y + h / 2 + (second ? -6.5 : 0.5));
        if (second) {
          pen.fillStyle = soft;
          pen.font = "10px ui-sans-serif, system-ui, sans-serif";
          pen.fillText(this.clip(node.below, w - 24), at, y + h / 2 + 8.5);
        }
      }
    }
    pen.restore();
    pen.globalAlpha = 1;
    this.paintBrackets(ink, soft, line, surface);
    this.paintMap(line, soft, surface, accent);
  }

  clip(text, room) {
    this.widths ??= new Map();
    const key = text + this.pen.font + room;
    let out = this.widths.get(key);
    if (out === undefined) {
      out = text;
      while (out.length > 3 && this.pen.measureText(out).width > room) out = out.slice(0, -2) + "…";
      this.widths.set(key, out);
    }
    return out;
  }

  paintBrackets(ink, soft, line, surface) {
    const { pen, scale, top, viewH } = this;
    pen.font = "11px ui-sans-serif, system-ui, sans-serif";
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    for (const each of this.brackets) {
      const y0 = each.from * scale + top;
      const y1 = (each.to + this.size.h) * scale + top;
      if (y1 < 0 || y0 > viewH || y1 - y0 < 26) continue;
      const x = 14 + each.lane * 26;
      const chosen = this.module === each.path;
      pen.fillStyle = chosen ? ink : line;
      pen.fillRect(x, Math.max(y0, 0), chosen ? 3 : 2, Math.min(y1, viewH) - Math.max(y0, 0));
      const name = each.label;
      const room = Math.min(y1, viewH - 8) - Math.max(y0, 8);
      if (room < 26) continue;
      pen.save();
      pen.translate(x + 14, Math.max(y0, 8) + 2);
      pen.rotate(Math.PI / 2);
      pen.fillStyle = chosen ? ink : soft;
      pen.fillText(this.clip(name, room - 4), 0, 3);
      pen.restore();
    }
  }

  mapBox() {
    const h = this.viewH - 28;
    return { x: this.viewW - 60, y: 14, w: 46, h };
  }

  paintMap(line, soft, surface, accent) {
    const { pen } = this;
    const box = this.mapBox();
    const sx = box.w / this.width;
    const sy = box.h / this.height;
    pen.fillStyle = surface;
    pen.fillRect(box.x - 10, 0, box.w + 30, this.viewH);
    pen.fillStyle = line;
    pen.fillRect(box.x - 11, 0, 1, this.viewH);
    for (let i = 0; i < this.nodes.length; i++) {
      const [x, y] = this.at[i];
      pen.fillStyle = this.colour(this.nodes[i]) ?? line;
      pen.globalAlpha = this.dim(i) ? 0.2 : 1;
      pen.fillRect(box.x + x * sx, box.y + y * sy, Math.max(2.5, this.size.w * sx), Math.max(1.2, this.size.h * sy));
    }
    pen.globalAlpha = 1;
    const y = box.y + (-this.top / this.scale) * sy;
    const h = (this.viewH / this.scale) * sy;
    const a = Math.max(box.y - 4, y);
    const b = Math.min(box.y + box.h + 4, y + h);
    pen.strokeStyle = accent;
    pen.lineWidth = 1.25;
    if (b > a) {
      pen.beginPath();
      pen.roundRect(box.x - 4, a, box.w + 8, Math.max(b - a, 4), 4);
      pen.stroke();
    }
  }

  under(px, py) {
    const { w, h, dy } = this.size;
    const x = (px - this.left) / this.scale;
    const y = (py - this.top) / this.scale;
    const row = this.layers[Math.floor(y / dy)] ?? [];
    return row.find((i) => {
      const [nx, ny] = this.at[i];
      return x >= nx && x <= nx + w && y >= ny && y <= ny + h;
    }) ?? -1;
  }

  zoom(factor, px, py) {
    const next = Math.max(0.02, Math.min(3, this.scale * factor));
    this.left = px - ((px - this.left) / this.scale) * next;
    this.top = py - ((py - this.top) / this.scale) * next;
    this.scale = next;
    this.repaint();
  }

  jump(py) {
    const box = this.mapBox();
    const y = ((py - box.y) / box.h) * this.height;
    this.top = this.viewH / 2 - y * this.scale;
    this.repaint();
  }

  look(i) {
    const [x, y] = this.at[i];
    this.scale = Math.max(this.scale, 0.85);
    this.left = this.viewW / 2 - (x + this.size.w / 2) * this.scale;
    this.top = this.viewH / 2 - y * this.scale;
    this.choose(i);
  }

  choose(i) {
    this.chosen = i;
    const node = this.nodes[i];
    this.card.hidden = !node;
    if (node) {
      const told = [
        ["name", node.name], ["result", node.result], ["error", node.error],
        ["call", node.target], ["module", node.module], ["pack", data.packs[node.pack]],
        ["line", node.source],
      ];
      const list = document.createElement("dl");
      for (const [key, value] of told) {
        if (!value) continue;
        const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
        dt.textContent = key;
        dd.textContent = value;
        if (key === "error" && node.problem) dd.className = "bad";
        list.append(dt, dd);
      }
      const head = document.createElement("h3");
      head.textContent = node.op;
      this.card.replaceChildren(head, list);
    }
    this.repaint();
  }

  showModule(path) {
    this.module = this.module === path || path === "" ? null : path;
    for (const row of rows) row.style.background = row.dataset.path === this.module ? "var(--hover)" : "";
    const first = this.nodes.findIndex((n, i) => this.module !== null && !this.dim(i));
    if (first >= 0) {
      this.scale = Math.max(this.scale, 0.55);
      this.left = this.viewW / 2 - (this.at[first][0] + this.size.w / 2) * this.scale;
      this.top = 90 - this.at[first][1] * this.scale;
    }
    this.repaint();
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    const hits = this.nodes.flatMap((n, i) =>
      [n.op, n.name, n.module, n.target].some((t) => t?.toLowerCase().includes(wanted)) ? [i] : []);
    this.found = wanted ? new Set(hits) : null;
    document.getElementById("hits").textContent = wanted ? `${hits.length} found` : "";
    if (wanted && hits.length) {
      this.left = this.viewW / 2 - (this.at[hits[0]][0] + this.size.w / 2) * this.scale;
      this.top = this.viewH / 3 - this.at[hits[0]][1] * this.scale;
    }
    this.repaint();
  }

  listen() {
    const c = this.canvas;
    const held = new Map();
    let moved = 0;
    let onMap = false;
    c.onpointerdown = (e) => {
      held.set(e.pointerId, [e.offsetX, e.offsetY]);
      moved = 0;
      onMap = e.offsetX > this.viewW - 70;
      c.setPointerCapture(e.pointerId);
      c.classList.add("held");
      if (onMap) this.jump(e.offsetY);
    };
    c.onpointermove = (e) => {
      const before = held.get(e.pointerId);
      if (!before) {
        c.title = "";
        return;
      }
      const [dx, dy] = [e.offsetX - before[0], e.offsetY - before[1]];
      moved += Math.abs(dx) + Math.abs(dy);
      if (onMap) return this.jump(e.offsetY);
      if (held.size === 2) {
        const [other] = [...held].filter(([id]) => id !== e.pointerId).map(([, p]) => p);
        const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
        const now = Math.hypot(e.offsetX - other[0], e.offsetY - other[1]);
        if (was > 0) this.zoom(now / was, (e.offsetX + other[0]) / 2, (e.offsetY + other[1]) / 2);
      } else {
        this.left += dx;
        this.top += dy;
      }
      held.set(e.pointerId, [e.offsetX, e.offsetY]);
      this.repaint();
    };
    c.onpointerup = c.onpointercancel = (e) => {
      held.delete(e.pointerId);
      c.classList.remove("held");
      if (moved < 5 && !onMap) this.choose(this.under(e.offsetX, e.offsetY));
    };
    c.addEventListener("wheel", (e) => {
      e.preventDefault();
      if (e.ctrlKey || e.metaKey || Math.abs(e.deltaY) >= 50 && !e.deltaX)
        this.zoom(Math.exp(-e.deltaY / 500), e.offsetX, e.offsetY);
      else {
        this.left -= e.deltaX;
        this.top -= e.deltaY;
        this.repaint();
      }
    }, { passive: false });
    c.onkeydown = (e) => {
      const step = { ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0] }[e.key];
      if (step) [this.left, this.top] = [this.left + step[0], this.top + step[1]];
      else if (e.key === "+" || e.key === "=") return this.zoom(1.25, this.viewW / 2, this.viewH / 2);
      else if (e.key === "-") return this.zoom(0.8, this.viewW / 2, this.viewH / 2);
      else if (e.key === "Escape") return this.choose(-1);
      else return;
      e.preventDefault();
      this.repaint();
    };
    new ResizeObserver(() => {
      this.measure();
      this.paint();
    }).observe(c);
    for (const button of document.querySelectorAll("[data-by]")) {
      button.onclick = () => {
        this.by = button.dataset.by;
        for (const each of document.querySelectorAll("[data-by]"))
          each.setAttribute("aria-pressed", each === button);
        this.key();
        this.repaint();
      };
    }
    document.getElementById("fit").onclick = () => this.fit();
    document.getElementById("top").onclick = () => this.start();
    document.getElementById("search").oninput = (e) => this.search(e.target.value);
    const pressed = document.querySelector("[data-by][aria-pressed=true]");
    this.by = pressed.dataset.by;
    this.key();
  }

  key() {
    const key = document.getElementById("key");
    const mode = isDark() ? 1 : 0;
    const named = { pack: data.packs, op: data.kinds }[this.by];
    key.replaceChildren();
    if (named) {
      named.forEach((name, i) => {
        const entry = document.createElement("span");
        const dot = document.createElement("i");
        dot.style.background = COLOURS[mode][i % 8];
        entry.append(dot, name);
        key.append(entry);
      });
    } else {
      const ramp = document.createElement("i");
      ramp.className = "ramp";
      const stops = RAMP[mode].map((c, i) => `${c} ${i * 20}% ${i * 20 + 20}%`);
      ramp.style.background = `linear-gradient(90deg, ${stops.join(",")})`;
      key.append("a trace", ramp, "beyond what is allowed");
    }
  }
}

const box = document.querySelector(".graph");
let graph = box ? new Graph(box) : null;
window.report = { data, graph };
