// npm `strophe.js` as an app in a browser uses it, driven by test_xmpp_clients.py: logs in over
// WebSocket, prints a line of JSON for each stanza, and sends the lines of standard input
// (address, a blank, text).
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// Where npm put the packages: imports do not look at NODE_PATH.
const require = createRequire(pathToFileURL(process.env.CLIENTS + "/"));
// Browsers have one of their own, Node has from version 20 on.
globalThis.crypto ??= require("node:crypto").webcrypto;
const { Strophe, $msg, $pres } = require("strophe.js");

const [service, domain, username, password] = process.argv.slice(2);
// What it tells of itself would stand among the lines.
Strophe.setLogLevel(Strophe.LogLevel.FATAL);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const connection = new Strophe.Connection(service, { protocol: "ws" });
const hear = (stanza) => {
  const [body] = stanza.getElementsByTagName("body");
  const [type, from] = ["type", "from"].map((name) => stanza.getAttribute(name) ?? undefined);
  say({ event: stanza.nodeName, type, from, body: body?.textContent });
  // Called again for the next one.
  return true;
};
connection.connect(`${username}@${domain}/strophe`, password, (status, text) => {
  if (status === Strophe.Status.CONNECTED) {
    connection.addHandler(hear, null, null);
    connection.send($pres());
    say({ event: "online", address: connection.jid });
  } else if ([Strophe.Status.ERROR, Strophe.Status.CONNFAIL, Strophe.Status.AUTHFAIL,
    Strophe.Status.CONNTIMEOUT].includes(status)) {
    say({ event: "error", status, text });
  } else if (status === Strophe.Status.DISCONNECTED) {
    process.exit(0);
  }
});
createInterface({ input: process.stdin }).on("line", (line) => {
  const [to, ...words] = line.split(" ");
  connection.send($msg({ to, type: "chat" }).c("body").t(words.join(" ")));
}).on("close", () => connection.disconnect());
