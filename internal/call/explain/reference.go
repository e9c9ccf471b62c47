package explain

import (
	"fmt"

	"github.com/sidecall/sidecall/internal/tool"
)

// Reference is an argument that stands for a part of an output.
type Reference struct {
	// Field is the path of the argument, Received what was sent for it.
	Field, Received string
	// Tool is what is called.
	Tool string
}

func (r Reference) wrong(constraint, hint string) tool.Error {
	return tool.Error{
		Code: tool.CodeInvalidArgs, Field: r.Field, Constraint: constraint, Received: r.Received,
		Hint: hint + ", then call " + r.Tool + " again.",
	}
}

// asOne is how a reference is written.
const asOne = `{"$output_ref": "out_…", "path": "$.items[0].id"}`

// Misshapen refuses what looks like a reference and is none.
func (r Reference) Misshapen(why string) tool.Error {
	return r.wrong("a reference to an output "+why, "Write it as "+asOne+", or without path for the output as a text")
}

// AllArguments refuses a reference in the place of all arguments.
func (r Reference) AllArguments() tool.Error {
	return r.wrong("a reference stands for one argument, not for all of them", "Send an object of arguments, each with a value or a reference of its own")
}

// TooMany refuses references beyond the most of them.
func (r Reference) TooMany(most int) tool.Error {
	return r.wrong(fmt.Sprintf("a call may refer to outputs %d times", most), "Refer to what holds several of these values at once, or write some of them yourself")
}

// NoSuch refuses a reference to what this conversation cannot read. It is the same for
// what never was, is not there any more, and is of others.
func (r Reference) NoSuch() tool.Error {
	return r.wrong("no output of this conversation is kept under this output_ref: it has expired, or never was",
		"Use an output_ref exactly as a notice gave it; if it has expired, call the tool that returned it again")
}

// NoText refuses a reference to what cannot be an argument.
func (r Reference) NoText(mediaType string) tool.Error {
	return r.wrong("the output is no text but "+tool.Shorten(mediaType, 100), "Refer to an output that is text or JSON")
}

// Partial refuses a reference to an output of which only a part was kept.
func (r Reference) Partial() tool.Error {
	return r.wrong("only the beginning of the output was kept, and a part would pass for all of it",
		"Call the tool that returned it for less at a time and refer to that")
}

// Damaged refuses a reference to an output that cannot be read.
func (r Reference) Damaged() tool.Error {
	return r.wrong("the output under this output_ref is damaged", "Call the tool that returned it again and refer to its new output")
}

// WrongPath refuses a path that leads nowhere; why says how far it leads, or where in it
// something else was expected.
func (r Reference) WrongPath(why error) tool.Error {
	return r.wrong("path: "+why.Error(), "Correct path; look at the output with read_output where you do not know what it holds")
}

// TooMuch refuses references that bring more than may be passed.
func (r Reference) TooMuch(most int) tool.Error {
	return r.wrong(fmt.Sprintf("what the references of a call bring may have %d bytes in all", most), "Refer to a narrower part of the output")
}

// TooMuchRead refuses references to more output than is read for one call.
func (r Reference) TooMuchRead(read int) tool.Error {
	return r.wrong(fmt.Sprintf("%d bytes of outputs were read for this call, and no more are", read), "Refer to fewer outputs at a time, or read this one with read_output and write the value yourself")
}

// TooManyValues refuses references that bring more values than arguments may have.
func (r Reference) TooManyValues(most int) tool.Error {
	return r.wrong(fmt.Sprintf("what it brings is nested too deep, has a number out of range, or more than %d values", most), "Refer to a narrower part of the output")
}

// DoesNotFit is the hint where what a reference brings breaks the schema. Nothing of it
// is told: it has not passed through the model, and may be written to be read by one.
func (r Reference) DoesNotFit() string {
	return "What this argument refers to does not fit, or a part of it does not: choose another path or output, or write the value yourself, then call " + r.Tool + " again."
}
