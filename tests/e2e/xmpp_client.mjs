// npm `@xmpp/client` as an app uses it, driven by test_xmpp_clients.py: logs in, prints a line of
// JSON for each stanza, and sends the lines of standard input (address, a blank, text).
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// Where npm put the packages: imports do not look at NODE_PATH.
const require = createRequire(pathToFileURL(process.env.CLIENTS + "/"));
// Browsers have them, Node has from version 22 and 20 on.
globalThis.WebSocket ??= require("ws");
globalThis.crypto ??= require("node:crypto").webcrypto;
const { client, xml } = await import(require.resolve("@xmpp/client"));

const [service, domain, username, password] = process.argv.slice(2);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
// A machine that does much else may take longer than the two seconds after which it gives up.
const xmpp = client({
  service, domain, username, password, resource: "node", timeout: 30_000,
});
let stops = false;
xmpp.on("error", (error) => {
  // It acknowledges what comes in the moment between its end of the stream and the server's.
  const isOwn = stops && error.code === "ERR_STREAM_WRITE_AFTER_END";
  if (!isOwn) say({ event: "error", text: String(error) });
});
xmpp.on("stanza", (stanza) => {
  const { type, from } = stanza.attrs;
  say({ event: stanza.name, type, from, body: stanza.getChildText("body") });
});
xmpp.on("online", async (address) => {
  await xmpp.send(xml("presence"));
  say({ event: "online", address: address.toString() });
});
xmpp.start().catch((error) => say({ event: "error", text: String(error) }));
createInterface({ input: process.stdin }).on("line", async (line) => {
  const [to, ...words] = line.split(" ");
  await xmpp.send(xml("message", { to, type: "chat" }, xml("body", {}, words.join(" "))));
}).on("close", async () => {
  stops = true;
  await xmpp.stop();
  process.exit(0);
});
