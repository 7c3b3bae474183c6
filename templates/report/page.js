"use strict";
(() => {
  const hunks = [...document.querySelectorAll(".hunk")];
  if (!hunks.length) return;
  const where = document.getElementById("where");
  let at = -1;

  function show() {
    where.textContent = at < 0 ? `${hunks.length} hunk${hunks.length === 1 ? "" : "s"}` : `${at + 1} of ${hunks.length}`;
  }

  function go(step) {
    at = at < 0 && step < 0 ? hunks.length - 1 : (at + step + hunks.length) % hunks.length;
    hunks[at].focus({ preventScroll: true });
    hunks[at].scrollIntoView({ block: hunks[at].offsetHeight < innerHeight ? "nearest" : "start" });
    show();
  }

  const steps = { j: 1, n: 1, k: -1, p: -1 };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !(event.key in steps)) return;
    event.preventDefault();
    go(steps[event.key]);
  });
  document.addEventListener("focusin", (event) => {
    const hunk = event.target.closest(".hunk");
    if (hunk) {
      at = hunks.indexOf(hunk);
      show();
    }
  });
  document.getElementById("previous").addEventListener("click", () => go(-1));
  document.getElementById("next").addEventListener("click", () => go(1));
  document.getElementById("steps").hidden = false;
  show();
})();
