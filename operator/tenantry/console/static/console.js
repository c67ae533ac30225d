// Liveness only: every page reads and works without this file.
(() => {
  "use strict";
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("htmx", { createHTML: (text) => text, createScript: () => "" })
    : { createHTML: (text) => text, createScript: () => "" };
  const refused = () => { throw new Error("pages carry no scripts"); };
  htmx.registerExtension("console", { init: (api) => api.initSecurity(policy, refused, refused) });

  const POLL_MS = 5000;
  const TIMES_MS = 15000;
  const DONE_MS = 2000;
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const page = document.getElementById("page");

  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  const poll = () => {
    if (document.hidden) return;
    const seen = document.getElementById("seen")?.dataset.seen ?? "";
    const address = page.getAttribute("hx-sse:connect").replace(/&seen=.*$/, "");
    htmx.ajax("GET", `${address}&once=1&seen=${seen}`, { target: "#page", swap: "innerMorph" });
  };

  let asking = 0;
  const ask = () => { asking ||= setInterval(poll, POLL_MS); };

  // The server ends a stream for one of two reasons: the session is over, or it has as many streams as it may.
  page.addEventListener("close", (event) => {
    if (event.target !== page || !event.detail) return;
    if (event.detail.data === "poll") ask();
    else location.reload();
  });

  // A stream that breaks is opened again. One whose first request fails, because the server is just starting, is not.
  page.addEventListener("htmx:error", () => ask());

  const ago = (time) => {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
    const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? UNITS[3];
    return `${Math.floor(seconds / size)} ${unit}`;
  };
  setInterval(() => {
    if (!document.hidden) for (const time of document.querySelectorAll("time")) time.textContent = ago(time);
  }, TIMES_MS);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    const search = document.getElementById("q");
    event.preventDefault();
    if (search) { search.focus(); search.select(); } else location.assign("/console/search");
  });

  const offer = () => { for (const button of document.querySelectorAll("button[data-copy][hidden]")) button.hidden = false; };
  offer();
  new MutationObserver(offer).observe(page, { childList: true, subtree: true });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    const before = button.textContent;
    button.textContent = button.dataset.done;
    setTimeout(() => { button.textContent = before; }, DONE_MS);
  });
})();
