package demo

import (
	"time"

	"google.golang.org/grpc/backoff"
)

// fastBackoff lets the demo's client find the restarted sidecar quickly.
var fastBackoff = backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond}

// config is the demo's config file: socket, store, shop, dead upstream.
const config = `listen: ["unix://%s"]
admin: "off"
store: {embedded: {path: %q}}
profiles: {support: {max_tool_calls: 100}, small: {max_tool_calls: 5}}
default_profile: support
defaults: {retry: {max_attempts: 3, base: 20ms, multiplier: 2, max: 100ms}}
backends:
  shop:
    http: {base_url: %q, allow_private: true}
  warehouse:
    http: {base_url: %q, allow_private: true}
    breaker: {failures: 3, window: 10s, open_for: 1s}
tools:
  get_order:
    backend: shop
    description: Look an order up by its id.
    http: {method: GET, path: "/orders/{order_id}"}
    input_schema: {type: object, properties: {order_id: {type: string, pattern: "^A-[0-9]+$"}}, required: [order_id], additionalProperties: false}
    errors:
      - {when: "status == 404", code: NOT_FOUND, hint: "Order ids look like A-1. Ask the user for the right one, then call get_order again."}
  get_report:
    backend: shop
    description: A tool with a bug.
    http: {method: GET, path: "/throws"}
    input_schema: {type: object, properties: {}, additionalProperties: false}
  get_temperature:
    backend: shop
    description: A tool whose upstream is noisy.
    http: {method: GET, path: "/noisy"}
    input_schema: {type: object, properties: {}, additionalProperties: false}
  refund:
    backend: shop
    description: Refund an order.
    effect: keyed
    effect_key: {args: [order_id, cents]}
    http: {method: POST, path: "/refunds", idempotency_header: Idempotency-Key}
    input_schema: {type: object, properties: {order_id: {type: string}, cents: {type: integer, minimum: 1}}, required: [order_id, cents], additionalProperties: false}
  charge:
    backend: shop
    description: Charge a card. Must not happen twice.
    verify_with: get_order
    http: {method: POST, path: "/charges"}
    input_schema: {type: object, properties: {order_id: {type: string}, cents: {type: integer, minimum: 1}}, required: [order_id, cents], additionalProperties: false}
  charge_slowly:
    backend: shop
    description: Charge a card through a slow processor. Must not happen twice.
    verify_with: get_order
    http: {method: POST, path: "/slow-charges"}
    input_schema: {type: object, properties: {order_id: {type: string}, cents: {type: integer, minimum: 1}}, required: [order_id, cents], additionalProperties: false}
  create_ticket:
    backend: shop
    description: Open a support ticket.
    http: {method: POST, path: "/tickets"}
    input_schema:
      type: object
      properties:
        title: {type: string, minLength: 1}
        priority: {type: string, enum: [low, medium, high, urgent]}
        due: {type: string, format: date}
        watchers: {type: array, items: {type: string, format: email}}
      required: [title, priority, due]
      additionalProperties: false
  export_orders:
    backend: shop
    description: Every order there is.
    http: {method: GET, path: "/export"}
    input_schema: {type: object, properties: {}, additionalProperties: false}
  get_stock:
    backend: warehouse
    description: Stock of an article.
    http: {method: GET, path: "/stock"}
    input_schema: {type: object, properties: {}, additionalProperties: false}
`
