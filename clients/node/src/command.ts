/** Writes which program is the sidecar to descriptor 3, for bin/sidecall. */
import { writeFileSync } from 'node:fs'

import { program } from './binary.js'

/** The exit code of a sidecar that could not start. */
const NOT_STARTED = 3

program(undefined).then(
  (file) => writeFileSync(3, file),
  (error: Error) => {
    console.error(`sidecall: ${error.message}`)
    process.exitCode = NOT_STARTED
  })
