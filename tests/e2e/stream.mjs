// npm `masto` as an app uses it, driven by test_streaming_clients.py: logs in with a token, listens,
// and prints a line of JSON for each event until standard input ends.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Where npm put the packages: imports do not look at NODE_PATH.
const require = createRequire(pathToFileURL(process.env.CLIENTS + "/"));
const { createStreamingAPIClient } = await import(require.resolve("masto"));
const implementation = require("ws");

const [base, token] = process.argv.slice(2);
const client = createStreamingAPIClient({
  streamingApiUrl: base.replace("http", "ws"),
  accessToken: token,
  implementation,
});
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const listen = async (subscription) => {
  for await (const event of subscription) {
    say({ stream: event.stream, event: event.event, id: event.payload?.id ?? event.payload });
  }
};
listen(client.user.subscribe());
listen(client.hashtag.subscribe({ tag: "weir" }));
say({ event: "ready" });
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
