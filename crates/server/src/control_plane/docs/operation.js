// One operation: what it says, a form to try it, and what came back.

import { element, exampleOf, fieldTable, prose, typeOf } from "/docs/schema.js";

/** An operation as a part of the page. `token` answers the token of the moment. */
export function operationView({ path, method, operation, components, token }) {
  const follow = (part) => (part.$ref ? components[part.$ref.split("/")[2]][part.$ref.split("/")[3]] : part);
  const parameters = operation.parameters.map(follow);
  const body = operation.requestBody?.content["application/json"].schema;
  const details = element("details", { class: "operation", id: operation.operationId });
  details.append(element("summary", {}, element("span", { class: `method ${method}` }, method.toUpperCase()),
    element("code", {}, path), element("span", { class: "about" }, operation.summary)));
  // A closed operation costs nothing until somebody opens it.
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) {
      details.append(...parts({ path, method, operation, parameters, body, follow, token }));
    }
  });
  return details;
}

function parts({ path, method, operation, parameters, body, follow, token }) {
  const open = operation.security?.length === 0;
  const roles = Object.entries(operation["x-tollgate-roles"]).map(([role, where]) =>
    element("li", {}, where === "everywhere" ? role : `${role}, for its own org`));
  const all = [element("p", {}, prose(operation.description ?? ""))];
  all.push(element("ul", { class: "roles", "aria-label": "Who may call it" },
    ...(open ? [element("li", {}, "anyone, without a token")] : roles)));
  const form = tryForm({ path, method, parameters, body, open, token });
  all.push(form);
  if (body) all.push(element("h4", {}, "Body"), fieldTable(body));
  all.push(element("h4", {}, "Answers"), answers(operation.responses, follow));
  return all;
}

function answers(responses, follow) {
  const rows = Object.entries(responses).map(([status, reply]) => {
    const known = follow(reply);
    const schema = Object.values(known.content ?? {})[0]?.schema;
    return element("tr", {}, element("td", {}, element("code", {}, status)),
      element("td", {}, schema ? typeOf(schema) : ""), element("td", {}, prose(known.description)));
  });
  return element("table", {}, element("tbody", {}, ...rows));
}

function tryForm({ path, method, parameters, body, open, token }) {
  const fields = parameters.map((parameter) => {
    const input = element("input", { name: parameter.name, autocomplete: "off" });
    if (parameter.in === "path") input.value = parameter.example ?? "";
    const row = element("tr", {}, element("td", {}, element("label", {}, element("code", {}, parameter.name), " ", input)),
      element("td", {}, `${parameter.in}, ${typeOf(parameter.schema)}`), element("td", {}, prose(parameter.description)));
    return { parameter, input, row };
  });
  const text = body ? element("textarea", { rows: "8", spellcheck: "false", "aria-label": "Body" }) : null;
  if (text) text.value = exampleOf(body);
  const said = element("div", { class: "said", "aria-live": "polite" });
  const form = element("form", {}, element("table", {}, element("tbody", {}, ...fields.map((field) => field.row))),
    text, element("button", { type: "submit" }, "Send"), said);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const request = ask({ path, method, fields, text, token: open ? "" : token() });
    said.replaceChildren(element("pre", { class: "curl" }, curl(request)), await answer(request));
  });
  return form;
}

/** The request that a form describes. */
function ask({ path, method, fields, text, token }) {
  const headers = {};
  const query = new URLSearchParams();
  let target = path;
  for (const { parameter, input } of fields) {
    if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value === "") continue;
    else if (parameter.in === "query") query.set(parameter.name, input.value);
    else headers[parameter.name] = input.value;
  }
  if (token) headers.Authorization = `Bearer ${token}`;
  if (text) headers["Content-Type"] = "application/json";
  const asked = query.toString();
  return { target: asked ? `${target}?${asked}` : target, method: method.toUpperCase(), headers, body: text?.value };
}

async function answer({ target, method, headers, body }) {
  try {
    const reply = await fetch(target, { method, headers, body, cache: "no-store", credentials: "omit", redirect: "error" });
    const text = await reply.text();
    const etag = reply.headers.get("etag");
    const head = `${reply.status} ${reply.statusText}${etag ? `  ETag: ${etag}` : ""}`;
    return element("pre", { class: reply.ok ? "good" : "bad" }, `${head}\n\n${pretty(text)}`);
  } catch (error) {
    return element("pre", { class: "bad" }, `The request could not be sent: ${error.message}`);
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The same for a shell, with the token left to a variable. */
function curl({ target, method, headers, body }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [`curl -X ${method} ${quoted(location.origin + target)}`];
  for (const [name, value] of Object.entries(headers)) {
    lines.push(name === "Authorization" ? `-H "Authorization: Bearer $TOKEN"` : `-H ${quoted(`${name}: ${value}`)}`);
  }
  if (body !== undefined) lines.push(`-d ${quoted(body)}`);
  return lines.join(" \\\n  ");
}
