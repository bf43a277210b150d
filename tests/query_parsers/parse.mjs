// Reads a JSON list of {language, text} and writes, for each, what its parser finds: errors, and the names used.
// The parsers mend what is wrong and go on: an error node is where they did.

import { readFileSync } from "node:fs";
import { parser as promql } from "@prometheus-io/lezer-promql";
import { parser as traceql } from "@grafana/lezer-traceql";

function parsed({ language, text }) {
  const found = { errors: [], selectors: [], grouping: [], attributes: [] };
  const parser = language === "traceql" ? traceql : promql;
  parser.parse(text).iterate({
    enter(node) {
      const said = text.slice(node.from, node.to);
      const parent = node.node.parent?.name;
      if (node.type.isError) found.errors.push(`at ${node.from}: ${text.slice(node.from, node.from + 20)}`);
      else if (node.name === "VectorSelector") found.selectors.push({ name: "", labels: [] });
      else if (node.name === "Identifier" && parent === "VectorSelector") found.selectors.at(-1).name = said;
      else if (node.name === "LabelName" && parent === "GroupingLabels") found.grouping.push(said);
      else if (node.name === "LabelName") found.selectors.at(-1).labels.push(said);
      else if (node.name === "AttributeField") found.attributes.push(said);
    },
  });
  return found;
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(parsed)));
