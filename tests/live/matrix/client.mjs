// A client of the TypeScript SDK that does what it is told: node client.mjs v1|v2-legacy|v2-auto JOB
//
// JOB is JSON: {"transport": {command, args, env} or {url}, "steps": [...]} as in matrix/jobs.py. Prints one
// line of JSON: for each step its result, or {"error": text}.


const [kind, job] = [process.argv[2], JSON.parse(process.argv[3])];
const v1 = kind === "v1";
const asked = [];
const noticed = [];

async function sdk() {
  if (!v1) {
    const m = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    return { Client: m.Client, Http: m.StreamableHTTPClientTransport, Stdio: StdioClientTransport };
  }
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  return { Client, Http: StreamableHTTPClientTransport, Stdio: StdioClientTransport, types: await import("@modelcontextprotocol/sdk/types.js") };
}

const { Client, Http, Stdio, types } = await sdk();
const options = {
  capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } },
  ...(v1 ? {} : { versionNegotiation: { mode: kind === "v2-auto" ? "auto" : "legacy" } }),
};
const client = new Client({ name: "matrix", version: "1" }, options);
const handle = (method, schema, answer) =>
  client.setRequestHandler(v1 ? types[schema] : method, async () => {
    asked.push(method);
    return answer;
  });
handle("sampling/createMessage", "CreateMessageRequestSchema", { role: "assistant", content: { type: "text", text: "sampled" }, model: "none" });
handle("elicitation/create", "ElicitRequestSchema", { action: "decline" });
handle("roots/list", "ListRootsRequestSchema", { roots: [{ uri: "file:///tmp", name: "tmp" }] });
client.fallbackNotificationHandler = async (notification) => void noticed.push(notification.method);

async function until(method, seconds) {
  for (let end = Date.now() + seconds * 1000; Date.now() < end && !noticed.includes(method); )
    await new Promise((done) => setTimeout(done, 20));
  return { noticed: noticed.includes(method) };
}

async function call(step) {
  const params = { name: step.name, arguments: step.arguments ?? {} };
  const seen = [];
  const abort = new AbortController();
  const given = { timeout: 60000 };
  if (step.progress) given.onprogress = (each) => seen.push(each.progress);
  if (step.cancel_after_s) {
    given.signal = abort.signal;
    setTimeout(() => abort.abort("enough"), step.cancel_after_s * 1000);
  }
  const before = asked.length;
  const result = await (v1 ? client.callTool(params, undefined, given) : client.callTool(params, given));
  return { ...result, asked: asked.slice(before), progress: seen.length > 0 };
}

const modern = () => !v1 && client.getProtocolEra?.() === "modern";
const steps = {
  tools: () => client.listTools(),
  call,
  resources: () => client.listResources(),
  templates: () => client.listResourceTemplates(),
  read: (step) => client.readResource({ uri: step.uri }),
  prompts: () => client.listPrompts(),
  prompt: (step) => client.getPrompt({ name: step.name, arguments: step.arguments ?? {} }),
  complete: (step) => client.complete({ ref: step.ref, argument: step.argument }),
  level: (step) => (modern() ? { skipped: true } : client.setLoggingLevel(step.level)),
  subscribe: (step) => (modern() ? client.listen({ resourceSubscriptions: [step.uri] }).then(() => ({})) : client.subscribeResource({ uri: step.uri })),
  noticed: (step) => until(step.method, step.within_s),
};

const print = (said) => new Promise((done) => process.stdout.write(`${JSON.stringify(said)}\n`, done));

const results = [];
try {
  const { url, command, args, env } = job.transport;
  const transport = url ? new Http(new URL(url)) : new Stdio({ command, args, env: { ...process.env, ...env }, stderr: "ignore" });
  await client.connect(transport);
  for (const step of job.steps) {
    try {
      results.push(await steps[step.do](step));
    } catch (error) {
      results.push({ error: String(error.message ?? error).slice(0, 500) });
    }
  }
  await print(results);
} catch (error) {
  await print({ error: String(error.message ?? error) });
}
await Promise.race([client.close(), new Promise((done) => setTimeout(done, 8000))]).catch(() => {});
process.exit(0);
