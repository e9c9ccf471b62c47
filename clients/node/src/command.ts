/** Prints which program is the sidecar, for bin/sidecall. */
import { program } from './binary.js'

/** The exit code of a sidecar that could not start. */
const NOT_STARTED = 3

program(undefined).then(
  (file) => process.stdout.write(file),
  (error: Error) => {
    console.error(`sidecall: ${error.message}`)
    process.exitCode = NOT_STARTED
  })
