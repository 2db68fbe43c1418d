"""The script of the page that ``kvpoll trace show`` writes. What a trace says reaches the page as text nodes only."""

__all__ = ["SCRIPT"]

SCRIPT = r"""
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const STATES = data.states, TERMINAL = data.terminal, OUTCOMES = ["success", "failed", "open"];
const SIGN = {success: "\u2713", failed: "\u2715", open: "\u2026"}, STEP = 50, EVENTS = 600;
const $ = (id) => document.getElementById(id);
const stateIndex = (name) => STATES.indexOf(name);
const el = (tag, cls, text) => {
  const made = document.createElement(tag);
  if (cls) made.className = cls;
  if (text !== undefined) made.textContent = text;
  return made;
};
const time = (ms) => ms < 1000 ? ms + " ms" : ms < 60000 ? (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s"
  : Math.floor(ms / 60000) + " min " + Math.round(ms % 60000 / 1000) + " s";
const lengths = data.rooms.map((room) => room.stop - room.start);
const longest = Math.max(1, ...lengths), whole = Math.max(1, data.span);
const middle = [...lengths].sort((a, b) => a - b)[lengths.length >> 1] || 0;
const view = {text: "", outcome: "", state: "", cause: "", axis: longest > 20 * Math.max(1, middle) ? "log" : "own", shown: STEP};
const opened = new Set(), ids = new Set(data.rooms.map((room) => room.id));

// -- where a time lies on a track, from 0 to 100
const place = (room, t) => {
  const own = t - room.start;
  if (view.axis === "clock") return 100 * t / whole;
  if (view.axis === "fit") return 100 * own / Math.max(1, room.stop - room.start);
  if (view.axis === "log") return 100 * Math.log(1 + own) / Math.log(1 + longest);
  return 100 * own / longest;
};
const percent = (room, t) => Math.min(100, Math.max(0, place(room, t))) + "%";

function drawAxis() {
  const axis = $("axis");
  axis.replaceChildren();
  axis.hidden = view.axis === "fit";
  if (axis.hidden) return;
  const end = view.axis === "clock" ? whole : longest, room = {start: 0, stop: end}, ticks = [0];
  if (view.axis === "log") {
    for (let t = 10; t < end; t *= 10) ticks.push(t);
  } else {
    const rough = end / (axis.clientWidth > 600 ? 8 : 4), power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, power * ([1, 2, 5, 10].find((k) => k * power >= rough) || 10));
    for (let t = step; t < end; t += step) ticks.push(t);
  }
  while (ticks.length > 1 && place(room, ticks[ticks.length - 1]) > (axis.clientWidth > 600 ? 92 : 72)) ticks.pop();
  ticks.push(end);
  for (const t of ticks) {
    const label = el("span", t === end ? "last" : "", time(t)), tick = el("i");
    label.style.left = tick.style.left = percent(room, t);
    axis.append(label, tick);
  }
}

// -- rooms
const endName = (end) => end.role === "no end" ? "no end" : end.role + " " + end.no;
const stateOf = (end) => end.spans.length ? STATES[end.spans[end.spans.length - 1][1]] : "";

function matches(room) {
  if (view.text && (ids.has(view.text) ? room.id !== view.text : !room.id.includes(view.text))) return false;
  if (view.outcome && room.outcome !== view.outcome) return false;
  if (view.cause && !room.causes.includes(view.cause)) return false;
  if (view.state === "") return true;
  const wanted = Number(view.state);
  return room.ends.some((end) => end.spans.some((span) => span[1] === wanted));
}

function drawLane(room, end, index) {
  const lane = el("div", "lane"), name = el("span", "lane-name", endName(end)), track = el("div", "track");
  name.title = endName(end) + " of " + end.who;
  track.dataset.end = index;
  end.spans.forEach(([t, state], i) => {
    const last = i + 1 === end.spans.length, over = TERMINAL.includes(state);
    const until = last ? Math.max(end.stop, t) : end.spans[i + 1][0];
    if (over) {
      const cap = el("span", "cap s" + state, STATES[state] === "Success" ? "\u2713" : "\u2715");
      cap.style.left = percent(room, t);
      cap.dataset.span = i;
      track.append(cap);
      return;
    }
    const span = el("span", "span s" + state), from = place(room, t), to = Math.min(100, place(room, Math.min(until, room.stop)));
    span.style.left = from + "%";
    span.style.width = Math.max(0, to - from) + "%";
    span.dataset.span = i;
    track.append(span);
    if (last && end.cut) {
      const cut = el("span", "cut");
      cut.style.left = to + "%";
      cut.style.width = Math.max(0, Math.min(100, place(room, room.stop)) - to) + "%";
      cut.dataset.cut = "1";
      track.append(cut);
    }
  });
  room.marks.forEach((mark, i) => {
    if (mark.end !== index || mark.what === "step" || mark.t > room.stop) return;
    const message = el("span", "msg " + mark.what + (mark.lost || mark.name === "Abort" ? " bad" : ""));
    message.style.left = percent(room, mark.t);
    message.dataset.mark = i;
    track.append(message);
  });
  lane.append(name, track);
  return lane;
}

function drawRoom(room) {
  const box = el("article", "room"), row = el("div", "row"), button = el("button", "open"), lanes = el("div", "lanes");
  const facts = el("span", "facts"), name = el("span", "id", room.id);
  name.title = "room " + room.id;
  facts.append(el("span", "badge o-" + room.outcome, SIGN[room.outcome] + " " + (room.causes[0] || room.outcome)),
    el("span", "", time(room.stop - room.start)));
  button.append(name, facts);
  button.type = "button";
  button.setAttribute("aria-label", "Room " + room.id + ", " + room.outcome + " " + room.causes.join(", ") + ", "
    + time(room.stop - room.start) + ". Show what happened.");
  const detail = el("div", "detail");
  detail.id = "detail-" + room.index;
  button.setAttribute("aria-controls", detail.id);
  const show = (open) => {
    button.setAttribute("aria-expanded", String(open));
    detail.hidden = !open;
    if (open) { opened.add(room.index); drawDetail(room, detail); } else { opened.delete(room.index); detail.replaceChildren(); }
  };
  button.addEventListener("click", () => show(detail.hidden));
  button.addEventListener("keydown", (event) => {
    const all = [...document.querySelectorAll(".open")], at = all.indexOf(button);
    const next = event.key === "ArrowDown" ? all[at + 1] : event.key === "ArrowUp" ? all[at - 1] : null;
    if (next) { event.preventDefault(); next.focus(); }
  });
  room.ends.forEach((end, index) => lanes.append(drawLane(room, end, index)));
  lanes.addEventListener("click", (event) => {
    const mark = event.target.dataset.mark;
    if (detail.hidden) show(true); else if (mark === undefined) show(false);
    if (mark !== undefined) point(detail, mark);
  });
  lanes.addEventListener("pointermove", (event) => tip(event, room));
  lanes.addEventListener("pointerleave", () => { $("tip").hidden = true; });
  row.append(button, lanes);
  box.append(row, detail);
  show(opened.has(room.index));
  return box;
}

function point(detail, mark) {
  const row = detail.querySelector('tr[data-mark="' + mark + '"]');
  if (!row) return;
  detail.querySelectorAll("tr.hit").forEach((other) => other.classList.remove("hit"));
  row.classList.add("hit");
  const box = detail.querySelector(".scroll");
  box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

// -- hovering
const extra = (mark) => [mark.what !== "step" && mark.after, mark.cause,
  mark.parts && (mark.parts === 1 ? "1 part" : mark.parts + " parts")].filter(Boolean).join(", ");

function tip(event, room) {
  const box = $("tip"), set = event.target.dataset, track = event.target.closest(".track");
  let text = "";
  if (set.mark !== undefined) {
    const mark = room.marks[set.mark], what = mark.what === "in" ? "received" : mark.lost ? "sent, never received" : "sent";
    text = mark.name + (extra(mark) ? " (" + extra(mark) + ")" : "") + "\n" + what + " after " + time(mark.t - room.start);
    const sent = mark.what === "in" ? room.marks[mark.other] : undefined;
    if (sent) text += ", " + time(Math.max(0, mark.t - sent.t)) + " on the way";
  } else if (set.span !== undefined && track) {
    const end = room.ends[track.dataset.end], [t, state] = end.spans[set.span], next = end.spans[Number(set.span) + 1];
    text = endName(end) + " of " + end.who + "\n" + STATES[state] + " from " + time(t - room.start)
      + (next ? " to " + time(next[0] - room.start) : "");
    if (TERMINAL.includes(state) && end.cause) text += "\n" + end.cause;
  } else if (set.cut) {
    text = "Nothing more is known: the process was killed, or still runs.";
  }
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  box.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = (event.clientY + 24 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10
    : event.clientY + 16) + "px";
}

// -- one room, event by event
function drawDetail(room, detail) {
  const scroll = el("div", "scroll"), story = el("div", "story"), table = el("table"), head = el("tr"), body = el("tbody");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Events of room " + room.id);
  head.append(el("th", "", "time"));
  room.ends.forEach((end, i) => {
    const cell = el("th", i + 1 < room.ends.length ? "gap" : "", endName(end));
    const end_ = stateOf(end) + (end.cause ? ": " + end.cause : "") + (end.cut ? ", cut off" : "");
    cell.append(el("span", "sub", end.who + (end_ ? " \u2013 " + end_ : "")));
    cell.scope = "col";
    head.append(cell);
  });
  const at = room.ends.map((end) => end.spans.length ? end.spans[0][1] : -1);
  room.marks.slice(0, EVENTS).forEach((mark, i) => {
    const row = el("tr");
    row.dataset.mark = i;
    row.append(el("td", "t", time(mark.t - room.start)));
    if (mark.what === "step" && mark.after) at[mark.end] = stateIndex(mark.after);
    room.ends.forEach((end, lane) => {
      const gap = lane + 1 < room.ends.length ? " gap" : "";
      const cell = el("td", "life" + gap + (at[lane] >= 0 ? " b" + at[lane] : "") + (lane === mark.end ? " now" : ""));
      if (lane === mark.end) fill(cell, mark);
      row.append(cell);
    });
    body.append(row);
  });
  const top = el("thead");
  top.append(head);
  table.append(top, body);
  story.append(table);
  scroll.append(story);
  detail.replaceChildren(scroll);
  const more = room.leftOut + Math.max(0, room.marks.length - EVENTS);
  if (more) detail.append(el("p", "note", more + " more events of this room are not drawn."));
  detail.append(drawMermaid(room));
  requestAnimationFrame(() => arrows(room, story));
}

function fill(cell, mark) {
  if (mark.what === "step") {
    cell.append(el("span", "name", mark.name));
    if (mark.after) {
      const cls = "to" + (mark.after === "Failed" ? " f4" : mark.after === "Success" ? " f3" : "");
      cell.append(el("span", cls, " \u2192 " + mark.after + (mark.cause ? " (" + mark.cause + ")" : "")));
    }
    if (mark.effects.length) cell.append(el("span", "fx", "  " + mark.effects.join(", ")));
  } else {
    const cls = "name" + (mark.lost || mark.name === "Abort" ? " f4" : "");
    cell.append(el("span", "fx", mark.what === "out" ? "says " : "hears "), el("span", cls, mark.name));
    if (extra(mark)) cell.append(el("span", "fx", "  " + extra(mark)));
    if (mark.lost) cell.append(el("span", "fx f4", "  never arrives"));
  }
}

function arrows(room, story) {
  const old = story.querySelector("svg");
  if (old) old.remove();
  const NS = "http://www.w3.org/2000/svg", svg = document.createElementNS(NS, "svg"), frame = story.getBoundingClientRect();
  const rows = [...story.querySelectorAll("tbody tr")];
  svg.setAttribute("width", frame.width);
  svg.setAttribute("height", frame.height);
  svg.setAttribute("aria-hidden", "true");
  room.marks.forEach((mark, i) => {
    const from = rows[i], to = rows[mark.other];
    if (mark.what !== "out" || mark.other < 0 || !from || !to) return;
    const target = room.marks[mark.other].end, right = target > mark.end;
    const a = from.children[1 + mark.end].getBoundingClientRect(), b = to.children[1 + target].getBoundingClientRect();
    // In a column that has one to its right, arrows begin and end in the gap, and a thin line leads to the words.
    const gap = (cell) => cell.right - Math.max(20, cell.width * .06) - frame.left;
    const x1 = right ? gap(a) : a.left - frame.left, x2 = right ? b.left - frame.left : gap(b);
    const y1 = a.top + 13 - frame.top, y2 = b.top + 13 - frame.top;
    const words = wordsEnd((right ? from : to).children[1 + (right ? mark.end : target)]) - frame.left + 6;
    const line = document.createElementNS(NS, "path"), lead = document.createElementNS(NS, "path");
    line.setAttribute("d", `M${x1} ${y1}L${x2} ${y2}`);
    if (words < (right ? x1 : x2)) lead.setAttribute("d", right ? `M${words} ${y1}H${x1}` : `M${words} ${y2}H${x2}`);
    lead.style.stroke = "var(--line)"; lead.style.fill = "none";
    const angle = Math.atan2(y2 - y1, x2 - x1), wing = (d) => `${x2 - 7 * Math.cos(angle + d)} ${y2 - 7 * Math.sin(angle + d)}`;
    const tipOf = document.createElementNS(NS, "path");
    tipOf.setAttribute("d", `M${x2} ${y2}L${wing(.42)}L${wing(-.42)}Z`);
    const colour = mark.name === "Abort" ? "var(--s4)" : "var(--quiet)";
    line.style.stroke = colour; line.style.strokeWidth = "1.3"; line.style.fill = "none";
    tipOf.style.fill = colour;
    svg.append(lead, line, tipOf);
  });
  story.append(svg);
}

function wordsEnd(cell) {
  const range = document.createRange();
  range.selectNodeContents(cell);
  const box = range.getClientRects();
  return box.length ? Math.max(...[...box].filter((r) => r.top < box[0].top + 12).map((r) => r.right)) : 0;
}

function drawMermaid(room) {
  const box = el("details", "mermaid"), pre = el("pre", "", room.mermaid), copy = el("button", "copy", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(room.mermaid); copy.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(pre); copy.textContent = "Selected: now copy it"; }
  });
  pre.tabIndex = 0;
  box.append(el("summary", "", "Mermaid sequence diagram, as text"), copy, pre);
  return box;
}

// -- the list
function draw() {
  const found = data.rooms.filter(matches), box = $("rooms");
  box.replaceChildren(...found.slice(0, view.shown).map(drawRoom));
  const shown = Math.min(view.shown, found.length);
  const all = found.length.toLocaleString("en") + (found.length === 1 ? " room" : " rooms");
  $("count").textContent = shown < found.length ? "drawn: " + shown + " of " + all : all;
  if (shown < found.length) {
    const more = el("button", "more", "Draw " + Math.min(STEP, found.length - shown) + " more");
    more.type = "button";
    more.addEventListener("click", () => { view.shown += STEP; draw(); document.querySelectorAll(".open")[shown].focus(); });
    box.append(more);
  }
  if (!found.length) box.append(el("p", "none", "No room is like that."));
  for (const button of document.querySelectorAll(".total[data-outcome]"))
    button.setAttribute("aria-pressed", String(view.outcome === button.dataset.outcome));
  $("outcome").value = view.outcome;
  drawAxis();
}

function option(select, value, text) {
  const made = el("option", "", text);
  made.value = value;
  select.append(made);
}

function start() {
  data.rooms.forEach((room, index) => { room.index = index; });
  const total = (name, count, cls, outcome) => {
    const box = el(outcome === undefined ? "div" : "button", "total"), dot = el("span", "dot " + cls);
    if (cls) box.append(dot);
    box.append(el("b", "", count.toLocaleString("en")), el("span", "", name));
    if (outcome !== undefined) {
      box.type = "button";
      box.dataset.outcome = outcome;
      box.addEventListener("click", () => { view.outcome = view.outcome === outcome ? "" : outcome; view.shown = STEP; draw(); });
    }
    return box;
  };
  $("totals").append(total("rooms", data.total.rooms, ""), total("succeeded", data.total.success, "s3", "success"),
    total("failed", data.total.failed, "s4", "failed"), total("not over", data.total.open, "s1", "open"));
  STATES.forEach((state, i) => option($("state"), String(i), state));
  for (const [cause, count] of data.causes) option($("cause"), cause, cause + " (" + count + ")");
  for (const outcome of OUTCOMES) option($("outcome"), outcome, outcome);
  $("axis-kind").value = view.axis;
  const legend = $("legend");
  STATES.forEach((state, i) => {
    const item = el("span"), dot = el("span", "dot s" + i);
    item.append(dot, state + (TERMINAL.includes(i) ? (state === "Success" ? " \u2713" : " \u2715") : ""));
    legend.append(item);
  });
  legend.append(el("span", "", "\u25b2 message sent"), el("span", "", "\u25bc message received"));
  if (data.rooms.some((room) => room.ends.some((end) => end.cut))) {
    const item = el("span");
    item.append(el("span", "hatch"), "not known: its process was killed, or still runs");
    legend.append(item);
  }
  const listen = (id, key, event) => $(id).addEventListener(event, () => {
    view[key] = $(id).value.trim();
    view.shown = STEP;
    draw();
  });
  listen("find", "text", "input");
  listen("outcome", "outcome", "change");
  listen("state", "state", "change");
  listen("cause", "cause", "change");
  listen("axis-kind", "axis", "change");
  addEventListener("resize", () => {
    drawAxis();
    document.querySelectorAll(".room").forEach((box) => {
      const story = box.querySelector(".story"), id = box.querySelector(".detail").id.slice(7);
      if (story) arrows(data.rooms[id], story);
    });
  });
  const wanted = new URLSearchParams(location.hash.slice(1)).get("room");
  data.rooms.forEach((room) => {
    if (room.id === wanted || data.rooms.length === 1) { opened.add(room.index); if (room.id === wanted) view.text = wanted; }
  });
  $("find").value = view.text;
  draw();
}
start();
})();
"""
