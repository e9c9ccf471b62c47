package faultproxy

import "bytes"

// Direction is the way that bytes go.
type Direction int

const (
	// ToTarget is from the client to the target: requests.
	ToTarget Direction = iota
	// ToClient is from the target to the client: answers.
	ToClient
)

// Hook decides about each chunk of bytes of one connection, as it is read from
// one side and before anything of it reaches the other. It is called for one
// chunk of its connection at a time, must not block, and must not keep chunk.
type Hook func(way Direction, chunk []byte) Action

// Action is what happens to a chunk.
type Action struct {
	keep   int // bytes of the chunk that still pass
	ending ending
}

type ending int

const (
	goesOn ending = iota
	finishes
	closes
	resets
	mutes
)

// Pass lets the chunk through.
var Pass = Action{}

// Close lets keep bytes of the chunk through and then closes the connection, on
// both sides.
func Close(keep int) Action { return Action{keep, closes} }

// Reset lets keep bytes of the chunk through and then resets the connection, on
// both sides.
func Reset(keep int) Action { return Action{keep, resets} }

// Mute lets keep bytes of the chunk through and nothing more in this direction,
// ever: what comes is lost. The connection stays open, and the other direction
// works, until the client closes it.
func Mute(keep int) Action { return Action{keep, mutes} }

// Contains matches requests in which text occurs.
func Contains(text string) func(request []byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(text)) }
}
