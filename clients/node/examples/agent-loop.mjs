/**
 * A whole agent loop with a scripted model: no account, no network.
 *
 * The model makes the mistakes that models make: a misspelt tool, a misspelt
 * argument, a value that is not in the list, a number as a string, a date in
 * words. It repairs each from the five fields of the error and nothing else; it
 * never looks at a schema.
 *
 * usage: agent-loop.mjs [TARGET], against a sidecar run with
 * clients/examples/sidecall.yaml
 */
import { randomUUID } from 'node:crypto'

import { DEFAULT_TARGET, Sidecall } from '@sidecall/client'

const MAX_TURNS = 8

/** Stands for the provider: wants two tickets, and gets them wrong. */
class ScriptedModel {
  wishes = [
    { toolName: 'create_ticket', args: { title: 'Printer on fire', priority: 'urgnt', due: 'tomorrow' } },
    { toolName: 'creat_ticket', args: { title: 'Water in the server room', prioritty: 'high', people: '3' } },
  ]

  /** The tool calls of the next assistant turn. Like some providers, this one starts its ids again in every turn. */
  toolCalls() {
    return this.wishes.map(({ toolName, args }, i) => ({ toolUseId: `call_${i}`, toolName, argumentsJson: JSON.stringify(args) }))
  }

  /** Reads the results of its calls; what failed is wanted again, repaired. */
  observe(results) {
    this.wishes = this.wishes.flatMap((wish, i) => (results[i].isError ? [repair(wish, results[i])] : []))
  }
}

/** Corrects a call by what its error says, violation by violation. */
function repair({ toolName, args }, { error, violations, content }) {
  args = { ...args }
  for (const v of violations.length > 0 ? violations : [error]) {
    const keyword = v.constraint.split(': ', 1)[0]
    const { suggestion, example } = suggested(v.hint)
    if (v.code === 'UNKNOWN_TOOL' && suggestion) {
      toolName = suggestion
    } else if (v.code !== 'INVALID_ARGS') {
      throw new Error(`cannot repair ${content}`)
    } else if (keyword === 'additionalProperties') {
      if (suggestion) args[suggestion] = args[v.field]
      delete args[v.field]
    } else if (keyword === 'required' && suggestion) {
      args[v.field] = args[suggestion]
      delete args[suggestion]
    } else if (suggestion !== undefined || example !== undefined) {
      args[v.field] = suggestion ?? example
    } else {
      throw new Error(`cannot repair ${content}`)
    }
  }
  return { toolName, args }
}

/** The X of Did you mean "X"? and of e.g. X in a hint; both are JSON. */
function suggested(hint) {
  const name = /Did you mean ("(?:[^"\\]|\\.)*")\?/.exec(hint)?.[1]
  const rest = hint.split('e.g. ')[1]
  return { suggestion: name && JSON.parse(name), example: rest && leadingJSON(rest) }
}

/** The JSON value that a text begins with. */
function leadingJSON(text) {
  for (let end = text.length; end > 0; end--) {
    try {
      return JSON.parse(text.slice(0, end))
    } catch {
      // one character less, then
    }
  }
  return undefined
}

async function runTurn(sidecall, conversationId, turn, calls) {
  // All that happens here is for one message of the user: one prompt.
  const results = await sidecall.executeTools(calls, { conversationId, promptId: '1', turnId: String(turn) }, { rpcTimeout: 60_000 })
  for (const [i, r] of results.entries()) {
    const state = r.isError ? r.error.code : r.replayed ? 'replayed' : 'ok'
    console.log(`turn ${turn} ${r.toolUseId} ${calls[i].toolName} ${calls[i].argumentsJson ?? ''}\n  ${state}: ${r.content}`)
  }
  if (results.some((r) => r.stop)) throw new Error('told to stop: the model goes round in circles')
  return results
}

async function main() {
  const conversationId = `example-${randomUUID()}`
  const model = new ScriptedModel()
  const sidecall = new Sidecall(process.argv[2] ?? DEFAULT_TARGET)
  try {
    const tools = await sidecall.listTools('', { rpcTimeout: 10_000 })
    console.log('tools:', tools.map((t) => t.name).join(', '))
    let turn = 0
    let calls = []
    while (model.wishes.length > 0 && turn < MAX_TURNS) {
      turn++
      calls = model.toolCalls()
      model.observe(await runTurn(sidecall, conversationId, turn, calls))
    }
    if (model.wishes.length > 0) throw new Error(`not done after ${MAX_TURNS} turns`)

    // The answer to the last turn got lost, say, and the loop sends it again:
    // the ids are the same, so nothing runs a second time.
    await runTurn(sidecall, conversationId, turn, calls)

    const [tickets] = await runTurn(sidecall, conversationId, turn + 1, [{ toolUseId: 'call_0', toolName: 'list_tickets' }])
    console.log(`done: ${tickets.content.trimEnd().split('\n').length} tickets after ${turn} turns`)
  } finally {
    await sidecall.close()
  }
}

await main()
