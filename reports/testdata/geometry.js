// What is wrong with the looks of the page as it is shown now, so many CSS pixels wide: a list of sentences. The width is given, since
// a telephone makes its window as wide as a page that overflows.
(width) => {
  const faults = [], most = 12;
  const say = s => { if (faults.length < most) faults.push(s); };
  const name = e => "<" + e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + "> " + JSON.stringify(e.textContent.trim().slice(0, 50));
  const shown = e => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";

  // The document does not overflow, and nothing of it leaves its box unless that scrolls.
  const doc = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches; // which changes no geometry
  if (doc.scrollWidth > width) say(`the document is ${doc.scrollWidth} px wide`);
  for (const e of document.querySelectorAll("main *, header *, nav *, footer *")) {
    if (e.closest("svg, .box") || getComputedStyle(e.closest("thead") || e).clipPath !== "none" || !shown(e)) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && r.right > width + 1) say(`${name(e)} ends at ${r.right.toFixed()} px`);
  }
  const report = document.querySelector("#slos, #log"); // else a page of the server
  for (const id of !report ? [] : ["slos", "valid", "timeline", "takeovers", "correctness", "debt", "done", "cleanup", "reproduce", "nothing", "log"]) {
    const h = document.querySelector(`#${id} > h2`);
    if (!h || !shown(h)) say(`no heading of section ${id}`);
  }

  // Labels of a picture lie within it and not on one another.
  for (const svg of dark || width > 390 && width < 1280 ? [] : document.querySelectorAll("svg[role=img]")) {
    if (!shown(svg)) { say(`${svg.id} is not shown`); continue; }
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter(e => e.textContent.trim()).map(e => ({ e, r: e.getBoundingClientRect() }));
    for (const { e, r } of texts) {
      if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.top < frame.top - 1 || r.bottom > frame.bottom + 1) say(`${svg.id}: ${name(e)} is cut off`);
    }
    for (let i = 0; i < texts.length; i++) {
      for (let k = i + 1; k < texts.length; k++) {
        const a = texts[i].r, b = texts[k].r;
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left), y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 1.5 && y > 3.5) say(`${svg.id}: ${name(texts[i].e)} lies on ${name(texts[k].e)} (${x.toFixed(1)} x ${y.toFixed(1)} px)`);
      }
    }
  }

  // Every text can be read against what lies behind it: WCAG AA. Colours do not depend on the width.
  if (width < 1280) return faults;
  const rgb = c => { const m = c.match(/[\d.]+/g); return m ? m.map(Number) : [0, 0, 0, 0]; };
  const light = c => { const f = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const solid = c => c.length < 4 || c[3] === 1;
  const behind = e => {
    for (let at = e; at; at = at.parentElement) {
      const c = rgb(getComputedStyle(at).backgroundColor);
      if (solid(c)) return c;
    }
    return [255, 255, 255];
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || seen.has(e) || e.closest("script, svg") || !shown(e)) continue;
    seen.add(e);
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    const large = size >= 24 || size >= 18.66 && parseInt(style.fontWeight) >= 700;
    const r = ratio(rgb(style.color), behind(e));
    if (r < (large ? 3 : 4.5)) say(`${name(e)} has a contrast of ${r.toFixed(2)}`);
  }
  if (seen.size < (report ? 50 : 5)) say(`only ${seen.size} texts were looked at`);

  // The same for labels of pictures, against the last shape that is filled where they stand, else the page.
  for (const svg of document.querySelectorAll("svg[role=img]")) {
    const shapes = [...svg.querySelectorAll("rect, path")].map(e => ({ e, style: getComputedStyle(e) }))
      .filter(x => /^rgb\(/.test(x.style.fill) && x.style.fillOpacity === "1" && x.style.opacity === "1")
      .map(x => ({ e: x.e, fill: rgb(x.style.fill), box: x.e.getBBox() }));
    const page = behind(svg.parentElement);
    for (const e of svg.querySelectorAll("text")) {
      const b = e.getBBox(), at = svg.createSVGPoint();
      if (!b.width || e.hasAttribute("transform")) continue;
      at.x = b.x + b.width / 2; at.y = b.y + b.height / 2;
      let back = page;
      for (const s of shapes) {
        if (s.box.x <= at.x && at.x <= s.box.x + s.box.width && s.box.y <= at.y && at.y <= s.box.y + s.box.height
          && (s.e.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING) && s.e.isPointInFill(at)) back = s.fill;
      }
      const c = ratio(rgb(getComputedStyle(e).fill), back);
      if (c < 4.5) say(`${svg.id}: ${name(e)} has a contrast of ${c.toFixed(2)}`);
    }
  }
  return faults;
}
