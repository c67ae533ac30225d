// Shows the description that stands in the page. In a sandbox the page could not fetch it.
"use strict";
const description = JSON.parse(document.getElementById("description").textContent);
const api = document.getElementById("api");
const NAMED = { ".scheme-container": "Server and sign-in", ".filter-container": "Filter" };
// Swagger UI nests links in buttons, and what stands around its main part has no names.
const repair = () => {
  for (const [selector, name] of Object.entries(NAMED)) {
    for (const part of api.querySelectorAll(selector)) {
      part.setAttribute("role", "region");
      part.setAttribute("aria-label", name);
    }
  }
  for (const link of api.querySelectorAll("button a[href]")) link.removeAttribute("href");
  document.getElementById("servers")?.setAttribute("aria-label", "Server");
};
new MutationObserver(repair).observe(api, { childList: true, subtree: true });
SwaggerUIBundle({
  spec: description,
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  syntaxHighlight: false,
  tryItOutEnabled: true,
  validatorUrl: null,
});
