// A sidecar that answers as it is told to.
import grpc from '@grpc/grpc-js'

import { Sidecall } from '@sidecall/client'

import { readMessage, runMessage } from './reading.mjs'

/**
 * Records every request; every call is answered with its arguments, unless the test says otherwise.
 * @param {(server: grpc.Server) => void} [more] Further services.
 */
export async function fakeSidecar() {
  const fake = {
    requests: [], // as [rpc, request]
    most: [], // how large what answers a message may be
    statuses: [], // of the next requests
    result: (call) => ({ toolUseId: call.toolUseId, content: call.argumentsJson }),
    cancelled: [],
    hold: false,
    sent: (rpc) => fake.requests.filter(([name]) => name === rpc).map(([, request]) => request),
    calls: () => fake.sent('executeTools').flatMap((r) => r.calls),
    ended: () => fake.sent('endPrompt').map((r) => r.exitReason),
  }
  const rpc = (name, answer) => (call, done) => {
    fake.requests.push([name, call.request])
    call.on('cancelled', () => fake.cancelled.push(name))
    fake.arrived?.()
    if (fake.statuses.length > 0) return done({ code: fake.statuses.shift(), details: 'as the test wants it' })
    if (fake.hold) return
    try {
      done(null, answer(call.request))
    } catch (error) {
      done(error)
    }
  }
  /** Calls of a message, which are a batch of the fake. */
  const execute = (calls) => {
    fake.requests.push(['executeTools', { calls }])
    return calls.map(fake.result)
  }
  const asks = (name, answer) => (call, done) => {
    fake.arrived?.()
    call.on('cancelled', () => fake.cancelled.push(name))
    if (fake.statuses.length > 0) {
      fake.requests.push([name, call.request])
      return done({ code: fake.statuses.shift(), details: 'as the test wants it' })
    }
    if (fake.hold) return
    try {
      done(null, answer(call.request))
    } catch (error) {
      done(error)
    }
  }
  const server = new grpc.Server()
  const any = new Sidecall()
  server.addService(any.stub.constructor.service, {
    executeTool: rpc('executeTool', (call) => fake.result(call)),
    executeTools: rpc('executeTools', ({ calls }) => ({ results: calls.map(fake.result) })),
    readMessage: (call, done) => {
      try {
        done(null, readMessage(call.request))
      } catch (error) {
        done(error)
      }
    },
    runMessage: asks('runMessage', (request) => {
      fake.most.push(Number(request.maxResponseBytes))
      return request.openAtVersion ? fake.book.open(request, execute) : runMessage(request, execute)
    }),
    // A list that has no end, for who asks for it.
    listTools: rpc('listTools', ({ profile, provider }) => ({ tools: [{ name: 't', inputSchemaJson: '{}' }], definitionsJson: provider ? [JSON.stringify({ of: provider, name: 't', input_schema: {} })] : [], nextPageToken: profile === 'endless' ? 'again' : '' })),
    getInstructions: rpc('getInstructions', () => ({ text: 'Read the code.' })),
    getExecution: rpc('getExecution', () => ({})),
    readOutput: rpc('readOutput', () => ({})),
  })
  server.addService(any.conversations.constructor.service, {
    startPrompt: rpc('startPrompt', () => ({})),
    endPrompt: rpc('endPrompt', () => ({})),
    appendMessages: rpc('appendMessages', (request) => fake.book.append(request)),
    resumeConversation: rpc('resumeConversation', () => fake.book.resume()),
    loadConversation: rpc('loadConversation', ({ fromVersion }) => fake.book.pageFrom(fromVersion)),
  })
  any.close()
  const port = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, p) => (error ? reject(error) : resolve(p))))
  fake.target = `tcp://127.0.0.1:${port}`
  fake.end = () => server.forceShutdown()
  return fake
}
