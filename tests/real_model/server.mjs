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
const context = await model.createContext({ contextSize: 4096 });

async function complete({ messages, max_tokens: maxTokens }) {
  const system = messages.find((message) => message.role === "system");
  const user = messages.filter((message) => message.role === "user").at(-1);
  const sequence = context.getSequence();
  try {
    const session = new LlamaChatSession({
      contextSequence: sequence,
      systemPrompt: system?.content ?? "",
    });
    const text = await session.prompt(user.content, { maxTokens, temperature: 0.7 });
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

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", async () => {
    const answer = (status, document) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(document));
    };
    try {
      answer(200, await complete(JSON.parse(body)));
    } catch (error) {
      answer(500, { error: { message: String(error) } });
    }
  });
});
server.listen(0, "127.0.0.1", () => fs.writeFileSync(portFile, String(server.address().port)));
