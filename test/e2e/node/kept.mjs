// An agent whose conversation the sidecar keeps: it begins it, or goes on with it, and prints how it has ended and what
// is kept.
//
// usage: kept.mjs TARGET PROVIDER FORMAT
import { Sidecall } from '../../../clients/node/dist/esm/index.js'

const PATHS = { anthropic: '/v1/messages', openai: '/v1/chat/completions', 'openai-responses': '/v1/responses' }

const [target, url, format] = process.argv.slice(2)

async function ask(messages) {
  const field = format === 'openai-responses' ? 'input' : 'messages'
  const answer = await fetch(url + PATHS[format], { method: 'POST', body: JSON.stringify({ model: 'played', max_tokens: 100, [field]: messages }) })
  if (!answer.ok) throw new Error(await answer.text())
  return answer.json()
}

const sidecall = new Sidecall(target)
const kept = await sidecall.conversation('c-1', format)
const loop = await sidecall.runLoop(ask, kept.version > 0 ? [] : [{ role: 'user', content: 'Pay.' }], { keep: kept })
console.log(JSON.stringify({ reason: loop.exitReason, turns: loop.turns, texts: kept.texts }))
await sidecall.close()
