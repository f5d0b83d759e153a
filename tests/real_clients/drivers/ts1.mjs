// The TypeScript SDK, v1.
import { ACCEPTED, job, load, progressed, Report } from "./report.mjs";

const NAME = "@modelcontextprotocol/sdk";
const { Client } = await load(`${NAME}/client/index.js`);
const { StdioClientTransport } = await load(`${NAME}/client/stdio.js`);
const { StreamableHTTPClientTransport } = await load(`${NAME}/client/streamableHttp.js`);
const { ElicitRequestSchema, LoggingMessageNotificationSchema } = await load(`${NAME}/types.js`);

const report = new Report(NAME);
const { target, steps } = job;
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: process.env });
const client = new Client({ name: "real-ts1", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  report.note("asked", params);
  return { action: "accept", content: ACCEPTED };
});
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => report.note("logged", params));

await report.step("connect", async () => {
  await client.connect(transport);
});
report.seen.protocol = transport.protocolVersion ?? null;
report.seen.server = client.getServerVersion();
report.seen.capabilities = client.getServerCapabilities();
report.seen.instructions = client.getInstructions();
await report.step("list", () => client.listTools());
for (const [name, [tool, args]] of Object.entries(steps))
  await report.step(name, () => client.callTool({ name: tool, arguments: args }, undefined, progressed(report)));
await client.close();
report.tell();
