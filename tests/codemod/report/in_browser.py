"""The page in a real browser: widths, schemes, keys, and the contrast of all its text; run by `make browser`.

No package that pip installs brings a browser, so that a plain run of the tests doesn't collect this file:
`test_page.py` and `test_script.py` look at the style sheet and run the script without one. One start of headless
Chromium shows the page in four frames; a script around them looks at each and leaves what it saw in the document, which
the browser prints.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest

from distify.codemod.report.page import page

from .samples import converted, refused

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FRAMES = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]

LOOK = r"""
function rgba(text) { const parts = text.match(/[\d.]+/g).map(Number); return parts.length < 4 ? [...parts, 1] : parts; }
function luminance(colour) {
  const [r, g, b] = colour.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(view, element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgba(view.getComputedStyle(at).backgroundColor);
    if (colour[3] > 0) return colour;
  }
  return [255, 255, 255, 1];
}
function lowest(view) {
  let worst = [99, ""];
  const walk = view.document.createTreeWalker(view.document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.getClientRects().length || element.closest("script,.hidden")) continue;
    const pair = [luminance(rgba(view.getComputedStyle(element).color)), luminance(ground(view, element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < worst[0]) worst = [ratio, `${element.tagName}.${element.className}: ${walk.currentNode.data}`];
  }
  return worst;
}
function press(view, key, options) {
  const target = view.document.activeElement;
  target.dispatchEvent(new view.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...options }));
  return view.document.activeElement.id;
}
function look(frame) {
  const view = frame.contentWindow, page = view.document;
  const root = page.documentElement;
  const hunks = [...page.querySelectorAll(".hunk")].map((hunk) => hunk.id);
  const shown = (selector) => [...page.querySelectorAll(selector)].filter((item) => item.getClientRects().length).length;
  const row = [...page.querySelectorAll("tr:not(.same)")].find((item) => !item.querySelector(".none") && item.querySelector("td"));
  const [one, other] = ["old", "new"].map((side) => row.querySelector(`.code.${side}`).getBoundingClientRect());
  return {
    width: view.innerWidth,
    overflow: root.scrollWidth - root.clientWidth,
    background: view.getComputedStyle(page.body).backgroundColor,
    lowest: lowest(view),
    beside: one.top === other.top && one.right <= other.left + 60,
    below: one.bottom <= other.top + 1 && one.left === other.left,
    headers: shown("thead th"),
    buttons: shown("#steps button"),
    counted: page.getElementById("where").textContent,
    hunks,
    keys: [press(view, "j"), press(view, "n"), press(view, "k"), press(view, "p"), press(view, "p"), press(view, "j", { ctrlKey: true })],
    where: page.getElementById("where").textContent,
    outline: view.getComputedStyle(page.activeElement).outlineStyle,
    skip: (page.querySelector(".skip").focus(), page.querySelector(".skip").getBoundingClientRect().top >= 0),
    clicked: (page.getElementById("next").click(), page.activeElement.id),
  };
}
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("iframe")].map((frame) => {
    try { return look(frame); } catch (error) { return { error: `${error}` }; }
  });
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the script saw in each frame."""
    assert BROWSER is not None, "no Chromium here: apt-get install chromium"
    folder = tmp_path_factory.mktemp("browser")
    text = html.escape(page([converted(), refused(), converted()], "rewrite", failures=["x.py: no"]).decode())
    frames = [
        f'<iframe srcdoc="{text}" style="width:{width}px;height:800px;border:0;color-scheme:{scheme}"></iframe>'
        for width, scheme in FRAMES
    ]
    (folder / "frames.html").write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><pre id="seen"></pre>{"".join(frames)}<script>{LOOK}</script>'
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]
    flags += [f"--user-data-dir={folder / 'profile'}", "--window-size=1400,900", "--virtual-time-budget=20000"]
    done = subprocess.run([BROWSER, *flags, (folder / "frames.html").as_uri()], capture_output=True, timeout=180)
    told = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout.decode("utf-8", "replace"), re.DOTALL)
    assert told is not None, done.stderr.decode("utf-8", "replace")[-2000:]
    return dict(zip(FRAMES, json.loads(html.unescape(told[1]))))


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: f"{frame[0]}-{frame[1]}")
def test_in_a_browser(seen, frame):
    width, scheme = frame
    saw = seen[frame]
    assert "error" not in saw, saw
    assert saw["width"] == width
    assert saw["overflow"] == 0
    assert saw["background"] == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
    assert saw["lowest"][0] >= 4.5, saw["lowest"]
    assert saw["beside"] == (width > 700)
    assert saw["below"] == (width <= 700)
    assert saw["buttons"] == 2
    hunks = saw["hunks"]
    assert len(hunks) > 2
    assert saw["counted"] == f"{len(hunks)} hunks"
    assert saw["keys"] == [hunks[0], hunks[1], hunks[0], hunks[-1], hunks[-2], hunks[-2]]
    assert saw["where"] == f"{len(hunks) - 1} of {len(hunks)}"
    assert saw["outline"] == "solid"
    assert saw["skip"]
    assert saw["clicked"] == hunks[-1]
