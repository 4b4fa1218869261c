// Questions to the monitor.

// The monitor answered, and does not give what was asked for: `message` is what it says.
export class Refusal extends Error {
  constructor(status, text) {
    super(text || `HTTP ${status}`);
    this.status = status;
  }
}

// Returns the answer; throws a Refusal, or what fetch() throws when nobody answers within so many milliseconds.
export async function askMonitor(what, limit) {
  const answer = await fetch(`api/v1/${what}`, { signal: AbortSignal.timeout(limit) });
  if (!answer.ok) throw new Refusal(answer.status, (await answer.text()).trim().slice(0, 300));
  return answer;
}

// The page shows this in place of an answer to one question.
export function whyNot(error) {
  return error instanceof Refusal ? `The monitor refuses the question: ${error.message}` : `The monitor did not answer the question (${error.message}).`;
}
