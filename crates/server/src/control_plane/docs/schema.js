// What a schema says, for people: the type in a few words, and a table of an object's fields.

let schemas = {};

/** Makes an element. Text is always text: nothing of the document is ever read as HTML. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Text in which `this` is code. */
export function prose(text = "") {
  const parts = text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
  return element("span", {}, ...parts);
}

export function know(document) {
  schemas = document.components.schemas;
}

/** The schema that a reference stands for, with what is said beside the reference. */
export function resolve(schema) {
  if (!schema?.$ref) return schema ?? {};
  const { $ref, ...beside } = schema;
  return { ...schemas[$ref.split("/").pop()], ...beside };
}

/** The type in a few words. */
export function typeOf(schema) {
  const name = schema?.$ref?.split("/").pop();
  const known = resolve(schema);
  if (known.anyOf) return known.anyOf.map(typeOf).join(" or ");
  if (known.const !== undefined) return JSON.stringify(known.const);
  const types = [known.type ?? "anything"].flat();
  const words = types.map((type) => (type === "array" ? `list of ${typeOf(known.items)}` : type));
  const bounds = [];
  if (known.enum) bounds.push(known.enum.filter((word) => word !== null).join(" | "));
  if (known.format) bounds.push(known.format);
  if (known.pattern && !name) bounds.push(known.pattern);
  if (known.minimum !== undefined) bounds.push(`from ${known.minimum}`);
  if (known.maximum !== undefined) bounds.push(`to ${known.maximum}`);
  if (known.default !== undefined) bounds.push(`default ${known.default}`);
  const shown = name && types[0] === "string" ? name : words.join(" or ");
  return bounds.length ? `${shown} (${bounds.join(", ")})` : shown;
}

/** A table of the fields of an object, or of the items of a list. */
export function fieldTable(schema) {
  let known = resolve(schema);
  if (known.type === "array") known = resolve(known.items);
  if (!known.properties) return element("p", {}, typeOf(schema));
  const rows = Object.entries(known.properties).map(([name, field]) => {
    const must = known.required?.includes(name) ? element("b", { title: "required" }, " *") : null;
    const about = field.description ?? resolve(field).description;
    return element("tr", {}, element("td", {}, element("code", {}, name), must),
      element("td", {}, typeOf(field)), element("td", {}, prose(about)));
  });
  return element("table", {}, element("tbody", {}, ...rows));
}

/** A body to begin with. */
export function exampleOf(schema) {
  const known = resolve(schema);
  const example = known.examples?.at(-1) ?? (known.type === "array" ? [] : {});
  return JSON.stringify(example, null, 2);
}
