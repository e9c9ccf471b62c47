package call_test

import (
	"context"

	"github.com/sidecall/sidecall/call"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

type (
	callParts = call.Parts
	ctxT      = context.Context
	response  = sidecallv1.ExecuteToolResponse
)
