// The TypeScript SDK, v2: `mode` is `legacy` (its default) or `auto`.
import { ACCEPTED, job, load, progressed, Report } from "./report.mjs";

const NAME = "@modelcontextprotocol/client";
const { Client, StreamableHTTPClientTransport } = await load(NAME);
const { StdioClientTransport } = await load(`${NAME}/stdio`);

const report = new Report(NAME);
const { target, steps, mode } = job;
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: process.env });
const client = new Client(
  { name: "real-ts2", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  report.note("asked", params);
  return { action: "accept", content: ACCEPTED };
});
client.setNotificationHandler("notifications/message", ({ params }) => report.note("logged", params));

await report.step("connect", async () => {
  await client.connect(transport);
});
report.seen.protocol = client.getNegotiatedProtocolVersion?.() ?? null;
report.seen.server = client.getServerVersion();
report.seen.capabilities = client.getServerCapabilities();
report.seen.instructions = client.getInstructions();
await report.step("list", () => client.listTools());
for (const [name, [tool, args]] of Object.entries(steps))
  await report.step(name, () => client.callTool({ name: tool, arguments: args }, progressed(report)));
await client.close();
report.tell();
