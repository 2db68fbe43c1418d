"""The style of the conformance page. Text has a contrast of 4.5 to 1 or more on its ground, in light and dark; a verdict is
told by its letter first, then by lightness and pattern, and by hue last, so nobody depends on telling red from green."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark;
  --ground: #ffffff; --raised: #f6f7f9; --line: #d9dce2; --faint: #eceef2; --text: #1a1d22; --quiet: #575f6b;
  --focus: #1d4ed8;
  --shade: #0000001f; --tip: #1a1d22; --tip-text: #ffffff; --stripe: #ffffff26; --hatch: #00000012;
  --pass: #dcf1e9; --pass-on: #0a5239; --fail: #b3201b; --fail-on: #ffffff; --crash: #5d1049; --crash-on: #ffffff;
  --timeout: #7c3a00; --timeout-on: #ffffff; --stale: #4338a8; --stale-on: #ffffff; --flaky: #0b5c8a; --flaky-on: #ffffff;
  --non-strict: #ffe2a3; --non-strict-on: #5a3c00; --known-failing: #e6e0fa; --known-failing-on: #43309a;
  --blocked: #d3d7de; --blocked-on: #333a44; --unsupported: #eef0f3; --unsupported-on: #535b67; --bad: #b3201b;
  --good: #0a6a48;
  --st1: #6b7280; --st2: #9a5b00; --st3: #1d5fd6; --st4: #0f7a45; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #101317; --raised: #191d23; --line: #343b45; --faint: #232932; --text: #e9ebee; --quiet: #a6aeb9;
  --focus: #8ab4ff;
  --shade: #00000080; --tip: #e9ebee; --tip-text: #101317; --stripe: #00000024; --hatch: #ffffff14;
  --pass: #12352a; --pass-on: #8fdcbc; --fail: #ff7a6b; --fail-on: #2b0503; --crash: #f39ad8; --crash-on: #33062a;
  --timeout: #f0a35e; --timeout-on: #2e1500; --stale: #a79cff; --stale-on: #150d4a; --flaky: #6cc4f2; --flaky-on: #04202f;
  --non-strict: #4d3a0c; --non-strict-on: #ffd987; --known-failing: #2c2550; --known-failing-on: #cabffb;
  --blocked: #3a414c; --blocked-on: #d5dae1; --unsupported: #20252c; --unsupported-on: #a6aeb9; --bad: #ff8576;
  --good: #6fd3a8;
  --st1: #98a1ad; --st2: #dfa12f; --st3: #6fa5ff; --st4: #45bd74; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 130px; }
body { margin: 0; background: var(--ground); color: var(--text); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto,
  "Noto Sans", "DejaVu Sans", sans-serif; }
.wide { max-width: 1860px; margin: 0 auto; padding: 0 24px; }
h1 { font-size: 23px; margin: 0; letter-spacing: -.012em; }
h2 { font-size: 16px; margin: 28px 0 8px; }
h3 { font-size: 14px; margin: 0; }
p { margin: 0; }

ode, pre, .id, .mono { font-family: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
button, input, select { font: inherit; color: inherit; }
button { cursor: pointer; }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 1px; border-radius: 4px; }
[hidden] { display: none !important; }
.hide { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.quiet { color: var(--quiet); }
header.wide { padding-top: 22px; padding-bottom: 4px; }
header .lead { max-width: 96ch; margin-top: 6px; }
header .lead + .lead { margin-top: 2px; }

.runs { display: grid; grid-template-columns: repeat(auto-fit, minmax(250px, 1fr)); gap: 12px; margin: 16px 0 6px; padding: 0;
  list-style: none; }
.run { position: relative; background: var(--raised); border: 1px solid var(--line); border-radius: 10px;
  padding: 11px 14px 12px; min-width: 0; }
.run h3 { overflow-wrap: anywhere; }
.run .about { font-size: 12.5px; color: var(--quiet); overflow-wrap: anywhere; }
.tally + .about { margin-top: 7px; }
.run .says { margin: 5px 0 7px; line-height: 1.35; font-weight: 600; }
.run .says.bad { color: var(--bad); } .run .says.good { color: var(--good); }
.run svg { display: block; width: 100%; height: 10px; border-radius: 3px; }
.run .tally { display: flex; flex-wrap: wrap; gap: 4px 10px; margin-top: 8px; font-size: 12.5px; color: var(--quiet); }
.tally .v { min-width: 18px; height: 18px; font-size: 11px; border-radius: 4px; }
.run .fold summary { padding: 5px 0 0; }
.tally span { white-space: nowrap; font-variant-numeric: tabular-nums; }
.tally b { color: var(--text); }

.bar { position: sticky; top: 0; z-index: 6; background: var(--ground); border-bottom: 1px solid var(--line); }
.bar .wide { padding-top: 9px; padding-bottom: 9px; display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; }
.bar label { display: flex; align-items: center; gap: 6px; color: var(--quiet); font-size: 13px; }
.bar input, .bar select { background: var(--raised); border: 1px solid var(--line); border-radius: 7px; padding: 4px 8px;
  color: var(--text); min-width: 0; }
.bar .find { flex: 1 1 150px; max-width: 270px; } .bar input { flex: 1; width: 100%; }
.chips { display: flex; flex-wrap: wrap; gap: 5px; }
.chip { display: inline-flex; align-items: center; gap: 6px; padding: 2px 9px 2px 3px; background: var(--raised);
  font-size: 12.5px;
  border: 1px solid var(--line); border-radius: 7px; font-variant-numeric: tabular-nums; }
.chip[aria-pressed="true"] { border-color: var(--focus); box-shadow: inset 0 0 0 1px var(--focus); }
.bar select { max-width: 104px; }
.clear { background: none; border: 0; color: var(--focus); font-size: 13px; padding: 2px 4px; text-decoration: underline; }

.v { display: inline-flex; align-items: center; justify-content: center; min-width: 21px; height: 21px; padding: 0 4px;
  border-radius: 5px; font: 700 12px/1 system-ui, "DejaVu Sans", sans-serif; flex: none; }
.pass { background: var(--pass); color: var(--pass-on); fill: var(--pass); }
.fail { background: var(--fail); color: var(--fail-on); fill: var(--fail); }
.crash { background: repeating-linear-gradient(45deg, var(--stripe) 0 3px, transparent 3px 9px) var(--crash);
  color: var(--crash-on);
  fill: var(--crash); }
.timeout { background: radial-gradient(var(--stripe) 1.4px, transparent 1.6px) 0 0 / 7px 7px var(--timeout);
  color: var(--timeout-on); fill: var(--timeout); }
.stale { background: repeating-linear-gradient(90deg, var(--stripe) 0 2px, transparent 2px 7px) var(--stale);
  color: var(--stale-on);
  fill: var(--stale); }
.flaky { background: repeating-linear-gradient(0deg, var(--stripe) 0 2px, transparent 2px 7px) var(--flaky);
  color: var(--flaky-on);
  fill: var(--flaky); }
.non-strict { background: var(--non-strict); color: var(--non-strict-on); fill: var(--non-strict); }
.known-failing { background: var(--known-failing); color: var(--known-failing-on); fill: var(--known-failing);
  box-shadow: inset 0 0 0 1.5px var(--known-failing-on); }
.blocked { background: repeating-linear-gradient(135deg, var(--hatch) 0 2px, transparent 2px 7px) var(--blocked);
  color: var(--blocked-on); fill: var(--blocked); }
.unsupported { background: var(--unsupported); color: var(--unsupported-on); fill: var(--unsupported);
  box-shadow: inset 0 0 0 1px var(--line); }

.split { display: grid; grid-template-columns: minmax(0, 1fr) minmax(400px, 37%); gap: 26px; align-items: start; }
table.matrix { border-collapse: separate; border-spacing: 0; width: 100%; table-layout: fixed; }
.matrix col.cells { width: 104px; }
.n2 col.cells, .n3 col.cells { width: 88px; }
.n4 col.cells, .n5 col.cells, .n6 col.cells { width: 76px; } .many col.cells { width: 50px; }
.many thead th { font-size: 10.5px; } .many .cell small { font-size: 9px; }
.matrix thead th { position: sticky; top: var(--bar, 52px); z-index: 4; background: var(--ground);
  border-bottom: 1px solid var(--line);
  font-size: 11.5px; font-weight: 600; padding: 8px 2px; hyphens: auto; text-align: center; vertical-align: bottom;
  line-height: 1.25;
  overflow-wrap: anywhere; }
.matrix thead th:first-child { text-align: left; color: var(--quiet); }
.matrix thead small { display: block; font-weight: 400; color: var(--quiet); }
.matrix tbody th { text-align: left; font-weight: 400; padding: 0; border-bottom: 1px solid var(--faint); }
.matrix tbody td { padding: 2px 3px; border-bottom: 1px solid var(--faint); text-align: center; }
.matrix .section th { padding: 16px 0 5px; font-weight: 650; border-bottom: 1px solid var(--line); }
.matrix .section:first-child th { padding-top: 9px; }
.req { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 1px 10px; width: 100%; text-align: left;
  background: none;
  border: 0; padding: 5px 8px 5px 2px; align-items: baseline; }
.req .id { font-size: 12.5px; font-weight: 600; white-space: nowrap; }
.req .tags { font-size: 11.5px; color: var(--quiet); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.req .text { grid-column: 1 / -1; font-size: 13px; line-height: 1.35; color: var(--quiet); overflow: hidden;
  display: -webkit-box;
  -webkit-box-orient: vertical; -webkit-line-clamp: 2; }
.level { font-weight: 700; letter-spacing: .03em; font-size: 10.5px; padding: 0 5px; border-radius: 4px;
  border: 1px solid var(--line);
  color: var(--text); margin-right: 6px; }
.level.MUST { background: var(--text); color: var(--ground); border-color: var(--text); }
.level.MAY { border-style: dashed; }
tr:hover .req, .req:focus-visible { background: var(--raised); }
.cell { display: flex; flex-direction: column; align-items: center; justify-content: center; gap: 2px; width: 100%;
  height: 40px;
  border: 0; border-radius: 6px; padding: 0; }
.cell b { font-size: 14px; line-height: 1; }
.cell small { font-size: 10.5px; line-height: 1; font-variant-numeric: tabular-nums; white-space: nowrap; }
.cell:hover { outline: 2px solid var(--text); outline-offset: 1px; }
.cell[aria-expanded="true"] { outline: 3px solid var(--text); outline-offset: -3px;
  box-shadow: inset 0 0 0 5px var(--ground); }
.cell.dim { opacity: .28; }
.nil { color: var(--quiet); font-size: 12px; }
.none { padding: 34px 0; text-align: center; color: var(--quiet); }

.panel { position: sticky; top: calc(var(--bar, 52px) + 12px); max-height: calc(100vh - var(--bar, 52px) - 24px);
  overflow: auto;
  border: 1px solid var(--line); border-radius: 12px; margin-top: 12px; background: var(--ground); }
.panel .top { position: sticky; top: 0; z-index: 2; background: var(--raised); border-bottom: 1px solid var(--line);
  padding: 11px 16px;
  display: flex; gap: 10px; align-items: baseline; }
.panel .top h2 { margin: 0; font-size: 15px; overflow-wrap: anywhere; }
.panel .close { margin-left: auto; background: none; border: 1px solid var(--line); border-radius: 7px; padding: 1px 9px;
  font-size: 13px; }
.panel .body { padding: 12px 16px 16px; }
.panel .words { font-size: 15px; line-height: 1.5; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 1px 14px; margin: 9px 0 0;
  font-size: 12.5px; }
.facts dt { color: var(--quiet); } .facts dd { margin: 0; overflow-wrap: anywhere; }
.panel h3 { margin: 18px 0 6px; font-size: 13.5px; }
.list { list-style: none; margin: 0; padding: 0; }
.list > li { border-top: 1px solid var(--faint); }
.list > li:last-child { border-bottom: 1px solid var(--faint); }
.case { display: grid; grid-template-columns: max-content minmax(0, 1fr) max-content; gap: 0 9px; width: 100%;
  text-align: left;
  background: none; border: 0; padding: 5px 4px; align-items: center; }
.case:hover { background: var(--raised); }
.case .id { font-size: 12.5px; overflow-wrap: anywhere; }
.case .why { grid-column: 2 / -1; font-size: 12.5px; color: var(--quiet); overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.case .took { font-size: 12px; color: var(--quiet); font-variant-numeric: tabular-nums; }
.case[aria-expanded="true"] { background: var(--raised); }
.case[aria-expanded="true"] .why { display: none; }
.story { padding: 2px 4px 14px 34px; }
.reason { white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0 6px; }
.story .facts { margin: 4px 0 8px; }
.link { background: none; border: 0; padding: 0; color: var(--focus); text-decoration: underline; text-align: left;
  overflow-wrap: anywhere; }
.drawing { display: block; max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 8px;
  background: var(--ground);
  margin-top: 6px; }
.drawing text { font: 11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--text); }
.drawing .at { fill: var(--quiet); font-size: 9.5px; } .drawing .small { fill: var(--quiet); }
.drawing .lane { font-weight: 700; font-size: 12px; }
.drawing .life { stroke: var(--line); stroke-width: 1.5; } .drawing .head { fill: var(--raised); stroke: var(--line); }
.drawing .arrow { stroke: var(--text); stroke-width: 1.3; fill: none; } .drawing .tip { fill: var(--text); }
.drawing .own { fill: var(--raised); stroke: var(--line); } .drawing .wrong { fill: var(--fail); stroke: none; }
.drawing .back { stroke-dasharray: 4 3; } .drawing .during { stroke-width: 4; }
.drawing .s0 { fill: var(--fail); stroke: var(--fail); } .drawing .s1 { fill: var(--st1); stroke: var(--st1); }
.drawing .s2 { fill: var(--st2); stroke: var(--st2); } .drawing .s3 { fill: var(--st3); stroke: var(--st3); }
.drawing .s4 { fill: var(--st4); stroke: var(--st4); } .drawing text.digit { fill: var(--ground); stroke: none;
  font-weight: 700; }
.states { font-size: 11.5px; margin-top: 4px; }
.drawing .wrong-text { fill: var(--fail-on); font-weight: 700; } .drawing .dot { fill: var(--text); }
details.steps summary, .fold summary { cursor: pointer; color: var(--quiet); font-size: 12.5px; padding: 6px 0; }
.steps table { border-collapse: collapse; font-size: 12px; width: 100%; }
.steps td { padding: 2px 10px 2px 0; vertical-align: top; overflow-wrap: anywhere; }
.more { background: var(--raised); border: 1px solid var(--line); border-radius: 7px; padding: 4px 12px; font-size: 13px;
  margin-top: 8px; }
.meanings { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 7px 10px; margin: 4px 0 0;
  align-items: start; }
.meanings dt { margin: 0; } .meanings dd { margin: 0; font-size: 13px; }

.legend { max-width: 760px; margin-bottom: 48px; }
.section .quiet { font-weight: 400; margin-left: 6px; }
.findings { margin: 44px 0 40px; }
.findings h3 { margin: 18px 0 4px; }
.finding { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0 10px; padding: 7px 2px; }
.finding .reason { margin: 0; max-width: 120ch; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 4;
  overflow: hidden; }
.finding .where { grid-column: 2; font-size: 12.5px; color: var(--quiet); overflow-wrap: anywhere; }
#tip { position: fixed; z-index: 20; pointer-events: none; background: var(--tip); color: var(--tip-text); padding: 7px 11px;
  border-radius: 8px; font-size: 12.5px; max-width: 420px; white-space: pre-line; box-shadow: 0 4px 18px var(--shade);
  overflow-wrap: anywhere; }

.split.many { display: block; }
.split.many .panel { position: fixed; z-index: 15; right: 12px; top: calc(var(--bar, 52px) + 12px);
  width: min(580px, calc(100% - 24px));
  margin: 0; box-shadow: 0 8px 40px var(--shade); }
.split.many .panel.idle { display: none; }
@media (max-width: 1099px) {
  .split, .split.many { display: block; }
  .panel, .split.many .panel { position: fixed; z-index: 15; inset: auto 0 0 0; top: auto; width: auto; max-height: 86vh;
    margin: 0;
    border-radius: 16px 16px 0 0;
    box-shadow: 0 -8px 40px var(--shade); overscroll-behavior: contain; }
  .panel.idle { display: none; }
}
@media (max-width: 720px) {
  .wide { padding: 0 12px; }
  header.wide { padding-top: 14px; }
  h1 { font-size: 20px; }
  .runs { grid-template-columns: none; grid-auto-flow: column; grid-auto-columns: minmax(86%, 1fr); gap: 8px;
    overflow-x: auto;
    scroll-snap-type: x mandatory; padding-bottom: 6px; }
  .run { scroll-snap-align: start; }
  .bar { position: static; }
  .bar label, .bar .find { flex: 1 1 130px; max-width: none; } .bar label input, .bar label select { flex: 1; width: auto;
    max-width: none; }
  .matrix, .matrix tbody, .matrix thead { display: block; }
  .matrix colgroup { display: none; }
  .matrix thead { position: sticky; top: 0; z-index: 4; background: var(--ground); border-bottom: 1px solid var(--line); }
  .matrix tr { display: grid; grid-template-columns: repeat(var(--n, 1), minmax(0, 1fr)); gap: 0 3px; }
  .matrix thead th { position: static; border: 0; padding: 5px 1px; font-size: 10.5px; }
  .matrix thead th:first-child { grid-column: 1 / -1; padding-top: 8px; }
  .matrix thead th:first-child small { display: inline; margin-left: 8px; }
  .many thead th:not(:first-child) { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 110px;
    text-align: left; }
  .matrix thead small { font-size: 10px; } .n5 thead th, .n6 thead th, .many thead th { font-size: 9.5px;
    letter-spacing: -.02em; }
  .matrix tbody th { grid-column: 1 / -1; border: 0; }
  .matrix tbody td { padding: 0 0 9px; border: 0; }
  .matrix tbody tr { border-bottom: 1px solid var(--faint); }
  .req .text { -webkit-line-clamp: 3; }
  .many .cell small { display: none; }
  .n1 .cell { flex-direction: row; gap: 8px; height: 30px; }
  .panel .body, .panel .top { padding-left: 12px; padding-right: 12px; }
  .story { padding-left: 0; }
}
@media print {
  :root { color-scheme: light; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .bar, .panel, .more, .fold summary { display: none; }
  .split { display: block; }
  .wide { max-width: none; padding: 0; }
  .matrix thead th { position: static; }
  .matrix tr, .finding, .run { break-inside: avoid; }
  .req .text, .finding .reason { white-space: normal; display: block; overflow: visible; }
  .cell { height: 30px; }
}
"""
