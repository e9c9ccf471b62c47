package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/tool"
)

// writeIndented prints a value as JSON.
func writeIndented(out io.Writer, v any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// writeMessage prints a message as JSON.
func writeMessage(out io.Writer, m proto.Message) error {
	encoded, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(m)
	if err != nil {
		return fail(exitUnavailable, err)
	}
	_, err = fmt.Fprintln(out, string(encoded))
	return err
}

// jsonList is a list for programs: one JSON array, an entry per line.
type jsonList[M proto.Message] struct {
	out  io.Writer
	some bool
}

func (j *jsonList[M]) write(part []M) error {
	var b strings.Builder
	for _, one := range part {
		encoded, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(one)
		if err != nil {
			return fail(exitUnavailable, err)
		}
		separator := ",\n"
		if !j.some {
			j.some, separator = true, "[\n"
		}
		b.WriteString(separator)
		b.Write(encoded)
	}
	_, err := io.WriteString(j.out, b.String())
	return err
}

func (j *jsonList[M]) end() error {
	closing := "\n]\n"
	if !j.some {
		closing = "[]\n"
	}
	_, err := io.WriteString(j.out, closing)
	return err
}

// table prints a list for people in parts, each aligned by itself.
func table[M proto.Message](out io.Writer, head string, row func(M) string) func(part []M) error {
	return func(part []M) error {
		if len(part) == 0 {
			return nil
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		if head != "" { // which stands above the first part
			fmt.Fprintln(w, head)
			head = ""
		}
		for _, one := range part {
			fmt.Fprintln(w, row(one))
		}
		return w.Flush()
	}
}

// printList prints a list page by page, for programs or as people prints a part, and no more of it than
// limit, where that is not 0. It says how many it has printed, and whether there are more.
func printList[M proto.Message](o *operating, people func(part []M) error, limit int,
	page func(token string) (part []M, next string, err error),
) (listed int, more bool, err error) {
	write, end := people, func() error { return nil }
	if o.asJSON {
		list := &jsonList[M]{out: o.cmd.OutOrStdout()}
		write, end = list.write, list.end
	}
	for token, last := "", false; !last; last = token == "" || more {
		part, next, err := page(token)
		if err != nil {
			return listed, more, o.failed(err)
		}
		if limit > 0 && len(part) > limit-listed {
			part, more = part[:limit-listed], true
		}
		if err := write(part); err != nil {
			return listed, more, err
		}
		listed, token = listed+len(part), next
	}
	return listed, more, end()
}

// writeCount says how many calls a list has: none, or how to go on.
func (o *operating) writeCount(listed int, more bool, none, then string) {
	count := tool.Count(listed, "call")
	switch {
	case listed == 0 && !more:
		count = none
	case o.asJSON:
		return
	case more:
		count = "the first " + count + ", and more. " + then
	default:
		count += ". " + then
	}
	fmt.Fprintln(o.cmd.ErrOrStderr(), "sidecall: "+count)
}

// age is how long ago an instant was, to two digits or so.
func age(at time.Time) string {
	d := max(0, time.Since(at))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
}

// printable shows an id, which somebody else has chosen, on a terminal: quoted
// when it is not plain, so that what is shown can be pasted.
func printable(id string) string {
	quoted := fmt.Sprintf("%q", id)
	if id == "" || strings.ContainsAny(id, " \t") || quoted != `"`+id+`"` {
		return quoted
	}
	return id
}
