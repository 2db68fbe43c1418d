"""The style of the page that ``kvpoll trace show`` writes. Colours have a contrast of 3 to 1 or more against their ground,
text 4.5 to 1, in light and dark; no state is told by its colour alone."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark;
  --ground: #ffffff; --raised: #f5f6f8; --line: #d9dce1; --text: #1b1f24; --quiet: #59616c; --focus: #1d4ed8; --tick: #e8eaee;
  --s0: #808791; --s1: #b26b00; --s2: #2563eb; --s3: #15803d; --s4: #c81e1e; --on: #ffffff; --mark: #1b1f24; --tip: #1b1f24;
  --tip-text: #ffffff; --hit: #fff3c4; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #111418; --raised: #1a1e24; --line: #343a43; --text: #e8eaed; --quiet: #a5adb8; --focus: #8ab4ff; --tick: #232830;
  --s0: #8f98a5; --s1: #dfa12f; --s2: #6fa5ff; --s3: #45bd74; --s4: #ff7070; --on: #0d1014; --mark: #e8eaed; --tip: #e8eaed;
  --tip-text: #111418; --hit: #4a3f12; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto,
  "Noto Sans", sans-serif; }
.wide { max-width: 1500px; margin: 0 auto; padding: 0 24px; }
header .wide { padding-top: 22px; padding-bottom: 6px; }
h1 { font-size: 22px; margin: 0 0 2px; letter-spacing: -.01em; }
h2 { font-size: 16px; margin: 26px 0 8px; }
p { margin: 0; }
.sub, .note { color: var(--quiet); }
.note { font-size: 13px; margin-top: 4px; }
.note::before { content: "\\2022\\00a0"; }
code, pre, .id, .t, .name { font-family: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace; }
button, input, select { font: inherit; color: inherit; }
button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; border-radius: 4px; }
.totals { display: flex; flex-wrap: wrap; gap: 10px; margin: 14px 0 4px; }
.total { display: flex; align-items: baseline; gap: 8px; padding: 7px 14px; background: var(--raised);
  border: 1px solid var(--line); border-radius: 9px; }
.total b { font-size: 20px; font-variant-numeric: tabular-nums; }
.total[aria-pressed="true"] { border-color: var(--focus); box-shadow: inset 0 0 0 1px var(--focus); }
.dot { width: 10px; height: 10px; border-radius: 3px; align-self: center; flex: none; }
.bar { position: sticky; top: 0; z-index: 5; background: var(--ground); border-bottom: 1px solid var(--line); }
.bar .wide { padding-top: 8px; padding-bottom: 0; }
.filters { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; }
.filters label { display: flex; align-items: center; gap: 6px; color: var(--quiet); font-size: 13px; }
.filters input, .filters select { background: var(--raised); border: 1px solid var(--line); border-radius: 7px; padding: 4px 8px;
  max-width: 215px; color: var(--text); }
.count { margin-left: auto; color: var(--quiet); font-size: 13px; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 6px 0 4px; font-size: 12.5px; color: var(--quiet); }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.axis { position: relative; height: 20px; margin-left: 384px; margin-right: 20px; font-size: 11.5px; color: var(--quiet); }
.axis i { position: absolute; bottom: 0; height: 5px; border-left: 1px solid var(--quiet); }
.axis span { position: absolute; top: 0; transform: translateX(-50%); white-space: nowrap; font-variant-numeric: tabular-nums; }
.axis span:first-child { transform: none; }
.axis span.last { transform: translateX(-100%); }
.room { border-bottom: 1px solid var(--line); padding: 7px 0; }
.row { display: grid; grid-template-columns: 230px 1fr; gap: 14px; align-items: center; }
.open { display: grid; grid-template-columns: 14px 1fr; column-gap: 6px; width: 100%; text-align: left; background: none;
  border: 0; padding: 3px 2px; }
.open::before { content: "\\25b8"; color: var(--quiet); grid-row: 1 / span 2; }
.open[aria-expanded="true"]::before { content: "\\25be"; }
.id { font-size: 13px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.facts { grid-column: 2; display: flex; flex-wrap: wrap; gap: 0 8px; font-size: 12.5px; color: var(--quiet);
  align-items: baseline; }
.badge { font-weight: 600; }
.o-success { color: var(--s3); } .o-failed { color: var(--s4); } .o-open { color: var(--s1); }
.lane { display: grid; grid-template-columns: 128px 1fr; gap: 12px; align-items: center; min-height: 24px; }
.lane-name { font-size: 12px; color: var(--quiet); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.track { position: relative; height: 20px; margin-right: 20px; cursor: pointer;
  background: linear-gradient(var(--tick), var(--tick)) center / 100% 1px no-repeat; }
.span { position: absolute; top: 5px; height: 10px; min-width: 2px; }
.span:first-child { border-radius: 3px 0 0 3px; }
.cap { position: absolute; top: 1px; width: 18px; height: 18px; border-radius: 9px; color: var(--on);
  font: 700 11px/18px system-ui, sans-serif; text-align: center; margin-left: -2px; }
.cut { position: absolute; top: 5px; height: 10px; opacity: .75;
  background: repeating-linear-gradient(115deg, var(--quiet) 0 2px, transparent 2px 6px); }
.msg { position: absolute; width: 9px; height: 7px; margin-left: -4.5px; background: var(--mark); }
.msg.out { top: 0; clip-path: polygon(50% 0, 100% 100%, 0 100%); }
.msg.in { bottom: 0; clip-path: polygon(0 0, 100% 0, 50% 100%); }
.msg.bad { background: var(--s4); }
.hatch { width: 22px; height: 10px; background: repeating-linear-gradient(115deg, var(--quiet) 0 2px, transparent 2px 6px); }
.s0 { background: var(--s0); } .s1 { background: var(--s1); } .s2 { background: var(--s2); } .s3 { background: var(--s3); }
.s4 { background: var(--s4); }
.detail { margin: 8px 0 10px; border: 1px solid var(--line); border-radius: 10px; overflow: hidden; background: var(--ground); }
.scroll { position: relative; max-height: 72vh; overflow: auto; }
.story { position: relative; }
.story svg { position: absolute; left: 0; top: 0; pointer-events: none; overflow: visible; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; font-size: 13px; }
th { position: sticky; top: 0; z-index: 2; background: var(--raised); text-align: left; font-weight: 600; padding: 8px 10px;
  border-bottom: 1px solid var(--line); }
th .sub { display: block; font-weight: 400; font-size: 12px; }
th:first-child, td:first-child { width: 86px; }
td { padding: 2px 10px; vertical-align: top; height: 25px; overflow-wrap: anywhere; }
td.t { color: var(--quiet); font-size: 12px; text-align: right; font-variant-numeric: tabular-nums; padding-top: 4px; }
td.life { border-left: 5px solid transparent; }
td.gap, th.gap { padding-right: 84px; }
td.b0 { border-left-color: var(--s0); } td.b1 { border-left-color: var(--s1); } td.b2 { border-left-color: var(--s2); }
td.b3 { border-left-color: var(--s3); } td.b4 { border-left-color: var(--s4); }
td.now { background: linear-gradient(90deg, var(--raised), transparent); }
tr.hit td { background: var(--hit); }
.name { font-size: 12.5px; }
.to { font-weight: 600; }
.fx { color: var(--quiet); font-size: 12px; }
.f4 { color: var(--s4); } .f3 { color: var(--s3); }
details.mermaid { border-top: 1px solid var(--line); }
details.mermaid summary { padding: 8px 12px; cursor: pointer; font-size: 13px; color: var(--quiet); }
details.mermaid pre { margin: 0; padding: 4px 14px 14px; overflow: auto; font-size: 12px; max-height: 50vh; }
.copy { margin: 0 14px 4px; }
.copy, .more { background: var(--raised); border: 1px solid var(--line); border-radius: 7px; padding: 4px 12px; font-size: 13px; }
.more { display: block; margin: 16px auto; padding: 8px 20px; }
.none { padding: 40px 0; text-align: center; color: var(--quiet); }
.links { font-size: 13px; margin-bottom: 40px; max-width: 860px; }
.links td:nth-child(2) { width: auto; }
#tip { position: fixed; z-index: 10; pointer-events: none; background: var(--tip); color: var(--tip-text); padding: 6px 10px;
  border-radius: 7px; font-size: 12.5px; max-width: 340px; white-space: pre-line; box-shadow: 0 4px 16px #0004; }
[hidden] { display: none !important; }
@media (max-width: 760px) {
  .wide { padding: 0 12px; }
  .bar { position: static; }
  .row { grid-template-columns: minmax(0, 1fr); gap: 2px; }
  .axis { margin-left: 82px; }
  .lane { grid-template-columns: 74px minmax(0, 1fr); gap: 8px; }
  .filters label { flex: 1 1 140px; } .filters input, .filters select { flex: 1; min-width: 0; max-width: none; }
  .count { margin-left: 0; width: 100%; }
  th, td { padding-left: 6px; padding-right: 6px; }
  th:first-child, td:first-child { width: 58px; }
  td.gap, th.gap { padding-right: 34px; }
  table { font-size: 12px; } .name { font-size: 11.5px; }
  .links th:nth-child(3), .links td:nth-child(3) { display: none; }
}
@media print { .bar { position: static; } .filters, .more { display: none; } }
"""
