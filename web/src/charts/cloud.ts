// Sockets over time, or a measure against another: every sample drawn, the pointer tells whose it is.
import uPlot from "uplot";
import { cut, short } from "../format";
import { axis, haloed, handFont, kept } from "./base";
import { colour, rgb } from "./colours";
import type { Draw } from "./live";
import { type Ink, NOBODY, Raster } from "./raster";
import { hideTip, showTip } from "./tip";

const HEIGHT = 380;
/** How far from a line the pointer may be, CSS pixels. */
const REACH = 5;
/** With more sockets than this, lines have hard edges: nobody sees one among them. */
const ROUGH = 2500;
/** As many outliers are named in the picture; all of them are in the table. */
const NAMED = 6;

/** What the cloud draws, by socket. */
export interface CloudData {
  /** Numbers of the sockets to draw. */
  shown: number[];
  /** Where a socket's samples are: from, up to but not including. */
  range: (socket: number) => [number, number];
  x: Float64Array;
  y: Float64Array;
  /** Samples of a socket are joined by lines: x is time. */
  joined: boolean;
  xUnit: string;
  yUnit: string;
  /** Name of a colour of the style, by socket. */
  colour: (socket: number) => string;
  outlier: (socket: number) => boolean;
  name: (socket: number) => string;
  /** What the pointer tells of a socket, near a value of x. */
  tell: (socket: number, x: number) => string[];
  click: (socket: number) => void;
}

type Range = [number, number];

/** Prepares the picture. */
export function cloud(data: CloudData): Draw {
  return (host) => {
    const whole = extent(data);
    let [xs, ys] = whole;
    let raster: Raster | null = null;
    let over = NOBODY;
    const told = () => {
      host.dataset.from = String(xs[0]);
      host.dataset.to = String(xs[1]);
    };
    const show = (u: uPlot, x: Range, y: Range) => {
      [xs, ys] = [x, y];
      u.setScale("x", { min: x[0], max: x[1] });
      u.setScale("y", { min: y[0], max: y[1] });
      u.redraw(false, true);
      told();
    };
    const unit = (name: string) => (_u: uPlot, at: number[]) =>
      at.map((v) => (name === "s" && data.joined ? `${Number(v.toFixed(4))} s` : short(v)));
    const plot = new uPlot(
      {
        width: host.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: {
          drag: { x: true, y: true, uni: 30, setScale: false },
          points: { show: false },
          bind: {
            dblclick: (u) => () => {
              show(u, ...whole);
              return null;
            },
          },
        },
        scales: { x: { time: false, range: () => xs }, y: { range: () => ys } },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [
          axis({ values: unit(data.xUnit), space: 70, size: 30 }),
          axis({ values: unit(data.yUnit), size: 58 }),
        ],
        hooks: {
          draw: [
            (u) => {
              raster = paint(u, data, xs, ys);
              lay(u, raster);
              nameOutliers(u, data, xs, ys);
            },
          ],
          setSelect: [
            (u) => {
              const { left, top, width, height } = u.select;
              if (width < 4 && height < 4) return;
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              const wide = width >= 4;
              const high = height >= 4;
              show(
                u,
                wide ? [u.posToVal(left, "x"), u.posToVal(left + width, "x")] : xs,
                high ? [u.posToVal(top + height, "y"), u.posToVal(top, "y")] : ys,
              );
            },
          ],
          setCursor: [
            (u) => {
              const { left = -1, top = -1, event } = u.cursor;
              const px = uPlot.pxRatio;
              const who =
                left < 0 ? NOBODY : (raster?.at(left * px, top * px, REACH * px) ?? NOBODY);
              if (who !== over) {
                over = who;
                highlight(u, data, who, xs, ys);
                u.over.style.cursor = who === NOBODY ? "" : "pointer";
              }
              if (who === NOBODY || !event) hideTip();
              else showTip(event, data.tell(who, u.posToVal(left, "x")));
            },
          ],
        },
      },
      [xs, ys],
      host,
    );
    let pressed = { x: 0, y: 0 };
    plot.over.addEventListener("mousedown", (event) => {
      pressed = { x: event.clientX, y: event.clientY };
    });
    plot.over.addEventListener("click", (event) => {
      const still = Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) < 4;
      if (still && over !== NOBODY) data.click(over);
    });
    told();
    return kept(plot, HEIGHT, hideTip);
  };
}

/** The range of all that is shown, y from zero up. */
function extent(data: CloudData): [Range, Range] {
  let [x0, x1, y1] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (const socket of data.shown) {
    const [from, to] = data.range(socket);
    for (let i = from; i < to; i++) {
      const [x, y] = [data.x[i] ?? Number.NaN, data.y[i] ?? Number.NaN];
      if (Number.isNaN(x) || Number.isNaN(y)) continue;
      if (x < x0) x0 = x;
      if (x > x1) x1 = x;
      if (y > y1) y1 = y;
    }
  }
  if (x0 > x1) [x0, x1] = [0, 1];
  if (!data.joined) x0 = Math.min(x0, 0);
  if (x0 === x1) [x0, x1] = [x0 - 0.5, x1 + 0.5];
  const room = (x1 - x0) * 0.01;
  return [
    [data.joined || x0 < 0 ? x0 - room : x0, x1 + room],
    [0, y1 > 0 ? y1 * 1.06 : 1],
  ];
}

function paint(u: uPlot, data: CloudData, [x0, x1]: Range, [y0, y1]: Range): Raster {
  const width = Math.max(1, Math.round(u.bbox.width));
  const height = Math.max(1, Math.round(u.bbox.height));
  const raster = new Raster(width, height, rgb(colour("page")));
  const px = uPlot.pxRatio;
  const count = data.shown.length;
  // The more there are the fainter each is, so that where many are can be told from where few are.
  const alpha = Math.max(0.16, Math.min(0.9, 9 / Math.sqrt(count)));
  const rough = count > ROUGH;
  const inks = new Map<string, Ink["rgb"]>();
  const ink = (name: string) => {
    const known = inks.get(name) ?? rgb(colour(name));
    inks.set(name, known);
    return known;
  };
  const X = (i: number) => (((data.x[i] ?? Number.NaN) - x0) / (x1 - x0)) * (width - 1);
  const Y = (i: number) => (1 - ((data.y[i] ?? Number.NaN) - y0) / (y1 - y0)) * (height - 1);
  const drawn = (socket: number, strong: boolean, rim = false) => {
    const look = { rgb: ink(rim ? "page" : data.colour(socket)), alpha: strong ? 1 : alpha, rough };
    const thick = Math.max(1, Math.round((rim ? 5 : strong ? 2 : 1) * px));
    const [from, to] = data.range(socket);
    for (let i = from; i < to; i++) {
      if (data.joined && i + 1 < to)
        raster.line(X(i), Y(i), X(i + 1), Y(i + 1), look, thick, socket);
      if (!data.joined || to - from === 1) {
        const [x, y] = [X(i), Y(i)];
        if (x >= 0 && x < width && y >= 0 && y < height) {
          raster.dot(x, y, (rim ? 3.4 : strong ? 2.2 : 1.3) * px, look, socket);
        }
      }
    }
  };
  for (const socket of data.shown) if (!data.outlier(socket)) drawn(socket, false);
  // Outliers lie on top, with a rim that sets them off.
  for (const socket of data.shown.filter(data.outlier)) {
    if (count > 1) drawn(socket, true, true);
    drawn(socket, true);
  }
  return raster;
}

/** Puts the picture over the grid, which is to be seen where nothing was drawn. */
function lay(u: uPlot, raster: Raster): void {
  const sheet = new OffscreenCanvas(raster.width, raster.height);
  sheet.getContext("2d")?.putImageData(raster.image, 0, 0);
  const [r, g, b] = rgb(colour("page"));
  u.ctx.save();
  u.ctx.globalCompositeOperation = r + g + b > 384 ? "darken" : "lighten";
  u.ctx.drawImage(sheet, Math.round(u.bbox.left), Math.round(u.bbox.top));
  u.ctx.restore();
}

function nameOutliers(u: uPlot, data: CloudData, [x0, x1]: Range, [y0, y1]: Range): void {
  const px = uPlot.pxRatio;
  u.ctx.save();
  handFont(u.ctx, 600);
  u.ctx.textBaseline = "middle";
  u.ctx.textAlign = "right";
  u.ctx.fillStyle = colour("ink");
  const written: number[] = [];
  for (const socket of data.shown.filter(data.outlier)) {
    const [from, to] = data.range(socket);
    let last = -1;
    for (let i = from; i < to; i++) {
      const [x, y] = [data.x[i] ?? Number.NaN, data.y[i] ?? Number.NaN];
      if (x >= x0 && x <= x1 && y >= y0 && y <= y1) last = i;
    }
    if (last < 0) continue;
    const y = u.valToPos(data.y[last] ?? 0, "y", true);
    if (written.some((other) => Math.abs(other - y) < 13 * px)) continue;
    written.push(y);
    const x = u.valToPos(data.x[last] ?? 0, "x", true);
    const text = cut(data.name(socket), 48);
    const wide = u.ctx.measureText(text).width;
    haloed(u.ctx, text, Math.max(x - 6 * px, u.bbox.left + wide + 4 * px), y - 8 * px);
    if (written.length === NAMED) break;
  }
  u.ctx.restore();
}

/** Draws one socket over the others, on a layer of its own. */
function highlight(u: uPlot, data: CloudData, socket: number, xs: Range, ys: Range): void {
  let layer = u.over.querySelector("canvas");
  if (!layer) {
    layer = document.createElement("canvas");
    layer.className = "layer";
    u.over.append(layer);
  }
  const px = uPlot.pxRatio;
  layer.width = u.over.clientWidth * px;
  layer.height = u.over.clientHeight * px;
  const ctx = layer.getContext("2d");
  if (!ctx || socket === NOBODY) return;
  const [from, to] = data.range(socket);
  ctx.strokeStyle = colour("accent");
  ctx.fillStyle = colour("accent");
  ctx.lineWidth = 2.5 * px;
  ctx.beginPath();
  for (let i = from; i < to; i++) {
    const x = (((data.x[i] ?? 0) - xs[0]) / (xs[1] - xs[0])) * layer.width;
    const y = (1 - ((data.y[i] ?? 0) - ys[0]) / (ys[1] - ys[0])) * layer.height;
    if (data.joined) ctx.lineTo(x, y);
    if (!data.joined || to - from === 1) ctx.fillRect(x - 2.5 * px, y - 2.5 * px, 5 * px, 5 * px);
  }
  ctx.stroke();
}
