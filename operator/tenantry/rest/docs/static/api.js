// Shows the description that stands in the page. In a sandbox the page could not fetch it.
"use strict";
const description = JSON.parse(document.getElementById("description").textContent);
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
