"""The sequence diagram of the conformance page: what the suite did and saw at each side, drawn as SVG by the page itself.

The suite stands in the middle, for it is the only one that is seen to speak: a call goes from it to a side, the answer to a
poll comes back, and what the two engines say to each other stays theirs. So no arrow is drawn between them.
"""

__all__ = ["DIAGRAM"]

DIAGRAM = r"""
const SVG = "http://www.w3.org/2000/svg", CHAR = 6.7, LINE = 14;
const STATES = ["Failed", "Bootstrapping", "WaitingForInput", "Transferring", "Success"];
const svgEl = (tag, attributes, text) => {
  const made = document.createElementNS(SVG, tag);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  if (text !== undefined) made.textContent = text;
  return made;
};

// Words on lines of at most `room` characters; a longer word is cut, and at most `most` lines stay.
function wrap(text, room, most) {
  const lines = [];
  let line = "";
  for (let word of text.split(/\s+/).filter(Boolean)) {
    if (line && line.length + 1 + word.length > room) { lines.push(line); line = ""; }
    while (word.length > room) { lines.push(word.slice(0, room)); word = word.slice(room); }
    line += (line && word ? " " : "") + word;
  }
  if (line) lines.push(line);
  return lines.length <= most ? lines : [...lines.slice(0, most - 1), lines[most - 1].slice(0, Math.max(1, room - 1)) + "\u2026"];
}

// What a side tells when it is asked; everything else at a side is a call of the suite.
const isAnswer = (step) => /^(poll|why|released)\b/.test(step.what);
const isWrong = (step) => /^(broken|raised|crash|hang|timeout|flood)/i.test(step.what);
const stateAfter = (step) => {
  const found = /^poll\b.*?(?:->|\u2192)?\s*([0-4])$/.exec(step.what);
  return found ? Number(found[1]) : -1;
};

function lanesOf(steps) {
  const others = steps.map((step) => step.who).filter((who) => who && !["prefill", "suite", "decode"].includes(who));
  return ["prefill", "suite", "decode", ...new Set(others)];
}

function drawTrace(steps, width) {
  const lanes = lanesOf(steps), gutter = width > 480 ? 62 : 44, lane = (width - gutter) / lanes.length;
  const x = (who) => gutter + lane * (Math.max(0, lanes.indexOf(who)) + .5), under = svgEl("g", {}), over = svgEl("g", {});
  const between = Math.max(6, Math.floor((lane - 34) / CHAR));
  const own = Math.max(8, Math.floor((Math.min(width - gutter, lane * 2) - 18) / CHAR));
  const states = {}, rooms = new Set(steps.map((step) => /\broom ([^\s,:;]+)/.exec(step.detail)?.[1]).filter(Boolean));
  let y = 52, last = "";
  const text = (group, left, top, words, cls, anchor) =>
    group.append(svgEl("text", {x: left, y: top, class: cls || "", "text-anchor": anchor || "middle"}, words));
  for (const step of steps) {
    const at = timeOf(step.at);
    if (step.who && at !== last) { text(over, gutter - 6, y + 4, at, "at", "end"); last = at; }
    if (step.who === "suite" || !step.who) {
      const what = wrap(step.what, own, 4), detail = wrap(step.detail, own, 5), wrong = isWrong(step);
      const long = Math.max(...[...what, ...detail].map((words) => words.length), 3);
      const tall = (what.length + detail.length) * LINE + 8;
      const wide = Math.min(width - gutter - 4, long * CHAR + 18);
      const left = Math.min(Math.max(gutter, x("suite") - wide / 2), width - wide - 2);
      over.append(svgEl("rect", {x: left, y: y - 10, width: wide, height: tall, rx: 5, class: wrong ? "wrong" : "own"}));
      const down = (i) => y + 5 + i * LINE, middle = left + wide / 2;
      what.forEach((words, i) => text(over, middle, down(i), words, wrong ? "wrong-text" : ""));
      detail.forEach((words, i) => text(over, middle, down(what.length + i), words, wrong ? "wrong-text" : "small"));
      y += tall + 10;
      continue;
    }
    const here = x(step.who), suite = x("suite"), right = here > suite, state = stateAfter(step), answer = isAnswer(step);
    const only = /^room (\S+)$/.exec(step.detail), of = only && rooms.size > 1 ? " of " + only[1] : "";
    const what = wrap(step.what.replace("->", "\u2192") + of, between, 3), detail = wrap(only ? "" : step.detail, between, 6);
    const middle = (here + suite) / 2 + (answer ? 0 : right ? -2 : 2);
    what.forEach((words, i) => text(over, middle, y + 2 + i * LINE, words));
    y += what.length * LINE - 4;
    const from = answer ? here + (state < 0 ? 0 : right ? -11 : 11) : suite, to = answer ? suite : here;
    over.append(svgEl("path", {d: `M${from} ${y}H${to}`, class: "arrow" + (answer ? " back" : "")}));
    const way = to > from ? -1 : 1;
    over.append(svgEl("path", {d: `M${to} ${y}l${way * 8} -4v8z`, class: "tip"}));
    if (state >= 0) {
      over.append(svgEl("circle", {cx: here, cy: y, r: 9, class: "state s" + state}));
      const digit = svgEl("text", {x: here, y: y + 4, "text-anchor": "middle", class: "digit s" + state}, String(state));
      digit.append(svgEl("title", {}, STATES[state]));
      over.append(digit);
      if (rooms.size < 2) (states[step.who] = states[step.who] || []).push([y, state]);
    }
    detail.forEach((words, i) => text(over, middle, y + 13 + i * LINE, words, "small"));
    y += detail.length * LINE + 20;
  }
  const tall = y + 2, frame = {width, height: tall, viewBox: `0 0 ${width} ${tall}`, class: "drawing", role: "img"};
  const picture = svgEl("svg", frame);
  picture.setAttribute("aria-label", "Sequence diagram with " + steps.length + " steps. The same as a table is below.");
  lanes.forEach((who) => {
    under.append(svgEl("path", {d: `M${x(who)} 28V${tall - 6}`, class: "life"}));
    const seen = states[who] || [];
    seen.forEach(([top, state], i) => {
      const until = i + 1 < seen.length ? seen[i + 1][0] : tall - 6;
      under.append(svgEl("path", {d: `M${x(who)} ${top}V${until}`, class: "life during s" + state}));
    });
    const wide = Math.min(lane - 6, 96);
    over.append(svgEl("rect", {x: x(who) - wide / 2, y: 6, width: wide, height: 22, rx: 6, class: "head"}));
    text(over, x(who), 21, who.length * 7.4 > wide ? who.slice(0, Math.floor(wide / 7.4)) : who, "lane");
  });
  picture.append(under, over);
  return picture;
}

const timeOf = (ms) => ms < 0 ? "" : ms < 1000 ? ms + " ms" : (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
"""
