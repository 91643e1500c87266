"""The style of the page, for light and dark, and the program that refreshes a served page."""

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --back: #ffffff; --soft: #57606a; --line: #d0d7de;
  --raised: #f6f8fa; --link: #0550ae; --wrong: #a40e26; --note: #7a4b00; --ok: #116329; --rows: #2a6fbb;
  --seconds: #8250df; --lag: #b35900; --rows1: #dbe9f8; --rows2: #a6cbee; --rows3: #64a2dc; --rows4: #2f74b8;
  --rows5: #0f4580; --intraday: #f8c777; --merged: #a9d0f7; --validated: #a6dbad; --truncated: #d3d8de;
  --letter: #111111; --used: #2a6fbb; --waste: #d1642b; --pending: #b3261e; --recent: #d98c2b;
  --line0: #0550ae; --line1: #b35900; --line2: #116329; --line3: #8250df; --line4: #a40e26; --line5: #57606a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --back: #0d1117; --soft: #9aa5b1; --line: #30363d;
  --raised: #161b22; --link: #79b8ff; --wrong: #ff8f87; --note: #e3b341; --ok: #6fdd8b; --rows: #5aa2ea;
  --seconds: #b392f0; --lag: #f0965a;
  --rows1: #12283f; --rows2: #1b4470; --rows3: #2f6cab; --rows4: #5f9fdd; --rows5: #b3d7fb;
  --intraday: #7d5400; --merged: #1f5287; --validated: #22643a; --truncated: #454c55; --letter: #ffffff;
  --used: #5aa2ea; --waste: #f0965a; --pending: #ff8f87; --recent: #e3b341;
  --line0: #79b8ff; --line1: #f0965a; --line2: #6fdd8b; --line3: #b392f0; --line4: #ff8f87; --line5: #9aa5b1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem 1.5rem 4rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: .5rem 0; overflow-wrap: anywhere; } h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem;
  border-bottom: 1px solid var(--line); } h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; }
a { color: var(--link); } p { margin: .4rem 0; max-width: 60rem; overflow-wrap: anywhere; }
.skip { position: absolute; left: -100rem; } .skip:focus { position: static; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: .5rem 0; padding: 0; }
svg.narrow { display: none; }
figure { margin: .75rem 0 1.25rem; } figcaption { font-weight: 600; } svg { display: block; overflow: visible; }
.scroll { overflow: auto; max-height: 34rem; padding: .25rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; vertical-align: top; }
thead th { background: var(--raised); } tbody th { font-weight: normal; } .number { text-align: right;
  font-variant-numeric: tabular-nums; }
code { font: .88rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere; } code span { white-space: nowrap; }
p code span { display: inline-block; max-width: 100%; white-space: normal; }
summary { cursor: pointer; color: var(--link); }
.wrong { color: var(--wrong); font-weight: 600; } .note { color: var(--note); font-weight: 600; }
.soft { color: var(--soft); } label { color: var(--soft); }
@media (max-width: 40rem) { body { padding: .5rem .75rem 2rem; } svg.wide { display: none; }
  svg.narrow { display: block; } th, td { padding: .25rem .35rem; } nav ul { gap: .5rem 1rem; } }
"""

REFRESH = """
"use strict";
let tag = null;
async function refresh() {
  const on = document.getElementById("refresh");
  if (document.hidden || !on.checked) return;
  const state = document.getElementById("state");
  try {
    const answer = await fetch("/", { cache: "no-cache" });
    if (!answer.ok) { state.textContent = "The page cannot be made now: " + (await answer.text()); return; }
    state.textContent = "";
    if (answer.headers.get("ETag") === tag) return;
    tag = answer.headers.get("ETag");
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-part]")) {
      const made = found.querySelector('[data-part="' + old.dataset.part + '"]');
      if (!made || old.contains(document.activeElement)) continue;
      const open = [...old.querySelectorAll("details")].map((each) => each.open);
      for (const each of old.querySelectorAll("details")) each.open = false;
      if (old.innerHTML !== made.innerHTML) old.replaceChildren(...made.childNodes);
      old.querySelectorAll("details").forEach((each, place) => { each.open = Boolean(open[place]); });
    }
  } catch (error) {
    state.textContent = "The server does not answer.";
  }
}
setInterval(refresh, 15000);
"""
