// Writes which program is the sidecar to descriptor 3, for bin/sidecall-wrap: the one of the package for this platform.
const { writeFileSync } = require('node:fs')

const name = `@sidecall/${process.platform}-${process.arch}`
try {
  writeFileSync(3, process.env.SIDECALL_BINARY || require(name).binary)
} catch (error) {
  console.error(`sidecall-wrap: there is no sidecar for this machine (${name}): ${error.message.split('\n')[0]}`)
  process.exitCode = 3
}
