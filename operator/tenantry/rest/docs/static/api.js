// Shows the description that stands in the page. In a sandbox the page could not fetch it.
"use strict";
const description = JSON.parse(document.getElementById("description").textContent);
const api = document.getElementById("api");
// Swagger UI nests links in buttons and a second main part in the page, and its choice of servers has no name.
const repair = () => {
  for (const inner of api.querySelectorAll("main")) inner.setAttribute("role", "group");
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
