"""The script of the conformance page: filters, keys, and the panel. What a result says reaches the page as text nodes only."""

__all__ = ["SCRIPT"]

SCRIPT = r"""
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id), MORE = 40, PASS = data.verdicts.findIndex((each) => each.name === "pass");
const el = (tag, cls, text) => {
  const made = document.createElement(tag);
  if (cls) made.className = cls;
  if (text !== undefined) made.textContent = text;
  return made;
};
const button = (cls, text, act) => {
  const made = el("button", cls, text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
};
const badge = (verdict) => {
  const made = el("span", "v " + data.verdicts[verdict].name, data.verdicts[verdict].letter);
  made.title = data.verdicts[verdict].name;
  return made;
};
const plural = (n, one) => n.toLocaleString("en") + " " + one + (n === 1 ? "" : "s");
const string = (n) => data.strings[n || 0];

// -- the runs, unpacked: what `html_data` packs
const runs = data.runs.map((run) => ({...run, cells: data.requirements.map(() => []), ids: new Map()}));
runs.forEach((run) => run.rows.forEach((row, number) => {
  const [at, verdict, reason, ms, trace, prerequisite = 0, broken = [], found = -1, link = 0, own = []] = row;
  const [id, title, level, role, requirements] = data.cases[at];
  const made = {number, id, title, level, role, requirements, verdict, reason: string(reason), ms, trace,
    prerequisite: string(prerequisite), broken, found, link: string(link)};
  made.text = (id + " " + title + " " + made.reason).toLowerCase();
  run.ids.set(id, made);
  const other = new Map(own);
  for (const req of requirements) run.cells[req].push({verdict: other.has(req) ? other.get(req) : verdict, case: made});
}));
for (const run of runs) for (const cell of run.cells) cell.sort((a, b) => a.verdict - b.verdict || a.case.number - b.case.number);
const stepsOf = (trace) => {
  const flat = data.traces[trace], steps = [];
  for (let i = 0; i < flat.length; i += 4)
    steps.push({who: string(flat[i]), what: string(flat[i + 1]), detail: string(flat[i + 2]), at: flat[i + 3]});
  return steps;
};

// -- filters
const view = {verdicts: new Set(), level: "", role: "", text: ""};
const rows = [...document.querySelectorAll("tr[data-req]")];
const wanted = (entry) => (!view.verdicts.size || view.verdicts.has(entry.verdict));
// A cell shows the worst of what was asked for, and fades when nothing of it is there.
function relabel(cell, entries, total, dim) {
  const verdict = entries[0].verdict, alike = entries.filter((entry) => entry.verdict === verdict).length;
  cell.className = "cell " + data.verdicts[verdict].name + (dim ? " dim" : "");
  cell.firstChild.textContent = data.verdicts[verdict].letter;
  cell.lastChild.textContent = alike === total ? total : alike + "/" + total;
}
function filter() {
  const words = view.text.toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const req = Number(row.dataset.req), it = data.requirements[req];
    const named = !words || (it.id + " " + it.section + " " + it.text).toLowerCase().includes(words);
    const fits = (entry) => wanted(entry) && (named || entry.case.text.includes(words));
    const some = !words && !view.verdicts.size || named && !view.verdicts.size || runs.some((run) => run.cells[req].some(fits));
    row.hidden = !(some && (!view.level || it.level === view.level) && (!view.role || it.role === view.role));
    shown += !row.hidden;
    for (const cell of row.querySelectorAll(".cell")) {
      const all = runs[cell.dataset.run].cells[req], found = words || view.verdicts.size ? all.filter(fits) : all;
      relabel(cell, found.length ? found : all, all.length, !found.length);
    }
  }
  for (const body of document.querySelectorAll(".matrix tbody"))
    body.hidden = [...body.querySelectorAll("tr[data-req]")].every((row) => row.hidden);
  for (const of of document.querySelectorAll(".findings .of")) {
    const lines = [...of.querySelectorAll("li")];
    for (const line of lines) line.hidden = view.verdicts.size > 0 && !view.verdicts.has(Number(line.dataset.verdict))
      || !!words && !line.textContent.toLowerCase().includes(words);
    of.hidden = lines.every((line) => line.hidden);
  }
  const all = plural(rows.length, "requirement");
  if ($("count")) $("count").textContent = shown === rows.length ? all : shown + " of " + all;
  $("nothing").hidden = shown > 0 || !rows.length;
  $("clear").hidden = !(view.verdicts.size || view.level || view.role || view.text);
  for (const chip of document.querySelectorAll(".chip"))
    chip.setAttribute("aria-pressed", String(view.verdicts.has(Number(chip.dataset.verdict))));
  roam();
}

// -- keys: one cell of the matrix is reached by Tab, the others by arrows
let here = null;
const grid = () => rows.filter((row) => !row.hidden).map((row) => [row.querySelector(".req"), ...row.querySelectorAll("td")].map(
  (each) => each.matches(".req") ? each : each.querySelector(".cell")));
function roam(to) {
  const all = grid().flat().filter(Boolean);
  if (!all.includes(here)) here = null;
  for (const each of document.querySelectorAll(".matrix button")) each.tabIndex = -1;
  here = to || here || all[0] || null;
  if (here) here.tabIndex = 0;
}
function move(event) {
  const at = event.target.closest(".cell, .req"), lines = grid();
  let row = lines.findIndex((line) => line.includes(at)), column = row < 0 ? -1 : lines[row].indexOf(at);
  if (row < 0) return;
  const step = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], Home: [0, -99], End: [0, 99],
    PageDown: [10, 0], PageUp: [-10, 0]}[event.key];
  if (!step) return;
  event.preventDefault();
  const within = (n, most) => Math.min(most - 1, Math.max(0, n));
  const target = () => lines[row][column];
  row = within(row + step[0], lines.length);
  column = within(column + step[1], lines[row].length);
  while (!target() && (step[1] || step[0])) {  // a place without a case
    const next = step[1] ? column + Math.sign(step[1]) : row + Math.sign(step[0]);
    if (next < 0 || next >= (step[1] ? lines[row].length : lines.length)) return;
    if (step[1]) column = next; else row = next;
  }
  roam(target());
  here.focus();
  here.scrollIntoView({block: "nearest"});
}

// -- the panel
const panel = $("panel");
let opener = null;
const beside = () => innerWidth >= 1100 && runs.length <= 6;  // the panel stands beside the matrix, not over it
function fillPanel(title, marks, body) {
  const top = el("div", "top"), inside = el("div", "body");
  const name = el("h2", "", title);
  top.append(...marks, name, button("close", "Close", closePanel));
  inside.append(...body.filter(Boolean));
  panel.replaceChildren(top, inside);
  panel.classList.remove("idle");
  panel.scrollTop = 0;
  for (const each of document.querySelectorAll('.matrix [aria-expanded="true"]')) each.setAttribute("aria-expanded", "false");
}
const startBody = [...panel.children].map((each) => each.cloneNode(true));
function closePanel() {
  panel.replaceChildren(...startBody.map((each) => each.cloneNode(true)));
  panel.classList.add("idle");
  for (const each of document.querySelectorAll('.matrix [aria-expanded="true"]')) each.setAttribute("aria-expanded", "false");
  history.replaceState(null, "", location.pathname + location.search);
  if (opener && opener.isConnected) opener.focus({preventScroll: true});
  opener = null;
}
function facts(pairs) {
  const list = el("dl", "facts");
  for (const [name, value] of pairs) {
    if (!value) continue;
    const told = el("dd");
    told.append(value);
    list.append(el("dt", "", name), told);
  }
  return list;
}
const aboutReq = (it) => [el("p", "words", it.text), facts([["Level", it.level], ["Role", it.role], ["Section", it.section],
  ["Profile", it.profile], ["Needs", it.needs.join(", ")]])];
const rowOf = (req) => rows.find((row) => Number(row.dataset.req) === req);
const summary = (cell) => {
  const counts = new Map();
  for (const entry of cell) counts.set(entry.verdict, (counts.get(entry.verdict) || 0) + 1);
  return [...counts].sort((a, b) => a[0] - b[0]).map(([verdict, n]) => n + " " + data.verdicts[verdict].name).join(", ");
};

function openReq(req, from) {
  opener = from || opener;
  const it = data.requirements[req], list = el("ul", "list");
  runs.forEach((run, index) => {
    const cell = run.cells[req], item = el("li"), line = button("case", undefined, () => openCell(index, req));
    const sign = cell.length ? badge(cell[0].verdict) : el("span", "nil", "\u2013");
    line.append(sign, el("span", "", run.name), el("span", "took", summary(cell) || "no case"));
    item.append(line);
    list.append(item);
  });
  fillPanel(it.id, [], [...aboutReq(it), el("h3", "", "Seen"), list]);
  mark(rowOf(req)?.querySelector(".req"), it.id);
}
function mark(matched, hash) {
  if (matched) { matched.setAttribute("aria-expanded", "true"); roam(matched); opener = opener || matched; }
  history.replaceState(null, "", "#" + hash);
  panel.focus({preventScroll: true});
}

function openCell(index, req, number, from) {
  opener = from || opener;
  const run = runs[index], cell = run.cells[req], it = data.requirements[req], list = el("ul", "list");
  const telling = cell.length === 1 || cell.length && cell[0].verdict !== PASS;
  const first = number ?? (telling ? cell[0] : cell.find((entry) => entry.case.trace >= 0))?.case.number ?? -1;
  let shown = 0;
  const extend = (upTo) => {
    for (const entry of cell.slice(shown, upTo)) list.append(caseItem(index, req, entry, entry.case.number === first));
    shown = Math.min(upTo, cell.length);
  };
  extend(Math.max(MORE, 1 + cell.findIndex((entry) => entry.case.number === first)));
  const more = button("more", "", () => { extend(shown + 5 * MORE); label(); });
  const label = () => { more.textContent = plural(cell.length - shown, "more case"); more.hidden = shown >= cell.length; };
  label();
  fillPanel(run.name, cell.length ? [badge(cell[0].verdict)] : [], [el("p", "id quiet", it.id), ...aboutReq(it),
    el("h3", "", plural(cell.length, "case") + (cell.length > 1 ? ": " + summary(cell) : "")), list, more]);
  const matched = rowOf(req)?.querySelector('.cell[data-run="' + index + '"]');
  mark(matched, encodeURIComponent(it.id) + "@" + index + (number === undefined ? "" : "." + number));
  list.querySelectorAll(".story").forEach((story) => story.show());
  if (number !== undefined) panel.scrollTop = (list.querySelector('[aria-expanded="true"]')?.offsetTop ?? 64) - 64;
}

function caseItem(index, req, entry, open) {
  const item = el("li"), it = entry.case, story = el("div", "story");
  const line = button("case", undefined, () => { toggle(story.hidden); });
  line.append(badge(entry.verdict), el("span", "id", it.id), el("span", "took", timeOf(it.ms)));
  const elsewhere = entry.verdict === PASS && it.verdict !== PASS;  // what it broke is another requirement
  const why = elsewhere ? it.title + " (" + data.verdicts[it.verdict].name + " elsewhere)" : it.reason;
  if (why || it.title) line.append(el("span", "why", why || it.title));
  story.show = () => { if (!story.childNodes.length && !story.hidden) tell(story, index, req, entry); };
  const toggle = (wide) => {
    line.setAttribute("aria-expanded", String(wide));
    story.hidden = !wide;
    if (panel.contains(item)) story.show();
  };
  item.append(line, story);
  toggle(open);
  return item;
}

function tell(story, index, req, entry) {
  const it = entry.case, run = runs[index];
  if (it.title) story.append(el("p", "", it.title));
  if (it.reason) story.append(el("p", "reason", it.reason));
  const names = (list) => list.slice(0, 8).map((each) => data.requirements[each].id).join(", ")
    + (list.length > 8 ? " and " + (list.length - 8) + " more" : "");
  const before = run.ids.get(it.prerequisite);
  const name = (verdict) => data.verdicts[verdict].name;
  const link = before && before.requirements.length ? button("link mono", it.prerequisite + " (" + name(before.verdict) + ")",
    () => openCell(index, before.requirements[0], before.number)) : it.prerequisite;
  const here = entry.verdict !== it.verdict ? "; for this requirement: " + name(entry.verdict) : "";
  story.append(facts([["Verdict", name(it.verdict) + here], ["Found", it.found >= 0 && name(it.found)],
    ["Broken", names(it.broken)],
    ["Judges also", names(it.requirements.filter((each) => each !== req && !it.broken.includes(each)))], ["Role", it.role],
    ["Prerequisite", link], ["Link", it.link]]));
  if (it.trace < 0) {
    const why = it.trace === -2 ? "Its trace is left out to keep this page small; the result file has it."
      : it.verdict === PASS ? "Of cases that passed, one trace for each requirement is kept here; the result file has the others."
      : ["blocked", "unsupported"].includes(name(it.verdict)) ? "It was not run." : "No trace was recorded.";
    story.append(el("p", "quiet", why));
    return;
  }
  const steps = stepsOf(it.trace);
  const room = story.clientWidth - parseFloat(getComputedStyle(story).paddingLeft) - 6;
  story.append(drawTrace(steps, Math.max(280, Math.min(760, room))));
  story.append(el("p", "quiet states", STATES.map((name, n) => n + " " + name).join(" \u00b7 ")));
  const fold = el("details", "steps"), table = el("table");
  steps.forEach((step) => {
    const row = el("tr");
    row.append(el("td", "quiet", timeOf(step.at)), el("td", "", step.who), el("td", "", step.what),
      el("td", "quiet", step.detail));
    table.append(row);
  });
  fold.append(el("summary", "", "The steps as a table"), table);
  story.append(fold);
}

// -- hovering
function tip(at, x, y) {
  const box = $("tip"), row = at && at.closest("tr[data-req]");
  box.hidden = !row || !panel.classList.contains("idle") && !beside();
  if (box.hidden) return;
  const req = Number(row.dataset.req), it = data.requirements[req];
  if (at.matches(".cell")) {
    const run = runs[at.dataset.run], cell = run.cells[req], reason = cell[0].case.reason;
    const why = reason && cell[0].verdict !== PASS ? "\n" + reason.slice(0, 240) : "";
    box.textContent = run.name + ": " + it.id + "\n" + summary(cell) + why;
  } else {
    box.textContent = it.id + " \u00b7 " + it.level + " \u00b7 " + it.role + "\n" + it.text;
  }
  box.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = (y + 22 + box.offsetHeight > innerHeight ? Math.max(4, y - box.offsetHeight - 12) : y + 18) + "px";
}

function start() {
  const matrix = $("matrix");
  if (matrix) {
    matrix.addEventListener("click", (event) => {
      const at = event.target.closest(".cell, .req");
      if (!at) return;
      const req = Number(at.closest("tr").dataset.req);
      $("tip").hidden = true;
      if (at.matches(".cell")) openCell(Number(at.dataset.run), req, undefined, at); else openReq(req, at);
    });
    matrix.addEventListener("keydown", move);
    matrix.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse") tip(event.target.closest(".cell, .req"), event.clientX, event.clientY);
    });
    matrix.addEventListener("pointerleave", () => { $("tip").hidden = true; });
    matrix.addEventListener("focusin", (event) => {
      const at = event.target.closest(".cell, .req"), box = at && at.getBoundingClientRect();
      if (at) roam(at);
      if (at && at.matches(":focus-visible")) tip(at, box.left, box.bottom - 14);
    });
    matrix.addEventListener("focusout", () => { $("tip").hidden = true; });
  }
  for (const link of document.querySelectorAll(".finding .link")) link.addEventListener("click", () => {
    openCell(Number(link.dataset.run), Number(link.dataset.req), Number(link.dataset.case), link);
  });
  for (const chip of document.querySelectorAll(".chip")) chip.addEventListener("click", () => {
    const verdict = Number(chip.dataset.verdict);
    if (!view.verdicts.delete(verdict)) view.verdicts.add(verdict);
    filter();
  });
  for (const key of ["level", "role"]) $(key).addEventListener("change", () => { view[key] = $(key).value; filter(); });
  $("find").addEventListener("input", () => { view.text = $("find").value.trim(); filter(); });
  $("clear").addEventListener("click", () => {
    view.verdicts.clear();
    view.level = view.role = view.text = $("level").value = $("role").value = $("find").value = "";
    filter();
    $("find").focus();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.classList.contains("idle")) { event.preventDefault(); closePanel(); }
    if (event.key === "/" && !event.target.matches("input, select")) { event.preventDefault(); $("find").focus(); }
  });
  const measure = () =>
    document.documentElement.style.setProperty("--bar", innerWidth > 720 ? $("bar").offsetHeight + "px" : "0px");
  addEventListener("resize", () => {
    measure();
    for (const story of panel.querySelectorAll(".story:not([hidden])")) { story.replaceChildren(); story.show(); }
  });
  measure();
  filter();
  let wish = "";
  try { wish = decodeURIComponent(location.hash.slice(1)); } catch { /* not one of ours */ }
  const asked = /^(.*?)(?:@(\d+)(?:\.(\d+))?)?$/.exec(wish), req = data.requirements.findIndex((it) => it.id === asked[1]);
  if (req >= 0 && asked[2] === undefined) openReq(req);
  else if (req >= 0 && runs[asked[2]]) openCell(Number(asked[2]), req, asked[3] === undefined ? undefined : Number(asked[3]));
}
start();
"""
