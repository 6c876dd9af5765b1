// The plain server beside which streaming is measured: the `ws` library as its examples use it.
// Everybody who connects listens; what is posted to /publish is sent to all of them.
const http = require("http");
const { WebSocketServer, WebSocket } = require("ws");

const server = http.createServer((request, response) => {
  if (request.method !== "POST" || request.url !== "/publish") {
    response.writeHead(404).end();
    return;
  }
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const text = Buffer.concat(parts).toString();
    const message = JSON.stringify({ stream: ["public"], event: "update", payload: text });
    for (const client of sockets.clients) {
      if (client.readyState === WebSocket.OPEN) client.send(message);
    }
    response.writeHead(200).end("ok");
  });
});
const sockets = new WebSocketServer({ server });
server.listen(Number(process.argv[2]), "127.0.0.1");
