// The page: reads the OpenAPI document, lists its operations by what they are about, and finds among them.

import { operationView } from "/docs/operation.js";
import { element, know, prose } from "/docs/schema.js";

const METHODS = ["get", "post", "put", "delete"];

const main = document.getElementById("operations");
const contents = document.getElementById("contents");
// The token lives in this field and nowhere else: no storage, no cookie, no address.
const tokenField = document.getElementById("token");
const token = () => tokenField.value.trim();

function show(openapi) {
  know(openapi);
  document.getElementById("title").textContent = `${openapi.info.title} ${openapi.info.version}`;
  main.replaceChildren(...openapi.info.description.split("\n\n").map((text) => element("p", {}, prose(text))));
  for (const { name, description } of openapi.tags) {
    const views = operationsOf(openapi, name);
    const id = name.toLowerCase().replaceAll(" ", "-");
    main.append(element("section", { id }, element("h2", {}, name), element("p", {}, prose(description)), ...views));
    contents.append(element("a", { href: `#${id}` }, name));
  }
  main.setAttribute("aria-busy", "false");
  openNamed();
}

function operationsOf(openapi, tag) {
  return Object.entries(openapi.paths).flatMap(([path, item]) => METHODS
    .filter((method) => item[method]?.tags.includes(tag))
    .map((method) => {
      const operation = item[method];
      const view = operationView({ path, method, operation, components: openapi.components, token });
      const roles = Object.keys(operation["x-tollgate-roles"]).join(" ");
      view.dataset.words = `${method} ${path} ${operation.operationId} ${operation.summary} ${roles}`.toLowerCase();
      return view;
    }));
}

/** Opens the operation that the address names. */
function openNamed() {
  const named = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!named) return;
  if (named.tagName === "DETAILS") named.open = true;
  named.scrollIntoView();
}

document.getElementById("find").addEventListener("input", ({ target }) => {
  const words = target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of main.querySelectorAll("section")) {
    const views = [...section.querySelectorAll(".operation")];
    for (const view of views) view.hidden = !words.every((word) => view.dataset.words.includes(word));
    section.hidden = views.every((view) => view.hidden);
  }
});
window.addEventListener("hashchange", openNamed);

try {
  const reply = await fetch("/openapi.json");
  if (!reply.ok) throw new Error(`status ${reply.status}`);
  show(await reply.json());
} catch (error) {
  main.replaceChildren(element("p", { class: "bad" }, `The document can't be read: ${error.message}`));
}
