/** Writes src/generated/. A file that is as it should be is left as it is. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'

import { modules } from './contract.mjs'

const place = new URL('../src/generated/', import.meta.url)
mkdirSync(place, { recursive: true })
for (const [name, text] of Object.entries(modules())) {
  const file = new URL(name, place)
  if (existsSync(file) && readFileSync(file, 'utf8') === text) continue
  const whole = new URL(`${name}.${process.pid}`, place) // another build may be reading
  writeFileSync(whole, text)
  renameSync(whole, file)
}
