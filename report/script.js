// Conveniences only; the page says everything without them.
(() => {
  "use strict";
  const number = (cell) => Number.parseFloat(cell.dataset.value);

  const sort = (table, column, header) => {
    const descending = header.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows];
    rows.sort((a, b) => {
      const [x, y] = [a.cells[column], b.cells[column]];
      const [p, q] = [number(x), number(y)];
      if (Number.isNaN(p) !== Number.isNaN(q)) return Number.isNaN(p) ? 1 : -1;
      const order = Number.isNaN(p) ? x.textContent.trim().localeCompare(y.textContent.trim(), "en", { numeric: true }) : p - q;
      return descending ? -order : order;
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    body.append(...rows);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      if (!header.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, column, header));
    });
  }

  // a link into a folded entry unfolds it
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const entry = target && target.closest("details");
    if (entry) { entry.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();

  // paper shows what is folded
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const entry of folded) entry.open = true;
  });
  addEventListener("afterprint", () => { for (const entry of folded) entry.open = false; });

  // the contents follow the reader
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  if ("IntersectionObserver" in window) {
    const seen = new Set();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id);
      const first = [...links.keys()].find((id) => seen.has(id));
      if (!first) return;
      for (const [id, link] of links) id === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
    });
    for (const id of links.keys()) { const part = document.getElementById(id); if (part) watcher.observe(part); }
  }
})();
