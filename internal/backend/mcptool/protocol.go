package mcptool

// Protocol versions that are asked for. Servers know the handshake of the first
// for years to come; the second is stateless and for servers that know only it.
const (
	settledProtocol = "2025-11-25"
	newestProtocol  = "2026-07-28"
)
