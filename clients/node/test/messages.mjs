// One message of each provider, with two calls.
export const ANTHROPIC = {
  id: 'msg_1', type: 'message', role: 'assistant', stop_reason: 'tool_use',
  content: [
    { type: 'text', text: 'Let me look.' },
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
    { type: 'tool_use', id: 'toolu_1', name: 'get_order', input: { order_id: 'A-1' } },
    { type: 'tool_use', id: 'toolu_2', name: 'list_orders', input: {} },
  ],
  usage: { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 100 },
}

export const CHAT = {
  id: 'chatcmpl-1', object: 'chat.completion',
  choices: [{
    index: 0, finish_reason: 'tool_calls',
    message: { role: 'assistant', content: null, tool_calls: [
      { id: 'call_1', type: 'function', function: { name: 'get_order', arguments: '{"order_id":"A-1"}' } },
      { id: 'call_2', type: 'function', function: { name: 'list_orders', arguments: '' } },
    ] },
  }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
}

export const RESPONSE = {
  id: 'resp_1', object: 'response', status: 'completed',
  output: [
    { type: 'reasoning', id: 'rs_1', summary: [] },
    { type: 'web_search_call', id: 'ws_1', status: 'completed' },
    { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'get_order', arguments: '{"order_id":"A-1"}' },
    { type: 'function_call', id: 'fc_2', call_id: 'call_2', name: 'list_orders', arguments: '' },
  ],
  usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
}

export const DONE = {
  id: 'msg_9', type: 'message', role: 'assistant', stop_reason: 'end_turn',
  content: [{ type: 'text', text: 'Done.' }], usage: { input_tokens: 1, output_tokens: 1 },
}
