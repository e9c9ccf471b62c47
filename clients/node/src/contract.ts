/** The contract, loaded: the services that a channel is made for. */
import * as grpc from '@grpc/grpc-js'
import { fromJSON } from '@grpc/proto-loader'

import { descriptor } from './generated/descriptor.js'
import type { ConversationServiceStub, ToolServiceStub, WorkerMessage, WorkerServiceStub } from './generated/messages.js'

interface Services {
  ToolService: new (...of: ConstructorParameters<typeof grpc.Client>) => ToolServiceStub
  ConversationService: new (...of: ConstructorParameters<typeof grpc.Client>) => ConversationServiceStub
  WorkerService: (new (...of: ConstructorParameters<typeof grpc.Client>) => WorkerServiceStub) & {
    service: { Serve: grpc.MethodDefinition<Partial<WorkerMessage>, unknown> }
  }
}

// What scripts/contract.mjs writes as types is what these settings give.
const definition = fromJSON(descriptor as Parameters<typeof fromJSON>[0], { longs: Number, enums: String, defaults: true, arrays: true })

const loaded = grpc.loadPackageDefinition(definition) as unknown as { sidecall: { v1: Services } }

export const { ToolService, ConversationService, WorkerService } = loaded.sidecall.v1

/** The fields of a call, by name and type, as the contract has them. */
export function fieldsOfACall(): { name: string; type: string }[] {
  const { type } = definition['sidecall.v1.ExecuteToolRequest'] as unknown as { type: { field: { name: string; type: string }[] } }
  return type.field
}
