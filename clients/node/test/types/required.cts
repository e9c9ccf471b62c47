// The same for a program that is CommonJS.
import sidecall = require('@sidecall/client')

const client: sidecall.Sidecall = new sidecall.Sidecall('tcp://127.0.0.1:8470', { patience: 0 })
export const done: Promise<void> = client.close()
