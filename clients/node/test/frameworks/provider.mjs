// A model's provider, played by test/e2e/python/provider.py: it says what it is told to, on one port in all three formats, and
// refuses a conversation as the real ones do.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const PLAY = fileURLToPath(new URL('../../../../test/e2e/python/play.py', import.meta.url))

/** Starts one, which ends with the test. A turn is {text, calls: [[name, arguments]]}; the last one is said for ever. */
export async function play(t, script) {
  const program = spawn('python3', ['-B', PLAY], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(async () => {
    program.stdin.end()
    if (program.exitCode === null) await once(program, 'exit')
  })
  const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]()
  const ask = async (line) => {
    program.stdin.write(`${line}\n`)
    const { value, done } = await lines.next()
    if (done) throw new Error('the provider has ended')
    return value
  }
  const url = await ask(JSON.stringify({ script }))
  return {
    url,
    /** What it was asked as [path, body], and what it has refused. */
    heard: async () => JSON.parse(await ask('')),
  }
}
