// A small MCP server for Node without any package: it offers `echo(text)`, and ends with its input.
import { createInterface } from "node:readline";

const text = { type: "string" };
const tools = [
  { name: "echo", description: "Gives the text back", inputSchema: { type: "object", properties: { text } } },
];

function result(method, params) {
  if (method === "initialize")
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "small", version: "1" },
    };
  if (method === "tools/list") return { tools };
  if (method === "tools/call") return { content: [{ type: "text", text: params.arguments.text }] };
  if (method === "ping") return {};
  return null;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const found = result(method, params);
  const body = found ? { result: found } : { error: { code: -32601, message: "Method not found" } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...body }) + "\n");
}
