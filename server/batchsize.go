package server

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// batchCalls is the number of the field calls of an ExecuteToolsRequest.
const batchCalls protowire.Number = 1

// fewEnough refuses a batch of more calls than one may have before it is read: an
// empty call has two bytes on the wire and two hundred in memory, so that 4 MiB of
// them would become 400. What is no message at all is left to who reads it.
func fewEnough(data mem.BufferSlice, most int) error {
	if data.Len() <= 2*most {
		return nil // each has a tag and a length
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if n := callsIn(whole.ReadOnlyData()); n > most {
		return tooManyCalls(n, most)
	}
	return nil
}

// callsIn counts the calls of an encoded batch, as far as it can be read.
func callsIn(encoded []byte) (calls int) {
	for len(encoded) > 0 {
		number, _, size := protowire.ConsumeField(encoded)
		if size < 0 {
			return calls
		}
		if number == batchCalls {
			calls++
		}
		encoded = encoded[size:]
	}
	return calls
}

// tooManyCalls is the status of such a batch.
func tooManyCalls(calls, most int) error {
	return status.Errorf(codes.InvalidArgument,
		"calls: %d calls in one request, the setting limits.max_batch takes %d at most; send the rest in a further request", calls, most)
}
