// usage: node clients.js CLIENT BASE TOKEN
// Logs in by a token, subscribes to the public timeline, posts, waits until the post is there, and
// prints what it found as JSON. Each client is used as its documentation says.
"use strict";
const WebSocket = require("ws");

const [client, base, token] = process.argv.slice(2);
const socket = base.replace(/^http/, "ws") + "/websocket";
const text = `by ${client}`;
const patience = setTimeout(() => fail("nothing came"), 30000);

function done(found) {
  clearTimeout(patience);
  process.stdout.write(JSON.stringify(found));
  process.exit(0);
}

function fail(why) {
  console.error(client, why);
  process.exit(1);
}

async function simpleddp() {
  const SimpleDDP = require("simpleddp");
  const server = new SimpleDDP({ endpoint: socket, SocketConstructor: WebSocket });
  await server.connect();
  const login = await server.call("login", { resume: token });
  await server.subscribe("timelines.public").ready();
  const before = server.collection("statuses").fetch().length;
  const { id } = await server.call("statuses.post", { text });
  const post = server.collection("statuses").filter((one) => one.id === id);
  for (;;) {
    const found = post.fetch()[0];
    if (found) return done({ login: login.id, before, content: found.content });
    await new Promise((next) => setTimeout(next, 10));
  }
}

function ddp() {
  const DDPClient = require("ddp");
  const server = new DDPClient({ url: socket, autoReconnect: false });
  server.connect((error) => {
    if (error) fail(error);
    server.call("login", [{ resume: token }], (error, login) => {
      if (error) fail(JSON.stringify(error));
      server.subscribe("timelines.public", [], () => {
        const before = Object.keys(server.collections.statuses || {}).length;
        let id = null;
        const posted = (error, result) => (error ? fail(error) : (id = result.id));
        // What the method changed is there when `updated` has come.
        server.call("statuses.post", [{ text }], posted, () => {
          const look = () => {
            const found = id && server.collections.statuses[id];
            if (found) done({ login: login.id, before, content: found.content });
            else setTimeout(look, 10);
          };
          look();
        });
      });
    });
  });
}

function by_messages(server, call, subscribe) {
  const documents = {};
  let id = null;
  const found = {};
  const look = () => {
    if (id && documents[id]) done({ ...found, content: documents[id].content });
  };
  server.on("added", (message) => {
    if (message.collection === "statuses") documents[message.id] = message.fields;
    look();
  });
  const run = async () => {
    found.login = (await call("login", { resume: token })).id;
    await subscribe("timelines.public");
    found.before = Object.keys(documents).length;
    id = (await call("statuses.post", { text })).id;
    look();
  };
  server.on("connected", () => run().catch((error) => fail(JSON.stringify(error))));
}

function ddpjs() {
  const { default: DDP } = require("ddp.js");
  const server = new DDP({ endpoint: socket, SocketConstructor: WebSocket });
  const results = {};
  const ready = {};
  server.on("result", ({ id, error, result }) => results[id](error, result));
  server.on("ready", ({ subs }) => subs.forEach((id) => ready[id]()));
  const call = (name, params) =>
    new Promise((fine, wrong) => {
      const id = server.method(name, [params]);
      results[id] = (error, result) => (error ? wrong(error) : fine(result));
    });
  const subscribe = (name) => new Promise((fine) => (ready[server.sub(name, [])] = fine));
  by_messages(server, call, subscribe);
}

function asteroid() {
  const { createClass } = require("asteroid");
  const Asteroid = createClass();
  const server = new Asteroid({ endpoint: socket, SocketConstructor: WebSocket });
  const subscribe = (name) =>
    new Promise((fine) => server.subscribe(name).on("ready", fine));
  by_messages(server.ddp, (name, params) => server.call(name, params), subscribe);
}

function sockjs(transport) {
  const SockJS = require("sockjs-client");
  const server = new SockJS(`${base}/sockjs`, null, { transports: [transport] });
  const say = (message) => server.send(JSON.stringify(message));
  const found = { before: 0 };
  const contents = {};
  let id = null;
  server.onopen = () => {
    say({ msg: "connect", version: "1", support: ["1"] });
    say({ msg: "method", id: "login", method: "login", params: [{ resume: token }] });
    say({ msg: "sub", id: "s", name: "timelines.public", params: [] });
  };
  server.onclose = (event) => fail(`closed: ${event.code} ${event.reason}`);
  server.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.error) fail(data);
    if (message.msg === "ping") say({ msg: "pong" });
    if (message.msg === "added" && message.collection === "statuses") {
      contents[message.id] = message.fields.content;
    }
    if (message.msg === "ready") {
      found.before = Object.keys(contents).length;
      say({ msg: "method", id: "post", method: "statuses.post", params: [{ text }] });
    }
    if (message.msg === "result" && message.id === "login") found.login = message.result.id;
    if (message.msg === "result" && message.id === "post") id = message.result.id;
    if (id && contents[id]) done({ ...found, transport: server.transport, content: contents[id] });
  };
}

const clients = {
  simpleddp, ddp, "ddp.js": ddpjs, asteroid,
  "sockjs websocket": () => sockjs("websocket"),
  "sockjs xhr-streaming": () => sockjs("xhr-streaming"),
  "sockjs xhr-polling": () => sockjs("xhr-polling"),
};
Promise.resolve(clients[client]()).catch((error) => fail(error.stack || JSON.stringify(error)));
