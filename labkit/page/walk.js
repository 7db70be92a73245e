// Two buttons and the line in view. Without scripts the table of a thread's steps stands alone.
(() => {
  const box = document.getElementById("ID"), all = DATA, rows = [...box.querySelectorAll("tbody tr")];
  const bar = document.createElement("div"), out = document.createElement("pre");
  bar.style.cssText = "position:sticky;top:0;display:flex;gap:.5em;align-items:center";
  out.style.cssText = "white-space:pre-wrap;margin:.3em 0;min-height:5.5em;font-size:12px";
  out.setAttribute("aria-live", "polite");
  let at = 0;
  const show = (to) => {
    rows[at].style.background = "";
    at = Math.max(0, Math.min(rows.length - 1, to));
    rows[at].style.background = "rgba(232,150,30,.28)";
    out.textContent = all[at];
    frame.scrollTop = rows[at].offsetTop - frame.clientHeight / 2;
  };
  for (const [text, step] of [["\u25c0 Back", -1], ["Next \u25b6", 1]]) {
    const button = document.createElement("button");
    button.textContent = text;
    button.onclick = () => show(at + step);
    bar.append(button);
  }
  const frame = document.createElement("div");
  frame.style.cssText = "max-height:22em;overflow:auto;position:relative";
  frame.append(...box.childNodes);
  box.append(bar, out, frame);
  show(0);
})();
