"use strict";
const WIDTH = 520, HEIGHT = 300, LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 34;
const COLOURS = ["#0072B2", "#009E73", "#CC79A7", "#B8A800", "#56B4E9", "#E69F00"];
const DASHES = ["3 5", "8 4", "1 4"];
const id = (name) => document.getElementById(name);
const known = (values) => values.filter((value) => value !== null);
const show = (value) => (value === null ? "none" : Number(value.toPrecision(6)).toString());

function drawing(parent) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  parent.replaceChildren(svg);
  return svg;
}

function add(svg, kind, attributes, text) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
  if (text !== undefined) part.textContent = text;
  svg.append(part);
  return part;
}

function range(values, share = 0.06) {
  let low = Math.min(...values), high = Math.max(...values);
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  return [low - share * (high - low), high + share * (high - low)];
}

// Steps of 1, 2 or 5 times a power of ten.
function ticks([low, high], count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) found.push(Number((k * step).toPrecision(10)));
  return found;
}

function frame(svg, across, up, label) {
  const toX = (v) => LEFT + ((v - across[0]) / (across[1] - across[0])) * (WIDTH - LEFT - RIGHT);
  const toY = (v) => HEIGHT - BOTTOM - ((v - up[0]) / (up[1] - up[0])) * (HEIGHT - TOP - BOTTOM);
  for (const tick of ticks(across, 6)) {
    add(svg, "line", { x1: toX(tick), x2: toX(tick), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--line)", "stroke-width": 0.6 });
    add(svg, "text", { x: toX(tick), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, show(tick));
  }
  for (const tick of ticks(up, 5)) {
    add(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: toY(tick), y2: toY(tick), stroke: "var(--line)", "stroke-width": 0.6 });
    add(svg, "text", { x: LEFT - 6, y: toY(tick) + 4, "text-anchor": "end" }, show(tick));
  }
  add(svg, "text", { x: WIDTH - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, label);
  return [toX, toY];
}

// A gap in the values is a gap in the curve.
function curve(svg, toX, toY, xs, ys, style) {
  let path = "", pen = "M";
  ys.forEach((y, k) => {
    if (y === null) { pen = "M"; return; }
    path += `${pen}${toX(xs[k]).toFixed(1)} ${toY(y).toFixed(1)}`;
    pen = "L";
  });
  add(svg, "path", { d: path, fill: "none", "stroke-width": 2, ...style });
}

function dot(svg, x, y) {
  add(svg, "circle", { cx: x, cy: y, r: 6, fill: "var(--here)", stroke: "var(--paper)", "stroke-width": 1.5 });
}

function key(parent, entries) {
  parent.replaceChildren(...entries.map(([label, colour, dash]) => {
    const entry = document.createElement("span"), mark = document.createElement("i");
    mark.style.borderTopColor = colour;
    if (dash) mark.style.borderTopStyle = "dashed";
    entry.append(mark, label);
    return entry;
  }));
}

function drawUpper(k) {
  const svg = drawing(id("upper"));
  const heights = known([...DATA.phi, ...DATA.forbidden]);
  // A penalty may fall far below phi; the picture is about phi.
  const [low, high] = range(heights, 0.25);
  const [toX, toY] = frame(svg, [DATA.x[0], DATA.x.at(-1)], [low, high], DATA.xName);
  const inside = (values) => values.map((v) => (v === null || v < low || v > high ? null : v));
  curve(svg, toX, toY, DATA.x, DATA.forbidden, { stroke: "var(--phi)", "stroke-dasharray": "1 4", opacity: 0.6 });
  curve(svg, toX, toY, DATA.x, DATA.phi, { stroke: "var(--phi)", "stroke-width": 5, opacity: 0.35 });
  DATA.penalised.forEach((each, j) => curve(svg, toX, toY, DATA.x, inside(each.values),
    { stroke: COLOURS[(j + 3) % COLOURS.length], "stroke-dasharray": DASHES[j % DASHES.length] }));
  add(svg, "line", { x1: toX(DATA.x[k]), x2: toX(DATA.x[k]), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--here)", opacity: 0.5 });
  if (DATA.answer !== null) add(svg, "text", { x: toX(DATA.answer[0]), y: toY(DATA.answer[1]) + 5, "text-anchor": "middle",
    style: "fill: var(--here); font-size: 20px" }, "★");
  const height = DATA.phi[k] ?? DATA.forbidden[k];
  if (height !== null) dot(svg, toX(DATA.x[k]), toY(height));
}

function drawAnswer(k) {
  const svg = drawing(id("answer"));
  const up = range(known(DATA.y.flatMap((each) => each.values)));
  const [toX, toY] = frame(svg, [DATA.x[0], DATA.x.at(-1)], up, DATA.xName);
  DATA.y.forEach((each, j) => {
    curve(svg, toX, toY, DATA.x, each.values, { stroke: COLOURS[j % COLOURS.length] });
    if (each.values[k] !== null) dot(svg, toX(DATA.x[k]), toY(each.values[k]));
  });
}

function drawLower(k) {
  const svg = drawing(id("lower"));
  const slice = DATA.slices[Number(id("entry").value)];
  const free = slice.g[k], allowed = free.map((g, j) => (slice.allowed[k][j] === "1" ? g : null));
  const [low, high] = range(known(slice.g.flat()).length ? known(free).length ? known(free) : [0, 1] : [0, 1]);
  const [toX, toY] = frame(svg, [slice.y[0], slice.y.at(-1)], [low, high], slice.name);
  curve(svg, toX, toY, slice.y, free, { stroke: "var(--quiet)", "stroke-dasharray": "2 4" });
  curve(svg, toX, toY, slice.y, allowed, { stroke: COLOURS[0], "stroke-width": 3 });
  const at = slice.at[k];
  if (at !== null && DATA.v[k] !== null) dot(svg, toX(at), Math.min(Math.max(toY(DATA.v[k]), TOP), HEIGHT - BOTTOM));
}

function drawFigures(k) {
  const rows = [[DATA.xName, show(DATA.x[k])], ...DATA.y.map((each) => [`answer ${each.name}`, show(each.values[k])]),
    [DATA.lowerName, show(DATA.v[k])], ["upper objective φ", show(DATA.phi[k] ?? DATA.forbidden[k])]];
  rows.push(["upper constraints", DATA.phi[k] !== null ? "hold" : DATA.v[k] === null ? "the lower level has no answer" : "fail"]);
  rows.push(["lower constraints that hold with equality", DATA.active[k].map((row) => DATA.rows[row]).join("; ") || "none"]);
  id("figures").replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => Object.assign(document.createElement("td"), { textContent: cell })));
    return row;
  }));
  id("here").textContent = `${DATA.xName} = ${show(DATA.x[k])}`;
}

function draw() {
  const k = Number(id("slider").value);
  drawUpper(k);
  drawLower(k);
  drawAnswer(k);
  drawFigures(k);
}

// Which sample is nearest to a value of x.
function nearest(x) {
  return DATA.x.reduce((best, each, k) => (Math.abs(each - x) < Math.abs(DATA.x[best] - x) ? k : best), 0);
}

function begin() {
  const slider = id("slider");
  slider.max = DATA.x.length - 1;
  slider.value = nearest(DATA.answer === null ? DATA.x[Math.floor(DATA.x.length / 2)] : DATA.answer[0]);
  id("entry").replaceChildren(...DATA.slices.map((slice, k) =>
    Object.assign(document.createElement("option"), { value: k, textContent: slice.name })));
  key(id("upperKey"), [["φ(x): value at the lower answer", "var(--phi)"],
    ...DATA.penalised.map((each, j) => [`Fᵧ(x), γ = ${each.gamma}`, COLOURS[(j + 3) % COLOURS.length], true])]);
  key(id("answerKey"), DATA.y.map((each, j) => [each.name, COLOURS[j % COLOURS.length]]));
  key(id("lowerKey"), [["allowed", COLOURS[0]], ["not allowed", "var(--quiet)", true]]);
  slider.addEventListener("input", draw);
  id("entry").addEventListener("input", draw);
  id("best").hidden = DATA.answer === null;
  id("best").addEventListener("click", () => { slider.value = nearest(DATA.answer[0]); draw(); });
  const follow = () => {
    const given = new URLSearchParams(location.hash.slice(1)).get("x");
    if (given !== null && Number.isFinite(Number(given))) slider.value = nearest(Number(given));
    draw();
  };
  window.addEventListener("hashchange", follow);
  follow();
}
begin();
