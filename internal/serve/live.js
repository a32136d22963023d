"use strict";
(() => {
  const body = document.querySelector("#story tbody");
  if (!body) return;
  const source = new EventSource(location.pathname + "/events");
  let fresh = true; // the server tells from the beginning: what the page came with goes
  source.addEventListener("open", () => { fresh = true; });
  source.addEventListener("line", (event) => {
    if (fresh) { body.replaceChildren(); fresh = false; }
    const row = document.createElement("tr");
    event.data.split("\t").forEach((text, i) => {
      const cell = document.createElement("td");
      if (i === 0) cell.className = "num";
      cell.textContent = text;
      row.append(cell);
    });
    body.prepend(row);
    while (body.rows.length > 200) body.lastElementChild.remove();
  });
  source.addEventListener("end", (event) => {
    source.close();
    setTimeout(() => { location.href = event.data; }, 3000); // until its report can be made
  });
})();
