// A server of OpenAI's chat completions around a small language model on the CPU.
//
//   node server.mjs MODEL.gguf PORT_FILE
//
// Writes the port that it listens on to PORT_FILE.
import fs from "node:fs";
import http from "node:http";
import { LlamaChatSession, getLlama } from "node-llama-cpp";

const [modelPath, portFile] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: "never" });
const model = await llama.loadModel({ modelPath });
// One thread: several wait for each other in loops, which a busy machine turns into minutes.
const context = await model.createContext({ contextSize: 4096, threads: 1 });

async function complete({ messages, max_tokens: maxTokens }, signal) {
  const system = messages.find((message) => message.role === "system");
  const user = messages.filter((message) => message.role === "user").at(-1);
  const sequence = context.getSequence();
  try {
    const session = new LlamaChatSession({
      contextSequence: sequence,
      systemPrompt: system?.content ?? "",
    });
    const options = { maxTokens, temperature: 0.7, signal, stopOnAbortSignal: true };
    const text = await session.prompt(user.content, options);
    const count = (part) => model.tokenize(part ?? "").length;
    return {
      choices: [{ message: { role: "assistant", content: text }, finish_reason: "stop" }],
      usage: {
        prompt_tokens: count(system?.content) + count(user.content),
        completion_tokens: count(text),
      },
    };
  } finally {
    sequence.dispose();
  }
}

// One reply at a time: there is one sequence.
let last = Promise.resolve();

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  // Whoever has gone away needs no answer.
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  request.on("end", () => {
    const answer = (status, document) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(document));
    };
    last = last
      .then(() => complete(JSON.parse(body), gone.signal))
      .then((document) => answer(200, document))
      .catch((error) => answer(500, { error: { message: String(error) } }));
  });
});
server.listen(0, "127.0.0.1", () => fs.writeFileSync(portFile, String(server.address().port)));
