// An agent for evalgate in Node.js, without any dependency: it speaks docs/agent-protocol.md.
//
//   evalgate run … --agent "command:node agent.mjs"
//
// Everything above the line is the protocol and can be copied as it is; the agent is below.

import { createInterface } from "node:readline";

const sessions = new Map(); // session key -> { state, abort }
const send = (message) => process.stdout.write(JSON.stringify(message) + "\n");

// stdout belongs to the protocol: what a library prints must not get into it.
console.log = console.info = console.debug = console.error;

async function turn({ session, text }) {
  const conversation = sessions.get(session);
  const abort = (conversation.abort = new AbortController());
  const report = (type, fields) => abort.signal.aborted || send({ type, session, ...fields });
  try {
    const response = await answer(text, conversation.state, report, abort.signal);
    report("done", { response, state: conversation.state });
  } catch (error) {
    const message = `the agent threw ${error}`;
    report("error", { kind: "exception", message, traceback: error?.stack });
  } finally {
    conversation.abort = undefined;
    if (abort.signal.aborted) send({ type: "cancelled", session });
  }
}

const handlers = {
  hello: () => send({ type: "ready", protocol: 1, name: "weather" }),
  start: ({ session, state }) => sessions.set(session, { state }),
  turn: (message) => void turn(message),
  cancel: ({ session }) => {
    const abort = sessions.get(session)?.abort;
    if (abort) abort.abort();
    else send({ type: "cancelled", session }); // the turn was over already
  },
  end: ({ session }) => sessions.delete(session),
};

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const message = JSON.parse(line);
    handlers[message.type]?.(message); // types of a later protocol are left alone
  })
  .on("close", () => process.exit(0)); // evalgate has hung up

// ---------------------------------------------------------------------------------------------------------

const FORECASTS = { Paris: "sunny", Oslo: "snow" };

async function answer(text, state, report, signal) {
  const city = Object.keys(FORECASTS).find((name) => text.includes(name)) ?? state.city;
  if (!city) return "Which city?";
  state.city = city;
  report("tool_call", { id: "1", name: "get_forecast", args: { city } });
  const forecast = await fetchForecast(city, signal);
  report("tool_result", { id: "1", name: "get_forecast", result: { forecast } });
  report("usage", { input_tokens: text.length, output_tokens: 4 });
  return `${city}: ${forecast}.`;
}

// Stands for a call over the network (Oslo is far away): it ends early when the turn is cancelled.
function fetchForecast(city, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, city === "Oslo" ? 60_000 : 1, FORECASTS[city]);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new Error("cancelled"));
    });
  });
}
