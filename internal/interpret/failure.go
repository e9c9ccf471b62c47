package interpret

import (
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// errorTypeTool is the error.type of a failure that only the mapping sees.
const errorTypeTool = "tool_error"

func badOutput(constraint string, reply *tool.Reply, err error) *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeInvalidOutput, Evidence: tool.Definite, CallerFault: true,
		ErrorType: "invalid_output", Status: reply.Status,
		Constraint: constraint, Message: tool.ShortenBytes(string(reply.Text), backend.MaxMessage), Err: err,
	}
}
